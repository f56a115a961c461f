"""The journal as one: parts sealed and opened, erased and lost told apart, destructions finished, files put back."""

from __future__ import annotations

import json
import resource
import shutil
import threading

import pytest

from journal.clock import SteadyClock
from journal.errors import BlobMissing, JournalCorrupt, StoreUnavailable
from journal.events import EventType
from journal.lifecycle import Operation, State
from journal.log import Journal
from journal.store.lmdb import tables
from journal.store.lmdb.writelock import WriteLock
from journal.store.port import Part
from journal.testing import ManualClock
from tests.journal.peers import Peer
from tests.journal.store.places import raw
from tests.journal.stores import ACTOR, OTHER, ROOT, SCOPE, capture, key_of, make, move, opened, text_of

SECRET = "a sentence that no file may hold"


@pytest.fixture
def path(tmp_path):
    return make(tmp_path / "store")


@pytest.fixture
def journal(path):
    with opened(path) as journal:
        yield journal


def everything(path):
    """Return the bytes of every file of the store."""
    return b"".join(found.read_bytes() for found in path.rglob("*") if found.is_file())


# --- sealing and opening -------------------------------------------------------------------------


def test_what_was_captured_is_read_back(path):
    with opened(path) as journal:
        candidate_id, made = capture(journal, "key-0000000000000001", SECRET)
        assert made
        assert text_of(journal, candidate_id) == SECRET
    with opened(path, readonly=True) as journal:
        assert text_of(journal, candidate_id) == SECRET
        with journal.store.view(SCOPE) as view:
            assert journal.ledger(view, view.event(1).header) == {"outcome": "key-0000000000000001"}
    assert SECRET.encode() not in everything(path)
    assert b"key-0000000000000001" not in everything(path)


def test_the_same_words_seal_to_other_bytes_each_time(journal):
    capture(journal, "key-0000000000000001", SECRET)
    capture(journal, "key-0000000000000002", SECRET)
    parts = [journal.store.body(SCOPE, cursor, part) for cursor in (1, 2) for part in Part]
    assert len(set(parts)) == 4


def test_a_replay_gives_its_key_back(journal):
    for _ in range(3):
        assert capture(journal, "key-0000000000000001")[0] == capture(journal, "key-0000000000000001")[0]
    assert journal.store.head(SCOPE).cursor == 1
    assert journal.take_key(SCOPE).slot == 1


def _swap_parts(path, journal, part, one, two):
    journal.close()
    with raw(path / "journal") as (txn, databases):
        table = databases[part.value]
        keys = [tables.event_key(SCOPE.tag, cursor) for cursor in (one, two)]
        values = [txn.get(key, db=table) for key in keys]
        for key, value in zip(keys, reversed(values), strict=True):
            assert txn.put(key, value, db=table) if value is not None else txn.delete(key, db=table)


def _part_of(journal, part):
    return journal.content if part is Part.CONTENT else journal.ledger


@pytest.mark.parametrize("part", Part, ids=lambda part: part.name.lower())
def test_a_part_in_anothers_place_is_corruption(path, part):
    journal = Journal.open(path, ROOT)
    capture(journal, "key-0000000000000001")
    capture(journal, "key-0000000000000002")
    _swap_parts(path, journal, part, 1, 2)
    with opened(path) as journal, journal.store.view(SCOPE) as view, pytest.raises(JournalCorrupt):
        _part_of(journal, part)(view, view.event(1).header)


@pytest.mark.parametrize("part", Part, ids=lambda part: part.name.lower())
def test_a_part_that_is_not_there_is_missing_and_not_erased(path, part):
    journal = Journal.open(path, ROOT)
    capture(journal, "key-0000000000000001")
    _swap_parts(path, journal, part, 1, 9)
    with opened(path) as journal, journal.store.view(SCOPE) as view, pytest.raises(BlobMissing):
        _part_of(journal, part)(view, view.event(1).header)


def test_a_candidate_of_no_scope_is_corruption(journal):
    capture(journal, "key-0000000000000001")
    with pytest.raises(JournalCorrupt):
        journal.payload(SCOPE, "candidate_unknown")
    with pytest.raises(JournalCorrupt):
        journal.payload(SCOPE, 99)


