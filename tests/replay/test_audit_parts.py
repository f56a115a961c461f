"""The audit of what hangs on the events: sealed parts, keys, indexes, projections."""

from __future__ import annotations

import shutil

import lmdb
import msgspec
import pytest

from journal import layout, limits
from journal.lifecycle import Operation, State
from journal.store.lmdb import tables
from projections.serving import RECORDS
from tests.replay.tampering import (
    ACCEPT,
    ACCEPT_GONE,
    CAPTURE,
    CAPTURE_GONE,
    GONE,
    KEPT,
    WAIT,
    audited,
    change,
    changed,
    findings,
    tampered,
    told,
)  # fmt: skip
from tests.tools.memory.world import SCOPE, World, forgetting
from tools.host.capabilities import FORGET

NAMES = ["current", "lexical", "timeline", "messages", "tags", "profile"]


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path / "store")
    yield made
    made.close()


@pytest.fixture
def story(world):
    return told(world)


# --- sealed parts -----------------------------------------------------------------------------------


def test_a_lost_content(story):
    change(story, lambda opened: opened.delete(b"content", CAPTURE))
    assert findings(story) == [("BLOB_MISSING", CAPTURE)]
    assert audited(story).as_json()["scopes"][0]["bodies"]["missing"] == 1


def test_swapped_contents(story):
    def swap(opened):
        first, second = opened.get(b"content", CAPTURE), opened.get(b"content", WAIT)
        opened.put(b"content", CAPTURE, second)
        opened.put(b"content", WAIT, first)

    change(story, swap)
    assert findings(story) == [("JOURNAL_CORRUPT", CAPTURE), ("JOURNAL_CORRUPT", WAIT)]


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
    assert [finding for finding in findings(story) if finding[1] in (CAPTURE, WAIT)] == [
        ("JOURNAL_CORRUPT", CAPTURE),
        ("JOURNAL_CORRUPT", WAIT),
    ]


def test_a_flipped_bit_in_a_content(story):
    def flip(opened):
        raw = bytearray(opened.get(b"content", CAPTURE))
        raw[20] ^= 1
        opened.put(b"content", CAPTURE, bytes(raw))

    change(story, flip)
    assert findings(story) == [("JOURNAL_CORRUPT", CAPTURE)]


@pytest.mark.parametrize("lost", [True, False])
def test_a_ledger(story, lost):
    def lose(opened):
        if lost:
            opened.delete(b"ledger", ACCEPT)
        else:
            opened.put(b"ledger", ACCEPT, opened.get(b"ledger", ACCEPT_GONE))

    change(story, lose)
    assert findings(story) == [("BLOB_MISSING" if lost else "JOURNAL_CORRUPT", ACCEPT)]


def test_an_erased_content_may_be_gone_but_not_changed(story):
    change(story, lambda opened: opened.delete(b"content", CAPTURE_GONE))
    assert audited(story).ok
    change(story, lambda opened: opened.put(b"content", CAPTURE_GONE, b"something else"))
    assert findings(story) == [("JOURNAL_CORRUPT", CAPTURE_GONE)]


def test_a_lost_key_is_no_lawful_erasure(story):
    story.restart()
    with story.journal.store.view(SCOPE) as view:
        header = view.event(CAPTURE).header
        slot = view.slot(header.key_id)
    story.journal.keyring.destroy(SCOPE, [(header.key_id, slot)])
    story.close()
    assert ("BLOB_MISSING", CAPTURE) in findings(story)
    assert audited(story).as_json()["scopes"][0]["bodies"]["missing"] == 1


def test_a_destruction_that_is_still_due_is_no_finding(world):
    agent = world.caller()
    agent.remember(KEPT)
    agent.transit(agent.capture(GONE), Operation.WITHDRAW)
    world.close()
    report = audited(world)
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
    assert audited(world).ok
    slots.write_bytes(older)
    found = findings(world)
    assert ("JOURNAL_CORRUPT", None) in found  # the generation
    assert ("JOURNAL_CORRUPT", CAPTURE_GONE) in found  # and the key that is back


def test_keys_that_are_gone_are_findings_and_not_made_anew(story):
    shutil.rmtree(story.path / layout.KEYS)
    (story.path / layout.KEYS).mkdir()
    codes = findings(story)
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

    change(story, lose)
    monkeypatch.setattr(limits, "AUDIT_INDEX_EVENTS_MAX", 1_000 if row_by_row else 0)
    details = [finding.detail for finding in audited(story).scopes[0].findings]
    assert any(table.decode() in detail for detail in details), details


def test_an_index_that_lies_about_a_state(story):
    def lie(opened):
        rows = opened.rows(b"subject")
        raw = {key: msgspec.msgpack.decode(value) for key, value in rows.items()}
        key = next(key for key, row in raw.items() if row[0] == State.PENDING)
        opened.put_row(b"subject", key, msgspec.msgpack.encode([int(State.WITHDRAWN), *raw[key][1:]]))

    change(story, lie)
    found = findings(story)
    assert ("JOURNAL_CORRUPT", WAIT) in found
    assert ("JOURNAL_CORRUPT", None) in found


# --- projections ------------------------------------------------------------------------------------


def test_live_projections_are_compared(world):
    agent = world.caller()
    agent.remember(KEPT)
    agent.search("words")
    world.close()
    report = audited(world)
    assert [(one.name, one.ok) for one in report.projections] == [(name, True) for name in NAMES]
    served = [one for one in report.projections if one.name in RECORDS]
    assert len(served) == len(RECORDS)
    assert all(one.live_digest == one.replayed_digest for one in served)


def test_projections_behind_the_head_are_compared_at_the_head(world):
    agent = world.caller()
    gone = agent.remember(GONE)
    agent.search("words")
    agent.code(FORGET, forgetting(gone))
    agent.remember(KEPT)
    world.close()
    report = audited(world)
    assert report.ok
    served = [one for one in report.projections if one.name in RECORDS]
    assert len(served) == len(RECORDS)
    assert all(one.live_digest == one.replayed_digest for one in served)


def test_a_changed_projection_is_found(world):
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
    report = audited(world)
    assert not report.ok
    assert {one.name: one.ok for one in report.projections} == dict.fromkeys(NAMES, True) | {"current": False}


def test_a_broken_journal_cannot_be_folded_and_says_so(story):
    change(story, lambda opened: opened.delete(tables.EVENTS, 1))
    report = audited(story)
    assert [(one.name, one.ok) for one in report.projections] == [(name, False) for name in NAMES]
