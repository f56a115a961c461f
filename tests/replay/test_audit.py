"""The audit finds what was changed, names it by its code and cursor, and tells no word of content."""

from __future__ import annotations

import json
import shutil

import msgspec
import pytest

from journal import layout, limits
from journal.events import EventType
from journal.frames import encode_frame, leaf_hash
from journal.lifecycle import Operation, State
from journal.log import Journal
from journal.merkle import root_of
from journal.store.lmdb import tables
from projections.serving import make_projections
from replay.audit import audit
from tests.replay.tampering import changed, tampered
from tests.tools.memory.world import OTHER, ROOT_KEY, SCOPE, World, forgetting
from tools.host.capabilities import FORGET

KEPT, GONE, WAITING = "Words that are kept.", "Words that go away.", "Words that wait."

# Cursors of the store that ``story`` makes.
CAPTURE, ACCEPT, CAPTURE_GONE, ACCEPT_GONE, WAIT = 1, 2, 3, 4, 5
REQUESTED, APPROVED, TOMBSTONE = 6, 7, 8


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path / "store")
    yield made
    made.close()


@pytest.fixture
def story(world):
    """A closed store with a kept record, a forgotten one and a pending candidate."""
    agent = world.caller()
    agent.remember(KEPT)
    gone = agent.remember(GONE)
    agent.capture(WAITING)
    agent.forget(gone)
    kinds = [kind for kind, _ in agent.events()][:TOMBSTONE]
    assert kinds == [
        "capture", "accept", "capture", "accept", "capture", "confirmation_requested", "confirmation_approved",
        "tombstone",
    ]  # fmt: skip
    world.close()
    return world


def _report(world, **how):
    journal = Journal.open(world.path, ROOT_KEY, clock=world.clock, readonly=True)
    try:
        report = audit(journal, world.path / layout.PROJECTIONS, make_projections, **how)
    finally:
        journal.close()
    text = json.dumps(report.as_json(), ensure_ascii=False)
    assert not any(words in text for words in (KEPT, GONE, WAITING, "Words"))
    return report


def _findings(world):
    """Return (code, cursor) of every finding, of all scopes."""
    report = _report(world)
    assert report.ok is False
    return [(finding.code, finding.cursor) for scope in report.scopes for finding in scope.findings]


def _change(world, change, scope=SCOPE):
    with tampered(world.path, scope) as opened:
        change(opened)


def _forge(world, cursor, **fields):
    _change(world, lambda opened: opened.forge(changed(opened.headers(), cursor, **fields)))


# --- clean ------------------------------------------------------------------------------------------


def test_clean(story):
    report = _report(story)
    assert report.ok
    (scope,) = report.scopes
    with tampered(story.path, SCOPE) as opened:
        frames = opened.rows(tables.EVENTS)
    assert scope.events == len(frames) == scope.head.cursor
    assert scope.root == root_of(leaf_hash(frames[key]) for key in sorted(frames))
    bodies = {verdict.value: count for verdict, count in scope.bodies.items()}
    assert bodies["missing"] == 0
    assert bodies["erased"] == 2  # the forgotten record, and the decided request
    with tampered(story.path, SCOPE) as opened:
        parts = len(opened.rows(b"content")) + len(opened.rows(b"ledger"))
    assert sum(bodies.values()) == parts


@pytest.mark.parametrize("page", [1, 2, 3, 7])
def test_pages_change_nothing(story, monkeypatch, page):
    whole = _report(story).as_json()
    monkeypatch.setattr(limits, "READ_PAGE_EVENTS", page)
    assert _report(story).as_json() == whole


def test_progress_grows_to_the_whole(story):
    told = []
    _report(story, progress=lambda done, total: told.append((done, total)))
    assert told == sorted(told)
    assert told[-1][0] == told[-1][1] > 0


