"""A generation's LMDB environment: opened once an inode a process, never across a fork, never half.

LMDB forbids a process to open an environment twice, so a process-wide table shares each one among those who ask for it.
Two locks stand on the environment's own inodes (``projections.locks``):

    data.mdb         shared by every process that has it open, exclusive for who removes it or marks it clean
    the directory    exclusive for who writes; LMDB's own write lock has no time-out, and a stopped process keeps it

Nothing is flushed while the environment is in use (``projections.marks`` tells why that is safe). Values are read as
memoryviews of the map in a read transaction, as bytes in a write transaction.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import lmdb

from journal import limits
from journal.errors import JournalCorrupt, ProjectionStale, StoreUnavailable
from journal.store.lmdb.filesystem import check_length, refuse_network
from journal.systemfaults import DAMAGE, SYSTEM_FAULTS
from projections import marks
from projections.locks import InodeLock, identity_of
from projections.mapping import open_lmdb, open_tables

DATA = "data.mdb"
_POLL_SECONDS = 0.000_2
_POLL_MAX_SECONDS = 0.005
_BROKEN = (*DAMAGE, lmdb.NotFoundError)


class Unusable(Exception):
    """A generation that must not be served: cut, foreign, of another version, not of this journal. It is rebuilt."""


class Altered(Unusable):
    """Its bytes are not those that it was closed with."""


class Environment:
    """An open environment, shared by all who asked for it in this process."""

    def __init__(
        self, directory: Path, names: Sequence[bytes], hold: InodeLock, *, create: bool, summed: bool = True
    ) -> None:
        self.directory = directory
        self.identity = hold.identity
        self._data_path = directory / DATA
        self.users = 1
        self.kept: dict[str, Any] = {}  # what readers keep in memory of the content (``projections.port.OpenTables``)
        self._hold = hold
        self._pid = os.getpid()
        self._unmarked = False
        self._summed = summed
        self._dirty = create
        self._claim_mutex = threading.Lock()
        self._readers = threading.Condition()
        self._reading = 0
        self._next_reader_check = 0.0
        self._further_hold: InodeLock | None = None
        self._writers = InodeLock(directory)
        try:
            self._env = open_lmdb(directory, len(names), create=create)
            try:
                self.tables = open_tables(self._env, names, create=create)
            except BaseException:
                self._env.close()
                raise
        except BaseException:
            self._writers.close()
            raise
        self._page_bytes: int = self._env.stat()["psize"]
        self._filled_bytes = 0

    # --- reading ---------------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Iterator[lmdb.Transaction[memoryview]]:
        """Yield a read transaction. Keep it short: LMDB cannot reuse a page that a reader may still see."""
        self._check_process()
        txn = self._begin_reading()
        try:
            yield txn
        finally:
            txn.abort()
            with self._readers:
                self._reading -= 1
                self._readers.notify_all()

    def _begin_reading(self) -> lmdb.Transaction[memoryview]:
        now = time.monotonic()
        if now >= self._next_reader_check:
            self._next_reader_check = now + limits.READER_CHECK_SECONDS
            self._env.reader_check()
        try:
            return self._counted()
        except lmdb.ReadersFullError:
            self._env.reader_check()
        except lmdb.MapResizedError:
            self._take_map_size()
        try:
            return self._counted()
        except (lmdb.ReadersFullError, lmdb.MapResizedError) as error:
            raise StoreUnavailable(type(error).__name__) from error

    def _counted(self) -> lmdb.Transaction[memoryview]:
        with self._readers:
            txn = self._env.begin(buffers=True)
            self._reading += 1
            return txn

    def _take_map_size(self) -> None:
        """Take over a larger map made by another process, which LMDB allows only while this one has no transaction."""
        with self._readers:
            if self._readers.wait_for(lambda: self._reading == 0, timeout=1.0):
                self._env.set_mapsize(0)

    # --- writing ---------------------------------------------------------------------------------

    def claim(self, deadline: float | None) -> bool:
        """Become the one writer, in this process and among all; return whether that could be had by ``deadline``.

        The deadline is in ``time.monotonic`` seconds, None waits for ever. The same thread gives the claim back.
        """
        self._check_process()
        seconds = -1.0 if deadline is None else max(0.0, deadline - time.monotonic())
        if not self._claim_mutex.acquire(timeout=seconds):
            return False
        had = False
        try:
            had = self._writers.acquire(deadline)
        finally:
            if not had:
                self._claim_mutex.release()
        return had

    def unclaim(self) -> None:
        """Give the claim back."""
        try:
            self._writers.release()
        finally:
            self._claim_mutex.release()

    @contextmanager
    def writing(self) -> Iterator[lmdb.Transaction[bytes]]:
        """Yield the write transaction of the one who has the claim; it commits unless the body raises.

        Raises:
            StoreUnavailable: the map or the disk is full, or the file cannot be written.
        """
        self._check_process()
        try:
            if not self._dirty and not self._unmarked:
                with suppress(FileNotFoundError):  # deleted meanwhile: whoever comes next opens another
                    marks.write(self._writers.fd, clean=False)
                self._dirty = True
            with self._begin_writing() as txn:
                yield txn
            self._fill()
        except lmdb.Error as error:
            if is_broken(error):
                raise
            raise StoreUnavailable(f"a projection cannot be written: {type(error).__name__}") from error
        except OSError as error:
            raise StoreUnavailable(f"a projection cannot be written: {error.strerror}") from error

    def _begin_writing(self) -> lmdb.Transaction[bytes]:
        try:
            return self._env.begin(write=True)
        except lmdb.MapResizedError:
            self._take_map_size()
            return self._env.begin(write=True)

    def _fill(self) -> None:
        """Lengthen the file to what its meta page states.

        LMDB never writes a page that was allotted and freed in one transaction, so the file may end before the last
        page number; the length check before mapping would have to walk the trees to tell that from a cut.
        """
        needed_bytes = (self._env.info()["last_pgno"] + 1) * self._page_bytes
        if self._filled_bytes < needed_bytes:
            if os.fstat(self._hold.fd).st_size < needed_bytes:
                os.ftruncate(self._hold.fd, needed_bytes)
            self._filled_bytes = needed_bytes  # nobody shortens it while it is open

    # --- closing ---------------------------------------------------------------------------------

    def is_there(self) -> bool:
        """Whether the environment still stands where it was opened."""
        return identity_of(self._data_path) == self.identity

    def retain(self) -> None:
        """Count one more user."""
        with _mutex:
            self.users += 1

    def release(self) -> None:
        """Count one user less; the last one closes the environment, and marks it clean if no other process has it."""
        if os.getpid() != self._pid:
            return
        with _mutex:
            self.users -= 1
            if self.users:
                return
            del _opened[self.identity]
            self._close()

    def _close(self) -> None:
        self.kept.clear()
        clean = False
        with suppress(*SYSTEM_FAULTS):  # without the mark it is trusted in this boot, and rebuilt in the next
            if self._dirty and not self._unmarked and self._hold.try_acquire():
                self._env.sync(True)  # noqa: FBT003 - lmdb's own
                clean = True
        self._env.close()
        if clean:
            with suppress(OSError):  # likewise
                marks.write(self._writers.fd, clean=True, summed=self._summed)
        self.let_go()

    def give_up(self) -> None:
        """Say that nobody will open this environment again: it is private, or no longer in force. It gets no mark."""
        self._unmarked = True

    def hold_too(self, lock: InodeLock | None) -> None:
        """Keep a lock until the environment is closed."""
        self._further_hold = lock

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise StoreUnavailable("a projection was opened before a fork; open it after")

    def let_go(self) -> None:
        """Close the lock handles alone: in a forked child the environment itself is the parent's."""
        for lock in (self._writers, self._hold, self._further_hold):
            if lock is not None:
                lock.close()

    def shut(self) -> None:
        """Close an environment that nobody was given."""
        self._env.close()
        self.let_go()


