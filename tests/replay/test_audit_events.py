"""The audit of events: what is missing, rewritten, illegal or forged is named by its code and cursor."""

from __future__ import annotations

import msgspec
import pytest

from journal import limits
from journal.events import EventType
from journal.frames import encode_frame, leaf_hash
from journal.lifecycle import Operation, State
from journal.merkle import root_of
from journal.store.lmdb import tables
from tests.replay.tampering import (
    ACCEPT,
    ACCEPT_GONE,
    APPROVED,
    CAPTURE,
    CAPTURE_GONE,
    GONE,
    KEPT,
    REQUESTED,
    TOMBSTONE,
    WAIT,
    audited,
    change,
    findings,
    forge,
    tampered,
    told,
)  # fmt: skip
from tests.tools.memory.world import OTHER, SCOPE, World


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path / "store")
    yield made
    made.close()


@pytest.fixture
def story(world):
    return told(world)


# --- clean ------------------------------------------------------------------------------------------


def test_clean(story):
    report = audited(story)
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
    whole = audited(story).as_json()
    monkeypatch.setattr(limits, "READ_PAGE_EVENTS", page)
    assert audited(story).as_json() == whole


def test_progress_grows_to_the_whole(story):
    steps = []
    audited(story, progress=lambda done, total: steps.append((done, total)))
    assert steps == sorted(steps)
    assert steps[-1][0] == steps[-1][1] > 0


def test_every_scope_is_walked_and_only_the_broken_one_is_named(world):
    world.caller().remember(KEPT)
    world.caller(OTHER).remember(GONE)
    world.close()
    change(world, lambda opened: opened.delete(b"content", 1), OTHER)
    report = audited(world)
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
    assert audited(world).ok


# --- events -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("cursor", [1, 4, -1])
def test_a_missing_event(story, cursor):
    with tampered(story.path, SCOPE) as opened:
        cursor = cursor % (opened.record().cursor + 1) or 1
        opened.delete(tables.EVENTS, cursor)
    report = audited(story)
    (scope,) = report.scopes
    assert ("CURSOR_GAP", cursor) in [(each.code, each.cursor) for each in scope.findings]
    assert scope.root is None
    assert scope.events == scope.head.cursor - 1


def test_a_frame_that_is_none(story):
    change(story, lambda opened: opened.put(tables.EVENTS, ACCEPT, b"no frame"))
    assert ("JOURNAL_CORRUPT", ACCEPT) in findings(story)


def test_a_rewritten_event_is_betrayed_by_the_next(story):
    def rewrite(opened):
        header = opened.headers()[ACCEPT - 1]
        other = msgspec.structs.replace(header, actor=msgspec.structs.replace(header.actor, principal="another"))
        opened.put(tables.EVENTS, ACCEPT, encode_frame(other))

    change(story, rewrite)
    codes = findings(story)
    assert ("JOURNAL_CORRUPT", ACCEPT) in codes or ("JOURNAL_CORRUPT", ACCEPT + 1) in codes


def test_a_rewritten_last_event_is_betrayed_by_the_commit_record(story):
    def rewrite(opened):
        header = opened.headers()[-1]
        other = msgspec.structs.replace(header, actor=msgspec.structs.replace(header.actor, principal="another"))
        opened.put(tables.EVENTS, header.cursor, encode_frame(other))

    change(story, rewrite)
    assert any(code == "JOURNAL_CORRUPT" for code, _ in findings(story))


def test_another_scopes_event(world):
    world.caller().remember(KEPT)
    world.caller(OTHER).remember(KEPT)
    world.close()
    with tampered(world.path, OTHER) as opened:
        foreign = opened.get(tables.EVENTS, 1)
    change(world, lambda opened: opened.put(tables.EVENTS, 1, foreign))
    assert ("JOURNAL_CORRUPT", 1) in findings(world)


@pytest.mark.parametrize("fields", [{"type": EventType.DIGEST}, {"type": 31}, {"type": 200}, {"format": 2}], ids=str)
def test_an_event_from_the_future_is_named_as_such(story, fields):
    forge(story, ACCEPT, **fields)
    assert ("REGISTRY_VERSION_UNAVAILABLE", ACCEPT) in findings(story)


def test_a_clock_that_ran_back(story):
    forge(story, ACCEPT, recorded_at=1)
    assert ("JOURNAL_CORRUPT", ACCEPT) in findings(story)


def test_an_identity_twice(story):
    with tampered(story.path, SCOPE) as opened:
        first = opened.headers()[CAPTURE - 1]
    forge(story, WAIT, event_id=first.event_id)
    assert ("DIGEST_CONFLICT", WAIT) in findings(story)


def test_findings_are_bounded(story, monkeypatch):
    with tampered(story.path, SCOPE) as opened:
        for cursor in (ACCEPT, ACCEPT_GONE, TOMBSTONE):
            opened.delete(b"ledger", cursor)
    monkeypatch.setattr(limits, "AUDIT_FINDINGS_MAX", 2)
    (scope,) = audited(story).scopes
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
    forge(story, cursor, **fields)
    assert (code, cursor) in findings(story)


def test_a_legal_event_in_a_forged_chain_makes_what_follows_illegal(story):
    forge(story, ACCEPT_GONE, type=EventType.WITHDRAW, to_state=State.WITHDRAWN, record_id=None)
    assert ("ILLEGAL_TRANSITION", TOMBSTONE) in findings(story)


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
    assert ("ILLEGAL_TRANSITION", last.cursor + 1) in findings(story)