def test_every_scope_is_walked_and_only_the_broken_one_is_named(world):
    world.caller().remember(KEPT)
    world.caller(OTHER).remember(GONE)
    world.close()
    _change(world, lambda opened: opened.delete(b"content", 1), OTHER)
    report = _report(world)
    assert {scope.scope: bool(scope.findings) for scope in report.scopes} == {SCOPE: False, OTHER: True}
    assert not report.ok


def test_every_legal_operation_is_legal_here(world):
    agent = world.caller()
    for operations in (
        [Operation.DISPUTE, Operation.RESOLVE_DISPUTE, Operation.MARK_NON_CURRENT, Operation.EXPIRE],
        [Operation.DISPUTE, Operation.EXPIRE, Operation.TOMBSTONE],
        [Operation.TRUST_INVALIDATE, Operation.TOMBSTONE],
    ):
        candidate = agent.capture(f"{KEPT} {operations}")
        agent.admit(candidate)
        for operation in operations:
            agent.transit(candidate, operation)
    old, new = agent.capture(KEPT), agent.capture(GONE)
    agent.admit(old)
    agent.admit(new)
    agent.transit(old, Operation.SUPERSEDE, new)
    agent.transit(old, Operation.REWIND, new)
    agent.transit(new, Operation.TOMBSTONE)
    world.journal.finish_destructions(SCOPE)
    world.close()
    assert _report(world).ok


# --- events -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("cursor", [1, 4, -1])
def test_a_missing_event(story, cursor):
    with tampered(story.path, SCOPE) as opened:
        cursor = cursor % (opened.record().cursor + 1) or 1
        opened.delete(tables.EVENTS, cursor)
    report = _report(story)
    (scope,) = report.scopes
    assert ("CURSOR_GAP", cursor) in [(each.code, each.cursor) for each in scope.findings]
    assert scope.root is None
    assert scope.events == scope.head.cursor - 1


def test_a_frame_that_is_none(story):
    _change(story, lambda opened: opened.put(tables.EVENTS, ACCEPT, b"no frame"))
    assert ("JOURNAL_CORRUPT", ACCEPT) in _findings(story)


def test_a_rewritten_event_is_betrayed_by_the_next(story):
    def rewrite(opened):
        header = opened.headers()[ACCEPT - 1]
        other = msgspec.structs.replace(header, actor=msgspec.structs.replace(header.actor, principal="another"))
        opened.put(tables.EVENTS, ACCEPT, encode_frame(other))

    _change(story, rewrite)
    codes = _findings(story)
    assert ("JOURNAL_CORRUPT", ACCEPT) in codes or ("JOURNAL_CORRUPT", ACCEPT + 1) in codes


def test_a_rewritten_last_event_is_betrayed_by_the_commit_record(story):
    def rewrite(opened):
        header = opened.headers()[-1]
        other = msgspec.structs.replace(header, actor=msgspec.structs.replace(header.actor, principal="another"))
        opened.put(tables.EVENTS, header.cursor, encode_frame(other))

    _change(story, rewrite)
    assert any(code == "JOURNAL_CORRUPT" for code, _ in _findings(story))


def test_another_scopes_event(world):
    world.caller().remember(KEPT)
    world.caller(OTHER).remember(KEPT)
    world.close()
    with tampered(world.path, OTHER) as opened:
        foreign = opened.get(tables.EVENTS, 1)
    _change(world, lambda opened: opened.put(tables.EVENTS, 1, foreign))
    assert ("JOURNAL_CORRUPT", 1) in _findings(world)


@pytest.mark.parametrize("fields", [{"type": EventType.MESSAGE}, {"type": 31}, {"type": 200}, {"format": 2}], ids=str)
def test_an_event_from_the_future_is_named_as_such(story, fields):
    _forge(story, ACCEPT, **fields)
    assert ("REGISTRY_VERSION_UNAVAILABLE", ACCEPT) in _findings(story)


def test_a_clock_that_ran_back(story):
    _forge(story, ACCEPT, recorded_at=1)
    assert ("JOURNAL_CORRUPT", ACCEPT) in _findings(story)