# --- destruction ---------------------------------------------------------------------------------


@pytest.mark.parametrize("way", [(Operation.REJECT,), (Operation.WITHDRAW,), (Operation.ACCEPT, Operation.TOMBSTONE)])
def test_an_ended_candidates_key_is_destroyed_and_the_journal_says_so(path, journal, way):
    candidate_id, _ = capture(journal, "key-0000000000000001", SECRET)
    kept, _ = capture(journal, "key-0000000000000002", SECRET)
    key_id, slot = key_of(journal, candidate_id)
    for operation in way:
        assert text_of(journal, candidate_id) == SECRET
        move(journal, operation, candidate_id)
    assert text_of(journal, candidate_id) is None, "from the event on, whatever the key's state"
    assert not journal.key_is_destroyed(SCOPE, candidate_id)
    assert journal.finish_destructions(SCOPE)
    assert journal.key_is_destroyed(SCOPE, candidate_id)
    assert journal.keyring.open(SCOPE, key_id, slot) is None
    last = journal.store.read(SCOPE, journal.store.head(SCOPE).cursor - 1, 1)[0].header
    assert (last.type, last.related) == (EventType.ERASURE_DONE, str(last.cursor - 1))
    assert not journal.finish_destructions(SCOPE)
    assert text_of(journal, kept) == SECRET
    assert not journal.key_is_destroyed(SCOPE, kept)


def test_one_event_tells_of_many_destructions(journal):
    candidates = [capture(journal, f"key-{number:016}")[0] for number in range(10)]
    for candidate_id in candidates:
        move(journal, Operation.WITHDRAW, candidate_id)
    assert journal.finish_destructions(SCOPE)
    assert journal.store.head(SCOPE).cursor == 21
    assert all(journal.key_is_destroyed(SCOPE, candidate_id) for candidate_id in candidates)


