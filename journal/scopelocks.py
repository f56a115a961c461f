"""The locks on scopes' key files: within the process one turn a scope, among processes a lock file a scope.

Nobody who waits for one scope's lock keeps another scope waiting: no lock over all scopes is held meanwhile. Who reads
keys that are open needs neither.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from journal import patience, rootchange
from journal.errors import StoreUnavailable
from journal.filelock import FileLock

if TYPE_CHECKING:
    from journal.scope import Scope

_LOCK_SECONDS = 10.0


class Turns:
    """One lock a scope among the threads of a process, each taken with its thread's patience. Not re-entrant."""

    def __init__(self, what: str) -> None:
        """``what`` the turns are for; the log is told it where one is not had."""
        self._what = what
        self._locks: dict[bytes, threading.Lock] = {}

    @contextmanager
    def turn(self, scope: Scope) -> Iterator[None]:
        """Exclude the process's other threads.

        Raises:
            DeadlineExceeded, StoreUnavailable: another thread keeps the turn (``journal.patience``).
        """
        lock = self._locks.get(scope.tag) or self._locks.setdefault(scope.tag, threading.Lock())
        if not lock.acquire(timeout=patience.left(_LOCK_SECONDS)):
            raise patience.given_up(f"another call of this process is still {self._what}")
        try:
            yield
        finally:
            lock.release()


class ScopeLocks:
    """The key locks of one store."""

    def __init__(self, directory: Path, *, readonly: bool) -> None:
        """Take the store's ``keys`` directory."""
        self._directory = directory
        self._readonly = readonly
        self._turns = Turns("waiting for a scope's key lock")

    @contextmanager
    def held(self, scope: Scope) -> Iterator[None]:
        """Exclude others from a scope's key files, once no replacement of the root key is left half done.

        Raises:
            DeadlineExceeded, StoreUnavailable: another process keeps the lock (``journal.patience``).
            StoreUnavailable: the files cannot be written.
        """
        with self.turn(scope), self.files(scope):
            yield

    @contextmanager
    def turn(self, scope: Scope) -> Iterator[None]:
        """Exclude the process's other threads alone: ``held`` in two steps, of which ``files`` is the other."""
        if self._readonly:
            raise StoreUnavailable("the store is open for reading only")
        with self._turns.turn(scope):
            yield

    @contextmanager
    def files(self, scope: Scope) -> Iterator[None]:
        """Exclude other processes; the turn is had. Raises as ``held``."""
        try:
            with closing(FileLock(self._directory / f"{scope.tag.hex()}.lock")) as lock:
                if not lock.acquire(patience.until(_LOCK_SECONDS)):
                    raise patience.given_up("another process holds the scope's key lock")
                if (self._directory / rootchange.SWITCHED).exists():
                    rootchange.settle(self._directory)
                yield
        except OSError as error:
            raise StoreUnavailable(f"the scope's keys cannot be written: {error.strerror}") from error
