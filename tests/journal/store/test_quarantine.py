"""What is looked into after an unclean end, what is mended, and what is refused."""

from __future__ import annotations

import random

import pytest

from journal.errors import JournalCorrupt, StoreUnavailable
from journal.indexes import Table
from journal.store.lmdb import opening, quarantine, tables
from journal.store.lmdb.filesystem import last_commit
from journal.store.lmdb.markers import DIRECTORY, Markers, boot_id
from journal.store.lmdb.writelock import WriteLock
from tests.journal.peers import Peer
from tests.journal.store.history import HERE, THERE, History
from tests.journal.store.places import content, crash, open_store, raw, slots_of


@pytest.fixture
def walks(monkeypatch):
    """Count the walks that are made."""
    made = []

    def counted(walk):
        def inspect(directory):
            made.append(walk.__name__)
            return walk(directory)

        return inspect

    for walk in (quarantine.inspect, quarantine.inspect_beside):
        monkeypatch.setattr(opening, walk.__name__, counted(walk))
    return made


def test_after_a_clean_close_nothing_is_walked(directory, walks):
    open_store(directory).close()
    assert walks == []


def test_after_a_crash_everything_is_walked_once(directory, walks):
    before = content(directory)
    crash(directory)
    open_store(directory).close()
    open_store(directory).close()
    assert walks == ["inspect"]
    assert content(directory) == before


_OPENED = """
from pathlib import Path
from tests.journal.store.places import open_store
store = open_store(Path(sys.argv[1]))
say("open")
hear()
"""


def test_after_a_kill_everything_is_walked_once_beside_whoever_writes(directory, walks):
    with Peer(_OPENED, directory) as alive, Peer(_OPENED, directory) as peer:
        assert [alive.hear(), peer.hear()] == ["open", "open"]
        lock = WriteLock(directory)
        peer.kill()
        assert lock.acquire(None)
        walked = opening._looked_into(directory, Markers(directory))  # while another process writes
        lock.close()
        assert len(walked) == 1
        store = open_store(directory)
        assert walks == ["inspect_beside", "inspect_beside"]
        assert len(list((directory / DIRECTORY).iterdir())) == 2
        store.close()
        open_store(directory).close()
        assert len(walks) == 2


def test_after_a_kill_a_reader_does_not_serve_what_was_not_walked(directory, walks):
    key = next(iter(content(directory)[Table.OUTCOME.value]))
    with raw(directory) as (txn, databases):
        txn.delete(key, db=databases[Table.OUTCOME.value])
    (directory / DIRECTORY / "0").write_text(boot_id() + "\n")
    with pytest.raises(StoreUnavailable, match="open it for writing once"):
        open_store(directory, readonly=True)
    assert walks == ["inspect_beside"]


def test_after_a_kill_a_lost_row_is_found_and_mended(directory, walks):
    before = content(directory)
    with raw(directory) as (txn, databases):
        txn.delete(next(iter(before[Table.OUTCOME.value])), db=databases[Table.OUTCOME.value])
    (directory / DIRECTORY / "0").write_text(boot_id() + "\n")
    open_store(directory).close()
    assert walks == ["inspect_beside", "inspect"]  # again while nobody writes, for it is written anew
    assert content(directory) == before


def test_a_walk_beside_a_process_that_writes_finds_nothing(directory):
    code = """
from pathlib import Path
from journal.scope import Scope
from tests.journal.store.history import History
from tests.journal.store.places import open_store
store, history = open_store(Path(sys.argv[1]), durable=False), History(Scope.of("tenant:three", "workspace:one"))
say("open")
import select
while not select.select([sys.stdin], [], [], 0)[0]:
    history.write(store, history.capture())
"""
    with Peer(code, directory) as writer:
        assert writer.hear() == "open"
        heads = []
        for _ in range(3):
            assert quarantine.inspect_beside(directory) == []
            heads.append(last_commit(directory / "data.mdb"))
        assert heads[0] < heads[-1]
        writer.say("enough")


@pytest.mark.parametrize("table", Table, ids=lambda table: table.name.lower())
def test_an_index_row_damaged_in_a_crash_is_mended_before_anything_is_written(directory, table):
    before = content(directory)
    key, value = next(iter(before[table.value].items()))
    with raw(directory) as (txn, databases):
        txn.put(key, bytes([value[0] ^ 4]) + value[1:], db=databases[table.value])
    crash(directory)
    keys = {scope: slots_of(before, scope) for scope in (HERE, THERE)}
    store = open_store(directory, located=keys.__getitem__)
    store.close()
    assert content(directory) == before


def test_a_lost_sum_key_is_made_anew_and_every_index_with_it(directory):
    before = content(directory)
    with raw(directory) as (txn, databases):
        txn.delete(tables.SUM_KEY, db=databases[tables.STORE])
    store = open_store(directory)
    assert store.sum_key != before[tables.STORE][tables.SUM_KEY]
    store.close()
    after = content(directory)
    assert {table: after[table.value] for table in Table} == {table: before[table.value] for table in Table}
    crash(directory)
    open_store(directory).close()  # and the sums agree with it
    assert content(directory) == after


def test_damaged_events_are_not_opened_after_a_crash(directory):
    with raw(directory) as (txn, databases):
        key = tables.event_key(HERE.tag, 3)
        frame = bytearray(tables.get(txn, databases[tables.EVENTS], key) or b"")
        frame[-1] ^= 1
        txn.put(key, bytes(frame), db=databases[tables.EVENTS])
    crash(directory)
    for _ in range(2):
        with pytest.raises(JournalCorrupt):
            open_store(directory)
    with pytest.raises(JournalCorrupt):
        open_store(directory, readonly=True)


