"""Opening a store: what is refused, what is let pass, and what is left alone."""

from __future__ import annotations

import os
import shutil
import threading

import pytest

from journal import limits
from journal.errors import EngramError, JournalCorrupt, StoreUnavailable
from journal.indexes import Table
from journal.store.lmdb import opening, tables
from journal.store.lmdb.filesystem import check_length
from journal.store.lmdb.markers import DIRECTORY
from journal.store.lmdb.writelock import WriteLock
from tests.journal.peers import Peer
from tests.journal.store.history import HERE, THERE, History
from tests.journal.store.places import content, crash, open_store, raw, snapshot


def test_a_file_that_lacks_only_free_pages_is_whole(directory):
    """LMDB never writes a page that one transaction both took from the end and gave back."""
    with raw(directory) as (txn, databases):
        txn.put(b"large", bytes(400_000), db=databases[tables.STORE])
        txn.delete(b"large", db=databases[tables.STORE])
    data = directory / "data.mdb"
    short = data.stat().st_size
    before = content(directory)
    check_length(data)
    store = open_store(directory, readonly=True)
    store.close()
    assert data.stat().st_size == short, "a reader changes nothing"
    open_store(directory).close()
    assert data.stat().st_size > short
    crash(directory)
    open_store(directory).close()
    assert content(directory) == before


@pytest.mark.parametrize("keep", [0.0, 0.3, 0.9])
def test_a_cut_file_is_never_mapped(directory, keep):
    data = directory / "data.mdb"
    size = data.stat().st_size
    os.truncate(data, max(1, int(size * keep)))
    for how in ({}, {"readonly": True}):
        with pytest.raises(JournalCorrupt):
            open_store(directory, **how)


def test_a_file_that_is_not_lmdbs_is_refused(directory):
    (directory / "data.mdb").write_bytes(b"not a database" * 10_000)
    with pytest.raises(JournalCorrupt):
        open_store(directory)


@pytest.mark.parametrize("unclean", [False, True])
def test_a_reader_writes_nothing(directory, unclean):
    if unclean:
        crash(directory)
    before = snapshot(directory)
    store = open_store(directory, readonly=True)
    assert store.head(HERE).cursor > 0
    assert store.scopes() == [HERE, THERE]
    with pytest.raises(StoreUnavailable):
        store.commit(HERE, lambda _: [History().capture()])
    store.close()
    assert snapshot(directory) == before


def test_a_reader_does_not_serve_broken_indexes(directory):
    with raw(directory) as (txn, databases):
        key, _ = next(tables.walk_prefix(txn, databases[Table.SUBJECT.value], b""))
        txn.delete(key, db=databases[Table.SUBJECT.value])
    crash(directory)
    with pytest.raises(StoreUnavailable, match="open it for writing once"):
        open_store(directory, readonly=True)
    open_store(directory).close()
    open_store(directory, readonly=True).close()


def test_a_place_that_is_not_there_or_no_directory_is_refused_in_plain_words(tmp_path):
    (tmp_path / "file").write_text("no directory")
    for place in (tmp_path / "nowhere", tmp_path / "file"):
        with pytest.raises(StoreUnavailable, match="cannot be opened"):
            open_store(place)


def test_a_reader_of_nothing_makes_nothing(tmp_path):
    with pytest.raises(StoreUnavailable):
        open_store(tmp_path, readonly=True)
    assert list(tmp_path.iterdir()) == []


def test_one_process_opens_a_store_once(directory):
    store = open_store(directory)
    for how in ({}, {"readonly": True}):
        with pytest.raises(StoreUnavailable, match="already"):
            open_store(directory, **how)
    assert len(list((directory / DIRECTORY).iterdir())) == 1
    History().write(store, History().capture(bytes(32)))  # and the first one's locks were not lost
    store.close()
    open_store(directory).close()


def test_an_opening_that_failed_can_be_tried_again(directory, monkeypatch):
    def broken(*_args, **_how):
        raise StoreUnavailable("for once")

    with monkeypatch.context() as patched:
        patched.setattr(opening, "_sum_key", broken)
        with pytest.raises(StoreUnavailable, match="for once"):
            open_store(directory)
    open_store(directory).close()


def test_a_stopped_writer_does_not_hang_the_next_opening(directory, monkeypatch):
    monkeypatch.setattr(limits, "OPENING_WAIT_SECONDS", 0.05)
    lock = WriteLock(directory)
    assert lock.acquire(None)
    with pytest.raises(StoreUnavailable, match="write lock"):
        open_store(directory)
    open_store(directory, readonly=True).close()
    lock.close()
    open_store(directory).close()


def test_a_copy_of_a_store_opens_beside_it(directory, tmp_path):
    store = open_store(directory)
    shutil.copytree(directory, tmp_path / "copy")
    other = open_store(tmp_path / "copy")
    assert other.head(HERE) == store.head(HERE)
    other.close()
    store.close()


def test_a_network_file_system_is_refused(directory, monkeypatch):
    monkeypatch.setattr("journal.store.lmdb.filesystem.file_system", lambda _: "nfs4")
    for how in ({}, {"readonly": True}):
        with pytest.raises(StoreUnavailable, match="nfs4"):
            open_store(directory, **how)


def test_a_forked_child_is_told_to_open_its_own(directory):
    code = f"""
import os
from pathlib import Path
from journal.errors import StoreUnavailable
from journal.store.lmdb.markers import DIRECTORY
from tests.journal.store.history import HERE, History
from tests.journal.store.places import open_store
directory = Path({str(directory)!r})
store = open_store(directory)
history = History()
pid = os.fork()
if pid == 0:
    for call in (
        lambda: store.head(HERE),
        lambda: store.commit(HERE, lambda _: [history.capture()]),
        lambda: open_store(directory),
    ):
        try:
            call()
            say("allowed")
        except StoreUnavailable as error:
            say("refused")
    store.close()
    say("child ended")
    os._exit(0)
os.waitpid(pid, 0)
store.commit(HERE, lambda _: [history.capture(bytes(32))])
say("parent", len(list((directory / DIRECTORY).iterdir())))
store.close()
say("closed", len(list((directory / DIRECTORY).iterdir())))
"""
    with Peer(code) as peer:
        assert peer.lines() == ["refused", "refused", "refused", "child ended", "parent 1", "closed 0"]


def test_two_first_openings_at_once_make_one_store(tmp_path):
    code = f"""
from pathlib import Path
from journal.errors import StoreUnavailable
from journal.store.lmdb.markers import DIRECTORY
from tests.journal.store.history import HERE, History
from tests.journal.store.places import open_store
say("ready")
hear()
store = open_store(Path({str(tmp_path)!r}))
say(store.sum_key.hex())
hear()
store.close()
"""
    with Peer(code) as one, Peer(code) as two:
        assert [one.hear(), two.hear()] == ["ready", "ready"]
        one.say("go")
        two.say("go")
        assert one.hear() == two.hear()


def test_readers_in_other_threads_outlive_no_close(directory):
    """They are refused, and neither crash nor keep the close waiting."""
    store = open_store(directory)
    refused = []
    going = threading.Barrier(5)

    def read():
        going.wait()
        while True:
            try:
                store.read(HERE, 0, 50)
            except EngramError as error:
                refused.append(error)
                return

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    going.wait()
    store.close()
    for thread in threads:
        thread.join()
    assert [type(error) for error in refused] == [StoreUnavailable] * 4
