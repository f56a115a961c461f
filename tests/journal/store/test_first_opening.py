"""Whoever makes a journal may die before it holds anything: the next one makes it. And an opening that fails late."""

from __future__ import annotations

import errno

import pytest

from journal.errors import JournalCorrupt, StoreUnavailable
from journal.filelock import FileLock
from journal.store.lmdb.filesystem import is_unmade
from tests.journal.peers import Peer
from tests.journal.store.history import HERE, History
from tests.journal.store.places import open_store

_DIES = """
import os
from pathlib import Path
from journal.store.lmdb import environment
from tests.journal.store.places import open_store
data = Path(sys.argv[1]) / "data.mdb"

def dies(*_, **__):
    if sys.argv[2] == "empty":
        data.write_bytes(b"")
    os.kill(os.getpid(), 9)

make = environment.Environment._open_tables

def dies_within_its_commit(self, env):
    metas = data.read_bytes()
    make(self, env)  # what it writes behind the meta pages is there, and the meta page that says so is not
    with data.open("r+b") as file:
        file.write(metas)
    dies()

if sys.argv[2] == "empty":
    environment.lmdb.open = dies
elif sys.argv[2] == "metas":
    environment.Environment._open_tables = dies
else:
    environment.Environment._open_tables = dies_within_its_commit
open_store(data.parent)
"""


@pytest.fixture
def new(tmp_path):
    directory = tmp_path / "journal"
    directory.mkdir()
    return directory


@pytest.mark.parametrize("held", ["empty", "metas", "tables"])
def test_a_journal_whose_maker_was_killed_is_made_by_the_next_one(new, held):
    with Peer(_DIES, new, held) as peer:
        assert peer.end() == -9
    assert is_unmade(new / "data.mdb")
    history = History(HERE)
    for count in (1, 2):
        store = open_store(new)
        history.write(store, history.capture())
        assert store.head(HERE).cursor == count
        store.close()
    assert not is_unmade(new / "data.mdb")


def test_a_journal_that_was_cut_to_its_meta_pages_is_not_made_anew(directory):
    data = directory / "data.mdb"
    data.write_bytes(data.read_bytes()[:8192])
    assert not is_unmade(data)
    with pytest.raises(JournalCorrupt):
        open_store(directory)


def test_an_opening_whose_lock_cannot_be_given_back_leaves_nothing_open(new, monkeypatch):
    store = open_store(new)
    store.close()
    release = FileLock.release
    failed: list[FileLock] = []

    def fails(self):
        release(self)
        if self.path.name == "writer.lock" and not failed:
            failed.append(self)
            raise OSError(errno.EIO, "a device that fails")

    monkeypatch.setattr(FileLock, "release", fails)
    with pytest.raises(StoreUnavailable):
        open_store(new)
    assert failed
    open_store(new).close()
