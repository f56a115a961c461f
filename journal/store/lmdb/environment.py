"""Opening the LMDB environment, once an inode a process, and never across a fork."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lmdb

from journal import limits
from journal.errors import EngramError, StoreUnavailable
from journal.rootkey import flush_directory
from journal.store.lmdb import tables
from journal.store.lmdb.filesystem import begins_well, check_length, may_lock, refuse_network, reserve_lock_file
from journal.systemfaults import told

if TYPE_CHECKING:
    from collections.abc import Iterator

_open: set[tuple[int, int]] = set()
_open_mutex = threading.Lock()


class Environment:
    """The journal's environment: sync and metasync on, no writemap, engine 0.9."""

    def __init__(self, directory: Path, *, readonly: bool = False, durable: bool = True) -> None:
        """Open the environment, making it where it is missing and writable.

        ``durable`` False (no flushes) exists for the crash rigs' negative control alone.

        Raises:
            StoreUnavailable: it cannot be opened. JournalCorrupt: the file is cut or no LMDB file.
        """
        self._directory = directory
        self._readonly = readonly
        self._durable = durable
        self._pid = os.getpid()
        self._identity: tuple[int, int] | None = None
        self._env: lmdb.Environment | None = None
        self._databases: dict[bytes, Any] = {}
        self._condemned: EngramError | None = None
        self.lockless = False  # read from a place that cannot be written, without an entry in the reader table
        self._page_bytes = 0
        self._length_bytes = 0  # of the data file, as last seen
        self.reopen()

    def reopen(self) -> None:
        """Close the environment if it is open, and open it afresh."""
        self.close()
        refuse_network(self._directory)
        data = self._directory / "data.mdb"
        fresh = not data.exists()
        if not fresh:
            if data.stat().st_size:
                check_length(data)
        elif self._readonly:
            raise StoreUnavailable("the journal is not there")
        self.lockless = self._readonly and not may_lock(self._directory)
        if not self._readonly and not (self._directory / "lock.mdb").exists():
            reserve_lock_file(self._directory, limits.READERS_MAX)
        try:
            if not fresh:
                self._claim(data)
            self._env = lmdb.open(
                str(self._directory), map_size=tables.MAP_SIZE_BYTES, max_dbs=tables.MAX_DBS, mode=0o600,
                max_readers=limits.READERS_MAX, readonly=self._readonly, create=not self._readonly,
                sync=self._durable, metasync=self._durable, writemap=False, lib_version=0,  # the 0.9 engine
                lock=not self.lockless,
            )  # fmt: skip
            if self._identity is None:
                self._claim(data)
            if fresh:
                flush_directory(self._directory)  # to flush a file makes its bytes durable, but not its name
            self._env.reader_check()
            self._databases = self._open_tables(self._env)
            self._page_bytes = self._env.stat()["psize"]
            self._length_bytes = 0
            if not self._readonly:
                self.extend()
        except (lmdb.Error, OSError) as error:
            self.close()
            raise _told(error, data) from error

    def _open_tables(self, env: lmdb.Environment) -> dict[bytes, Any]:
        if self._readonly:
            return {name: env.open_db(name, create=False) for name in tables.NAMES}
        # One transaction for all. It takes LMDB's lock, which has no time-out: so the caller holds ours, which has.
        with env.begin(write=True) as txn:
            return {name: env.open_db(name, txn=txn, create=True) for name in tables.NAMES}

    def _claim(self, data: Path) -> None:
        """Refuse a second opening of the same file by this process: LMDB's locks would be lost when one is closed."""
        found = data.stat()
        identity = (found.st_dev, found.st_ino)
        with _open_mutex:
            if identity in _open:
                raise StoreUnavailable("this process has the journal open already")
            _open.add(identity)
        self._identity = identity

    @contextmanager
    def reading(self) -> Iterator[tuple[lmdb.Transaction, dict[bytes, Any]]]:
        """Yield a read transaction and the tables.

        Raises:
            StoreUnavailable, JournalCorrupt: LMDB's error, translated.
        """
        try:
            with self.begin() as txn:
                yield txn, self._databases
        except lmdb.Error as error:
            raise told(error) from error

    @property
    def databases(self) -> dict[bytes, Any]:
        """The tables' handles, by name."""
        return self._databases

    def begin(self, *, write: bool = False, parent: lmdb.Transaction | None = None) -> lmdb.Transaction:
        """Return a transaction, within ``parent`` where given; the caller ends it. LMDB's errors pass untranslated."""
        if self._condemned is not None:
            raise type(self._condemned)(self._condemned.detail)
        env = self._env  # looked at once: another thread may close it or open it again
        if env is None:
            raise StoreUnavailable("the store is closed")
        if os.getpid() != self._pid:
            raise StoreUnavailable("the store was opened before a fork; open it after")
        try:
            return env.begin(write=write, parent=parent)
        except lmdb.MapResizedError:
            env.set_mapsize(0)  # another process has a larger map: take its size over
            return env.begin(write=write, parent=parent)
        except lmdb.ReadersFullError:
            env.reader_check()
            return env.begin(write=write, parent=parent)

    @property
    def condemned(self) -> bool:
        """Whether no transaction begins any more."""
        return self._condemned is not None

    def condemn(self, error: EngramError) -> None:
        """Begin no transaction any more, but raise this error: what stands here is not what was written."""
        self._condemned = error

    def extend(self) -> None:
        """Make the data file as long as its meta pages say; the caller holds the write lock.

        LMDB never writes a page that one transaction both took from the end and gave back. The file is then shorter
        than the metas say, and looks like one that was cut.
        """
        if self._env is None:
            return
        needed_bytes = (self._env.info()["last_pgno"] + 1) * self._page_bytes
        if needed_bytes <= self._length_bytes:  # it never gets shorter, so most commits need not look
            return
        data = self._directory / "data.mdb"
        with suppress(OSError):  # what the file lacks can be added by whoever opens it next
            self._length_bytes = data.stat().st_size
            if self._length_bytes < needed_bytes:
                # A commit that makes the file longer flushes its length as well, which takes a fifth of it; so the file
                # is made longer ahead. What lies ahead takes no room until it is written.
                os.truncate(data, needed_bytes + limits.JOURNAL_AHEAD_BYTES)
                self._length_bytes = needed_bytes + limits.JOURNAL_AHEAD_BYTES

    def reader_check(self) -> int:
        """Clear the reader slots of dead processes; return how many there were."""
        return 0 if self._env is None else int(self._env.reader_check())

    def figures(self) -> dict[str, int]:
        """Return LMDB's own figures: map_size, last_pgno, num_readers, max_readers."""
        if self._env is None:
            raise StoreUnavailable("the store is closed")
        info = self._env.info()
        return {name: info[name] for name in ("map_size", "last_pgno", "num_readers", "max_readers")}

    def close(self) -> None:
        """Close the environment."""
        if self._env is not None and os.getpid() == self._pid:
            self._env.close()
        self._env = None
        if self._identity is not None:
            with _open_mutex:
                _open.discard(self._identity)
            self._identity = None


def _told(error: lmdb.Error | OSError, data: Path) -> EngramError:
    """Return the contract's error for what opening a data file ended in.

    LMDB says the same of its lock file as of the data. That one holds nothing: another process may be making it, and
    where a call on it failed LMDB takes it for made.
    """
    if isinstance(error, lmdb.InvalidError | lmdb.VersionMismatchError):
        with suppress(OSError):
            if begins_well(data):
                return StoreUnavailable("LMDB's lock file is not made, or is of another release")
    return told(error)


@contextmanager
def unavailable(what: str) -> Iterator[None]:
    """Turn the system's refusals (no such place, not allowed, no room) into STORE_UNAVAILABLE."""
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(f"{what}: {error.strerror}") from error