def test_an_identity_twice(story):
    with tampered(story.path, SCOPE) as opened:
        first = opened.headers()[CAPTURE - 1]
    _forge(story, WAIT, event_id=first.event_id)
    assert ("DIGEST_CONFLICT", WAIT) in _findings(story)


def test_findings_are_bounded(story, monkeypatch):
    with tampered(story.path, SCOPE) as opened:
        for cursor in (ACCEPT, ACCEPT_GONE, TOMBSTONE):
            opened.delete(b"ledger", cursor)
    monkeypatch.setattr(limits, "AUDIT_FINDINGS_MAX", 2)
    (scope,) = _report(story).scopes
    assert len(scope.findings) == 2
    assert scope.unlisted == 1
    assert scope.as_json()["findings"][-1]["detail"] == "1 further findings"


# --- legality ---------------------------------------------------------------------------------------

ILLEGAL = [
    (ACCEPT, {"type": EventType.DISPUTE, "to_state": State.ACCEPTED_DISPUTED}, "ILLEGAL_TRANSITION"),
    (ACCEPT, {"to_state": State.EXPIRED}, "JOURNAL_CORRUPT"),
    (ACCEPT, {"from_state": State.ABSENT}, "JOURNAL_CORRUPT"),
    (ACCEPT, {"record_id": None}, "JOURNAL_CORRUPT"),
    (ACCEPT, {"subject": None}, "JOURNAL_CORRUPT"),
    (ACCEPT, {"subject": "candidate_" + 64 * "0"}, "ILLEGAL_TRANSITION"),
    (ACCEPT, {"subject": "confirmation_" + 32 * "0"}, "JOURNAL_CORRUPT"),
    (CAPTURE, {"content_digest": None}, "JOURNAL_CORRUPT"),
    (CAPTURE, {"key_id": None}, "JOURNAL_CORRUPT"),
    (CAPTURE, {"to_state": State.ACCEPTED_CURRENT}, "JOURNAL_CORRUPT"),
    (TOMBSTONE, {"type": EventType.REWIND, "to_state": State.ACCEPTED_CURRENT}, "ILLEGAL_TRANSITION"),
    (TOMBSTONE, {"type": EventType.SUPERSEDE, "to_state": State.HISTORICAL}, "ILLEGAL_TRANSITION"),
    (APPROVED, {"subject": "confirmation_" + 32 * "0"}, "JOURNAL_CORRUPT"),
    (APPROVED, {"to_state": 3}, "JOURNAL_CORRUPT"),
    (REQUESTED, {"subject": "candidate_" + 64 * "0"}, "JOURNAL_CORRUPT"),
]


@pytest.mark.parametrize(("cursor", "fields", "code"), ILLEGAL)
def test_an_illegal_event_in_a_chain_that_holds(story, cursor, fields, code):
    _forge(story, cursor, **fields)
    assert (code, cursor) in _findings(story)


def test_a_legal_event_in_a_forged_chain_makes_what_follows_illegal(story):
    _forge(story, ACCEPT_GONE, type=EventType.WITHDRAW, to_state=State.WITHDRAWN, record_id=None)
    assert ("ILLEGAL_TRANSITION", TOMBSTONE) in _findings(story)


@pytest.mark.parametrize("kind", [EventType.ACCEPT, EventType.REJECT, EventType.WITHDRAW])
def test_nothing_follows_a_terminal_state(story, kind):
    to_state = {EventType.ACCEPT: State.ACCEPTED_CURRENT, EventType.REJECT: State.REJECTED}.get(kind, State.WITHDRAWN)
    with tampered(story.path, SCOPE) as opened:
        headers = opened.headers()
        gone = headers[CAPTURE_GONE - 1].subject
        record = headers[ACCEPT_GONE - 1].record_id if kind is EventType.ACCEPT else None
        last = headers[-1]
        extra = msgspec.structs.replace(
            last, cursor=last.cursor + 1, type=kind, subject=gone, record_id=record, from_state=State.TOMBSTONED,
            to_state=to_state, event_id=bytes(32), ledger_digest=None,
        )  # fmt: skip
        opened.forge([*headers, extra])
    assert ("ILLEGAL_TRANSITION", last.cursor + 1) in _findings(story)