def test_several_who_finish_at_once_write_one_event(journal):
    candidate_id, _ = capture(journal, "key-0000000000000001")
    move(journal, Operation.WITHDRAW, candidate_id)
    threads = [threading.Thread(target=lambda: journal.finish_destructions(SCOPE)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert journal.store.head(SCOPE).cursor == 3


def test_what_a_dead_process_left_to_destroy_is_finished_before_anything_is_read(path):
    with opened(path) as journal:
        candidate_id, _ = capture(journal, "key-0000000000000001", SECRET)
        kept, _ = capture(journal, "key-0000000000000002", SECRET)
        move(journal, Operation.WITHDRAW, candidate_id)
        key_id, slot = key_of(journal, candidate_id)
    with opened(path, readonly=True) as journal:
        assert text_of(journal, candidate_id) is None
        assert journal.keyring.open(SCOPE, key_id, slot) is not None, "a reader destroys nothing"
    with opened(path) as journal:
        assert text_of(journal, kept) == SECRET
        assert journal.keyring.open(SCOPE, key_id, slot) is None
        assert journal.store.head(SCOPE).cursor == 4


def test_a_read_destroys_what_is_left_also_where_the_write_lock_cannot_be_had(path, monkeypatch):
    """A stopped writer must not keep a read waiting, nor a key alive."""
    with opened(path) as journal:
        candidate_id, _ = capture(journal, "key-0000000000000001", SECRET)
        kept, _ = capture(journal, "key-0000000000000002", SECRET)
        move(journal, Operation.WITHDRAW, candidate_id)
    monkeypatch.setattr("journal.log._ADMISSION_SECONDS", 0.05)
    with opened(path) as journal:
        lock = WriteLock(path / "journal")
        assert lock.acquire(None)
        assert text_of(journal, kept) == SECRET
        assert journal.key_is_destroyed(SCOPE, candidate_id)
        assert journal.store.head(SCOPE).cursor == 3
        lock.close()
        assert journal.finish_destructions(SCOPE)
        assert journal.store.head(SCOPE).cursor == 4


def test_a_reader_with_an_older_view_is_not_told_that_the_body_is_lost(journal):
    """The subject ended, and its key went, after the view was taken: erased, not missing."""
    candidate_id, _ = capture(journal, "key-0000000000000001", SECRET)
    with journal.store.view(SCOPE) as view:
        header = view.event(1).header
        move(journal, Operation.WITHDRAW, candidate_id)
        journal.finish_destructions(SCOPE)
        assert view.subject(candidate_id).state == State.PENDING
        assert journal.content(view, header) is None


def test_a_payload_is_the_same_by_id_by_cursor_and_by_header_and_erased_in_an_older_view_too(journal):
    candidate_id, _ = capture(journal, "key-0000000000000001", SECRET)
    [event] = journal.store.read(SCOPE, 0, 1)
    with journal.store.view(SCOPE) as older:
        for view in (None, older):
            found = [journal.payload(SCOPE, name, view) for name in (candidate_id, 1, event.header)]
            assert found[0] is not None
            assert found == [found[0]] * 3
        move(journal, Operation.WITHDRAW, candidate_id)
        assert journal.finish_destructions(SCOPE)
        assert [journal.payload(SCOPE, name, older) for name in (candidate_id, 1, event.header)] == [None] * 3


def test_a_live_candidate_whose_key_is_gone_is_lost_and_not_erased(journal):
    candidate_id, _ = capture(journal, "key-0000000000000001")
    journal.keyring.destroy(SCOPE, [key_of(journal, candidate_id)])
    with pytest.raises(BlobMissing):
        text_of(journal, candidate_id)


def test_finishing_that_fails_is_tried_again(path, monkeypatch):
    with opened(path) as journal:
        candidate_id, _ = capture(journal, "key-0000000000000001")
        move(journal, Operation.WITHDRAW, candidate_id)
    with opened(path) as journal:
        with monkeypatch.context() as patched:
            patched.setattr(journal.keyring, "destroy", _fail)
            with pytest.raises(StoreUnavailable):
                journal.admit(SCOPE)
        assert not journal.key_is_destroyed(SCOPE, candidate_id)
        journal.admit(SCOPE)
        assert journal.key_is_destroyed(SCOPE, candidate_id)


def _fail(*_args, **_how):
    raise StoreUnavailable("for once")


# --- keys lost, keys wrong -----------------------------------------------------------------------


def test_another_root_key_is_refused_at_the_door(path):
    with opened(path) as journal:
        capture(journal, "key-0000000000000001")
    for readonly in (False, True):
        with pytest.raises(StoreUnavailable, match="another store's key"):
            Journal.open(path, bytes(32), readonly=readonly)
    with opened(path) as journal:  # and nothing was left open
        assert journal.store.head(SCOPE).cursor == 1


def test_lost_keys_are_not_made_anew(path):
    with opened(path) as journal:
        candidate_id, _ = capture(journal, "key-0000000000000001")
    shutil.rmtree(path / "keys")
    (path / "keys").mkdir()
    with opened(path) as journal:
        for call in (
            lambda: capture(journal, "key-0000000000000001"),
            lambda: text_of(journal, candidate_id),
            lambda: journal.projection_key(SCOPE, "lexical", 1),
            lambda: journal.rotate_keys(SCOPE, ACTOR),
        ):
            with pytest.raises(BlobMissing, match="keyring file is missing"):
                call()
        capture(journal, "key-0000000000000001", scope=OTHER)  # a scope that is new gets its keys


def test_a_reader_writes_nothing_whatever_it_asks(path):
    with opened(path) as journal:
        candidate_id, _ = capture(journal, "key-0000000000000001")
        move(journal, Operation.WITHDRAW, candidate_id)

    def snapshot():
        found = (one for one in path.rglob("*") if one.is_file() and one.name != "lock.mdb")
        return {one: (one.read_bytes(), one.stat().st_mtime_ns) for one in found}

    before = snapshot()
    with opened(path, readonly=True) as journal:
        journal.admit(SCOPE)
        assert text_of(journal, candidate_id) is None
        assert journal.projection_key(SCOPE, "lexical", 1)
        for call in (
            lambda: capture(journal, "key-0000000000000002"),
            lambda: journal.take_key(OTHER),
            lambda: journal.rotate_keys(SCOPE, ACTOR),
            lambda: journal.finish_destructions(SCOPE),
        ):
            with pytest.raises(StoreUnavailable, match="reading only"):
                call()
    assert snapshot() == before


def test_what_the_process_makes_is_private(path, journal):
    capture(journal, "key-0000000000000001")
    for found in path.rglob("*"):
        assert found.stat().st_mode & 0o077 == 0, found


def test_no_core_dump_can_hold_a_key(path):
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    with opened(path):
        assert resource.getrlimit(resource.RLIMIT_CORE) == (0, hard)


# --- rotation ------------------------------------------------------------------------------------


def test_a_rotation_changes_neither_contents_nor_identities(path):
    with opened(path) as journal:
        candidate_id, _ = capture(journal, "key-0000000000000001", SECRET)
        gone, _ = capture(journal, "key-0000000000000002", SECRET)
        move(journal, Operation.WITHDRAW, gone)
        journal.finish_destructions(SCOPE)
        bodies = [journal.store.body(SCOPE, cursor, part) for cursor in (1, 2, 3) for part in Part]
        assert journal.rotate_keys(SCOPE, ACTOR) == 2
        assert (
            journal.store.read(SCOPE, journal.store.head(SCOPE).cursor - 1, 1)[0].header.type == EventType.KEY_ROTATION
        )
        assert [journal.store.body(SCOPE, cursor, part) for cursor in (1, 2, 3) for part in Part] == bodies
        assert text_of(journal, candidate_id) == SECRET
        assert capture(journal, "key-0000000000000001", SECRET) == (candidate_id, False)
    with opened(path) as journal:
        assert text_of(journal, candidate_id) == SECRET
        assert text_of(journal, gone) is None
        assert journal.key_is_destroyed(SCOPE, gone)
        assert capture(journal, "key-0000000000000001", SECRET) == (candidate_id, False)


def test_a_second_process_that_holds_the_old_epoch_open(path):
    code = """
from pathlib import Path
from tests.journal.stores import *
with opened(Path(sys.argv[1])) as journal:
    mine, _ = capture(journal, "key-of-the-peer-001", "the peer's")
    say(mine)
    theirs = hear()
    say(text_of(journal, theirs))
    hear()
    say(text_of(journal, theirs), text_of(journal, mine), capture(journal, "key-0000000000000001", "ours")[1])
    mine, _ = capture(journal, "key-of-the-peer-002", "the peer's second")
    say(mine)
    hear()
"""
    with opened(path) as journal, Peer(code, path) as peer:
        theirs = peer.hear()
        ours, _ = capture(journal, "key-0000000000000001", "ours")
        peer.say(ours)
        assert peer.hear() == "ours"
        journal.rotate_keys(SCOPE, ACTOR)
        peer.say("rotated")
        assert peer.hear() == "ours the peer's False"
        second = peer.hear()
        assert text_of(journal, theirs) == "the peer's"
        assert text_of(journal, second) == "the peer's second"


# --- the clock -----------------------------------------------------------------------------------


def test_a_clock_that_jumps_is_refused_until_a_restart(monkeypatch):
    wall = ManualClock()
    boot = [1_000_000]
    monkeypatch.setattr("journal.clock._boot_milliseconds", lambda: boot[0])
    clock = SteadyClock(wall)
    assert clock.now() == wall.now()
    wall.advance(days=3)
    boot[0] += 3 * 86_400_000  # idle, or asleep: no jump
    assert clock.now() == wall.now()
    wall.advance(seconds=86_400)
    assert clock.now() == wall.now(), "exactly a day is not more than a day"
    for jump in (1, -2 * 86_400_000 - 1):
        wall.advance(milliseconds=jump)
        with pytest.raises(StoreUnavailable, match="jumped"):
            clock.now()
        wall.advance(milliseconds=-jump)
    wall.advance(days=400)
    assert SteadyClock(wall).now() == wall.now()


def test_a_journal_is_closed_once_and_for_all(path):
    journal = Journal.open(path, ROOT)
    capture(journal, "key-0000000000000001")
    journal.close()
    journal.close()
    with pytest.raises(StoreUnavailable):
        capture(journal, "key-0000000000000002")


def test_ledgers_are_canonical_json(journal):
    capture(journal, "key-0000000000000001")
    with journal.store.view(SCOPE) as view:
        assert json.dumps(journal.ledger(view, view.event(1).header)) == '{"outcome": "key-0000000000000001"}'