@pytest.mark.parametrize("name", [tables.EVENTS, *tables.PARTS])
def test_rows_that_belong_to_no_event_are_not_opened_after_a_crash(directory, name):
    with raw(directory) as (txn, databases):
        txn.put(tables.event_key(HERE.tag, 1_000_000), b"stray", db=databases[name])
    crash(directory)
    with pytest.raises(JournalCorrupt):
        open_store(directory)


def test_a_lost_commit_record_is_no_empty_journal(directory):
    with raw(directory) as (txn, databases):
        txn.delete(HERE.tag, db=databases[tables.HEADS])
    store = open_store(directory)
    with pytest.raises(JournalCorrupt):
        store.head(HERE)
    with pytest.raises(JournalCorrupt):
        store.commit(HERE, lambda _: [History().capture()])
    assert store.head(THERE).cursor > 0
    store.close()
    crash(directory)
    with pytest.raises(JournalCorrupt):
        open_store(directory)


def test_a_commit_record_under_another_tag_is_refused(directory):
    with raw(directory) as (txn, databases):
        txn.put(THERE.tag, tables.get(txn, databases[tables.HEADS], HERE.tag) or b"", db=databases[tables.HEADS])
    store = open_store(directory)
    with pytest.raises(JournalCorrupt):
        store.head(THERE)
    store.close()
    crash(directory)
    with pytest.raises(JournalCorrupt):
        open_store(directory)


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("echo begun\nkill -BUS $$", JournalCorrupt),
        ("echo begun\nexit 3", JournalCorrupt),
        ("echo begun\nkill -KILL $$", StoreUnavailable),
        ("echo begun\nexit 0", StoreUnavailable),
        ('echo begun\necho \'{"unmade": "no memory"}\'', StoreUnavailable),
        ("kill -BUS $$", StoreUnavailable),
        ("exit 1", StoreUnavailable),
    ],
)
def test_what_a_walk_dies_of_after_it_began_is_corruption_unless_somebody_ended_it(
    directory, monkeypatch, tmp_path, script, error
):
    """And never our death. Before that, a module may be missing, or memory: nothing is known of the journal."""
    dying = tmp_path / "python"
    dying.write_text(f"#!/bin/sh\n{script}\n")
    dying.chmod(0o700)
    monkeypatch.setattr("sys.executable", str(dying))
    crash(directory)
    with pytest.raises(error):
        open_store(directory)


def test_a_walk_that_cannot_be_made_leaves_the_store_closed(directory, monkeypatch):
    monkeypatch.setattr("sys.executable", "/nonexistent/python")
    crash(directory)
    with pytest.raises(StoreUnavailable):
        open_store(directory)


def test_the_walk_takes_no_module_from_the_working_directory(directory, monkeypatch, tmp_path):
    trap = tmp_path / "project"
    for name in ("journal", "lmdb", "msgspec"):
        (trap / name).mkdir(parents=True)
        (trap / name / "__init__.py").write_text("raise SystemExit(77)\n")
    (trap / "subprocess.py").write_text("raise SystemExit(77)\n")
    monkeypatch.chdir(trap)
    crash(directory)
    open_store(directory).close()


@pytest.mark.parametrize("seed", range(24))
def test_a_flipped_bit_anywhere_is_refused_or_mended_or_only_in_a_body(directory, seed):
    """After a crash, whatever byte the medium changed: no open store tells anything but what was written."""
    before = content(directory)
    data = directory / "data.mdb"
    source = random.Random(seed)
    with data.open("r+b") as file:
        at = source.randrange(data.stat().st_size)
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1 << source.randrange(8)]))
    crash(directory)
    keys = {scope: slots_of(before, scope) for scope in (HERE, THERE)}
    try:
        store = open_store(directory, located=keys.__getitem__)
    except JournalCorrupt:
        return
    for scope in (HERE, THERE):
        cursor = store.head(scope).cursor
        frames = [event.frame for event in store.read(scope, 0, cursor)]
        assert frames == [before[tables.EVENTS][tables.event_key(scope.tag, number)] for number in range(1, cursor + 1)]
        assert store.check_indexes(scope, keys[scope]) == []
    store.close()


def flipped(path, offset, bit):
    raw_bytes = bytearray(path.read_bytes())
    raw_bytes[offset] ^= 1 << bit
    path.write_bytes(raw_bytes)


@pytest.mark.parametrize(("at", "bit"), [(44, 0), (44, 2), (44, 3), (45, 6), (92, 1), (92, 2), (92, 6)])
def test_flags_that_no_environment_of_ours_has_are_refused(directory, at, bit):
    """LMDB would abort over some of them: in who serves, if the walk let them pass."""
    path = directory / "data.mdb"
    newest = 4096 * (last_commit(path) % 2)  # each commit overwrites the older of the two
    before = content(directory)
    crash(directory)
    flipped(path, newest + at, bit)
    with pytest.raises(JournalCorrupt):
        open_store(directory)
    flipped(path, newest + at, bit)
    flipped(path, (4096 - newest) + at, bit)  # the one that is not in use
    open_store(directory).close()
    assert content(directory) == before


def test_a_lock_file_that_is_none_is_no_damage_of_the_journal(directory):
    """LMDB says the same of both."""
    with Peer(_OPENED, directory) as other:
        assert other.hear() == "open"
        with (directory / "lock.mdb").open("r+b", buffering=0) as file:  # in place: the other has it mapped
            magic = file.read(4)
            file.seek(0)
            file.write(bytes(4))
            with pytest.raises(StoreUnavailable):
                open_store(directory)
            file.seek(0)
            file.write(magic)
        open_store(directory).close()