# --- sealed parts -----------------------------------------------------------------------------------


def test_a_lost_content(story):
    _change(story, lambda opened: opened.delete(b"content", CAPTURE))
    assert _findings(story) == [("BLOB_MISSING", CAPTURE)]
    assert _report(story).as_json()["scopes"][0]["bodies"]["missing"] == 1


def test_swapped_contents(story):
    def swap(opened):
        first, second = opened.get(b"content", CAPTURE), opened.get(b"content", WAIT)
        opened.put(b"content", CAPTURE, second)
        opened.put(b"content", WAIT, first)

    _change(story, swap)
    assert _findings(story) == [("JOURNAL_CORRUPT", CAPTURE), ("JOURNAL_CORRUPT", WAIT)]


def test_contents_swapped_together_with_their_digests_do_not_open(story):
    """What authenticates a part is its place in the AAD, not the digest in a header that a forger can write."""
    with tampered(story.path, SCOPE) as opened:
        headers = opened.headers()
        one, two = headers[CAPTURE - 1], headers[WAIT - 1]
        first, second = opened.get(b"content", CAPTURE), opened.get(b"content", WAIT)
        opened.put(b"content", CAPTURE, second)
        opened.put(b"content", WAIT, first)
        forged = changed(headers, CAPTURE, content_digest=two.content_digest)
        opened.forge(changed(forged, WAIT, content_digest=one.content_digest))
    assert [finding for finding in _findings(story) if finding[1] in (CAPTURE, WAIT)] == [
        ("JOURNAL_CORRUPT", CAPTURE),
        ("JOURNAL_CORRUPT", WAIT),
    ]


def test_a_flipped_bit_in_a_content(story):
    def flip(opened):
        raw = bytearray(opened.get(b"content", CAPTURE))
        raw[20] ^= 1
        opened.put(b"content", CAPTURE, bytes(raw))

    _change(story, flip)
    assert _findings(story) == [("JOURNAL_CORRUPT", CAPTURE)]


@pytest.mark.parametrize("lost", [True, False])
def test_a_ledger(story, lost):
    def change(opened):
        if lost:
            opened.delete(b"ledger", ACCEPT)
        else:
            opened.put(b"ledger", ACCEPT, opened.get(b"ledger", ACCEPT_GONE))

    _change(story, change)
    assert _findings(story) == [("BLOB_MISSING" if lost else "JOURNAL_CORRUPT", ACCEPT)]


def test_an_erased_content_may_be_gone_but_not_changed(story):
    _change(story, lambda opened: opened.delete(b"content", CAPTURE_GONE))
    assert _report(story).ok
    _change(story, lambda opened: opened.put(b"content", CAPTURE_GONE, b"something else"))
    assert _findings(story) == [("JOURNAL_CORRUPT", CAPTURE_GONE)]


def test_a_lost_key_is_no_lawful_erasure(story):
    story.restart()
    with story.journal.store.view(SCOPE) as view:
        header = view.event(CAPTURE).header
        slot = view.slot(header.key_id)
    story.journal.keyring.destroy(SCOPE, [(header.key_id, slot)])
    story.close()
    assert ("BLOB_MISSING", CAPTURE) in _findings(story)
    assert _report(story).as_json()["scopes"][0]["bodies"]["missing"] == 1


def test_a_destruction_that_is_still_due_is_no_finding(world):
    agent = world.caller()
    agent.remember(KEPT)
    agent.transit(agent.capture(GONE), Operation.WITHDRAW)
    world.close()
    report = _report(world)
    assert report.ok
    assert report.as_json()["scopes"][0]["bodies"]["erased"] == 1


