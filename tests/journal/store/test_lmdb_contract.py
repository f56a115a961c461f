"""LMDB keeps the storage contract."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import lmdb
import pytest

from journal.store.lmdb import tables
from journal.store.lmdb.batch import Batch
from journal.store.lmdb.engine import LmdbStore
from journal.store.lmdb.writelock import WriteLock
from tests.journal.store.contract import committing, lifecycle, reading, seeing, sharing, waiting
from tests.journal.store.places import raw

if TYPE_CHECKING:
    from pathlib import Path


class LmdbEngine:
    """A journal directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.failpoints: list[str] = []
        self.opening = (
            "from pathlib import Path\n"
            "from journal.store.lmdb.engine import LmdbStore\n"
            f"store = LmdbStore(Path({str(directory)!r}), clock)\n"
        )

    def open(self, clock):
        return LmdbStore(self.directory, clock, failpoint=self._reach)

    def _reach(self, name):
        if name in self.failpoints:
            self.failpoints.remove(name)
            raise lmdb.DiskError("input/output error")

    @contextmanager
    def out_of_reach(self):
        lock = WriteLock(self.directory)
        assert lock.acquire(None)
        try:
            yield
        finally:
            lock.close()

    @contextmanager
    def failing_put(self, after):
        insert, count = Batch._insert, [0]

        def failing(batch, table, key, value):
            if table == tables.EVENTS:
                count[0] += 1
            if count[0] == after + 1:
                count[0] += 1
                raise lmdb.MapFullError("environment mapsize limit reached")
            insert(batch, table, key, value)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Batch, "_insert", failing)
            yield

    @contextmanager
    def failing_content(self, content):
        insert = Batch._insert

        def failing(batch, table, key, value):
            if value == content:
                raise TypeError("ours")
            insert(batch, table, key, value)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Batch, "_insert", failing)
            yield

    @contextmanager
    def failing_commit(self):
        self.failpoints.append("commit.before")
        yield
        assert self.failpoints == [], "no commit was tried"

    def replace_frame(self, scope, cursor, frame):
        with raw(self.directory) as (txn, databases):
            events, key = databases[tables.EVENTS], tables.event_key(scope.tag, cursor)
            assert txn.put(key, frame, db=events) if frame is not None else txn.delete(key, db=events)


class OnLmdb:
    @pytest.fixture
    def engine(self, tmp_path):
        directory = tmp_path / "journal"
        directory.mkdir()
        return LmdbEngine(directory)


class TestCommitting(OnLmdb, committing.Committing): ...


class TestShaping(OnLmdb, committing.Shaping): ...


class TestLifecycle(OnLmdb, lifecycle.Lifecycle): ...


class TestWaiting(OnLmdb, waiting.Waiting): ...


class TestFailing(OnLmdb, waiting.Failing): ...


class TestIsolating(OnLmdb, seeing.Isolating): ...


class TestSeeing(OnLmdb, seeing.Seeing): ...


class TestReading(OnLmdb, reading.Reading): ...


class TestSharing(OnLmdb, sharing.Sharing): ...


class TestWatching(OnLmdb, sharing.Watching): ...


class TestBatching(OnLmdb, committing.Batching): ...