_opened: dict[tuple[int, int], Environment] = {}
_inherited: list[Environment] = []  # kept from being collected: closing them would clear the parent's reader slots
_mutex = threading.RLock()


def _after_fork_in_child() -> None:
    global _mutex  # noqa: PLW0603 - the parent's lock may be held by a thread that the child does not have
    _mutex = threading.RLock()
    for environment in _opened.values():
        environment.let_go()
        _inherited.append(environment)
    _opened.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)


def attach(directory: Path, names: Sequence[bytes], deadline: float | None, *, summed: bool = True) -> Environment:
    """Open the environment in a directory, or share it where this process has it open.

    ``summed`` False: whoever reads it checks each row, so that its mark needs no sum of its bytes.

    Raises:
        Unusable: it is not there, or its mark, length or content does not vouch for it.
        StoreUnavailable: LMDB refuses it; so it does to a child of a process that had it open.
        ProjectionStale: another process is closing or removing it and did not finish by the deadline.
    """
    pause_seconds = _POLL_SECONDS
    while (found := _attached(directory, names, summed=summed)) is None:
        if deadline is not None and time.monotonic() >= deadline:
            raise ProjectionStale("a generation is being closed or removed by another process")
        time.sleep(pause_seconds)  # nobody who attaches another one waits for this one's lock
        pause_seconds = min(pause_seconds * 1.5, _POLL_MAX_SECONDS)
    return found