def test_an_older_slot_file_put_back(world):
    agent = world.caller()
    agent.remember(KEPT)
    gone = agent.remember(GONE)
    (slots,) = (world.path / layout.KEYS).glob("*.slots")
    older = slots.read_bytes()
    agent.forget(gone)
    world.close()
    assert _report(world).ok
    slots.write_bytes(older)
    found = _findings(world)
    assert ("JOURNAL_CORRUPT", None) in found  # the generation
    assert ("JOURNAL_CORRUPT", CAPTURE_GONE) in found  # and the key that is back


def test_keys_that_are_gone_are_findings_and_not_made_anew(story):
    shutil.rmtree(story.path / layout.KEYS)
    (story.path / layout.KEYS).mkdir()
    codes = _findings(story)
    assert any(cursor is None for _, cursor in codes)
    assert {cursor for _, cursor in codes} > {CAPTURE, WAIT}
    assert list((story.path / layout.KEYS).iterdir()) == []


# --- indexes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", [b"outcome", b"subject", b"record", b"pending", b"slot", b"tombstone"])
@pytest.mark.parametrize("row_by_row", [True, False])
def test_a_lost_index_row(story, monkeypatch, table, row_by_row):
    def lose(opened):
        rows = opened.rows(table)
        opened.put_row(table, min(rows), None)

    _change(story, lose)
    monkeypatch.setattr(limits, "AUDIT_INDEX_EVENTS_MAX", 1_000 if row_by_row else 0)
    details = [finding.detail for finding in _report(story).scopes[0].findings]
    assert any(table.decode() in detail for detail in details), details


def test_an_index_that_lies_about_a_state(story):
    def lie(opened):
        rows = opened.rows(b"subject")
        raw = {key: msgspec.msgpack.decode(value) for key, value in rows.items()}
        key = next(key for key, row in raw.items() if row[0] == State.PENDING)
        opened.put_row(b"subject", key, msgspec.msgpack.encode([int(State.WITHDRAWN), *raw[key][1:]]))

    _change(story, lie)
    found = _findings(story)
    assert ("JOURNAL_CORRUPT", WAIT) in found
    assert ("JOURNAL_CORRUPT", None) in found


# --- projections ------------------------------------------------------------------------------------


def test_live_projections_are_compared(world):
    agent = world.caller()
    agent.remember(KEPT)
    agent.search("words")
    world.close()
    report = _report(world)
    assert [(one.name, one.ok) for one in report.projections] == [("current", True), ("lexical", True)]
    assert all(one.live_digest == one.replayed_digest for one in report.projections)


def test_projections_behind_the_head_are_compared_at_the_head(world):
    agent = world.caller()
    gone = agent.remember(GONE)
    agent.search("words")
    agent.code(FORGET, forgetting(gone))
    agent.remember(KEPT)
    world.close()
    report = _report(world)
    assert report.ok
    assert all(one.live_digest == one.replayed_digest for one in report.projections)


def test_a_changed_projection_is_found(world):
    import lmdb

    agent = world.caller()
    agent.remember(KEPT)
    agent.search("words")
    world.close()
    (data,) = (world.path / layout.PROJECTIONS).glob("*/current/*/data.mdb")
    env = lmdb.open(str(data.parent), max_dbs=64, lib_version=0, map_size=1 << 30)
    handle = env.open_db(b"chunks", create=False)
    with env.begin(write=True) as txn:
        key, value = next(iter(txn.cursor(handle)))
        txn.put(key, bytes([value[0] ^ 1]) + value[1:], db=handle)
    env.close()
    report = _report(world)
    assert not report.ok
    assert {one.name: one.ok for one in report.projections} == {"current": False, "lexical": True}


def test_a_broken_journal_cannot_be_folded_and_says_so(story):
    _change(story, lambda opened: opened.delete(tables.EVENTS, 1))
    report = _report(story)
    assert [one.ok for one in report.projections] == [False, False]