def _attached(directory: Path, names: Sequence[bytes], *, summed: bool) -> Environment | None:
    """Open or share the environment as ``attach`` does; None where another process has it to itself."""
    with _mutex:
        try:
            hold = InodeLock(directory / DATA)
        except (FileNotFoundError, NotADirectoryError):
            raise Unusable("the generation is not there") from None
        known = _opened.get(hold.identity)
        if known is not None:
            hold.close()
            known.users += 1
            return known
        try:
            _refuse_left_broken(directory)
            if hold.try_acquire(shared=True):
                return _register(_vouched(directory, names, hold, summed=summed))
        except BaseException:
            hold.close()
            raise
        hold.close()
        return None


def _refuse_left_broken(directory: Path) -> None:
    if marks.left_broken(directory):
        raise Unusable("the generation's pages are broken, and its last process was killed")


def create(directory: Path, names: Sequence[bytes], *, summed: bool = True) -> Environment:
    """Make an environment in an empty directory; the caller keeps others away from it until it is whole.

    ``summed`` as for ``attach``.

    Raises:
        StoreUnavailable: the directory lies on a network file system, or the disk or the descriptors are used up.
    """
    refuse_network(directory)
    with _mutex:
        fd = os.open(directory / DATA, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.close(fd)
        hold = InodeLock(directory / DATA)
        try:
            hold.try_acquire(shared=True)  # nobody else knows the file yet
            environment = Environment(directory, names, hold, create=True, summed=summed)
        except lmdb.Error as error:  # among them: no descriptor left
            hold.close()
            raise StoreUnavailable(f"a projection cannot be made: {error}") from error
        except BaseException:
            hold.close()
            raise
        try:
            _mark_new(directory)
        except BaseException:
            environment.shut()  # or its lock would keep this process from removing what is left of it
            raise
        return _register(environment)


def _mark_new(directory: Path) -> None:
    with suppress(FileNotFoundError):
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            marks.write(fd, clean=False)
        finally:
            os.close(fd)


def _register(environment: Environment) -> Environment:
    _opened[environment.identity] = environment
    return environment


def _vouched(directory: Path, names: Sequence[bytes], hold: InodeLock, *, summed: bool) -> Environment:
    """Open an environment under its shared lock, after every check that must come before its file is mapped."""
    if identity_of(directory / DATA) != hold.identity:
        raise Unusable("the generation was removed")
    if not marks.trusted(directory):
        if marks.changed(directory):
            raise Altered("the generation was changed since it was closed")
        raise Unusable("the generation was not closed cleanly before the machine went down, or is a copy")
    try:
        check_length(directory / DATA)
        environment = Environment(directory, names, hold, create=False, summed=summed)
    except (JournalCorrupt, FileNotFoundError, *_BROKEN) as error:
        raise Unusable(f"the generation cannot be opened: {type(error).__name__}") from error
    except lmdb.Error as error:  # among them: open in the parent of this forked process, where closing it would hurt
        if identity_of(directory / DATA) != hold.identity:  # somebody deletes by hand what is looked at just now
            raise Unusable("the generation was removed") from error
        raise StoreUnavailable(f"a projection cannot be opened: {error}") from error
    if not marks.trusted(directory):  # LMDB makes a missing lock file anew: a deletion was under way
        environment.shut()
        raise Unusable("the generation is being removed")
    return environment


def is_broken(error: BaseException) -> bool:
    """Whether an error says that an environment's content cannot be read."""
    return isinstance(error, _BROKEN)
