"""Which generation of one projection of one scope is in force.

    <store>/projections/<scope tag, 32 hex digits>/<name>/CURRENT      eight digits and a line end

One that was taken out of force is named so in CURRENT, behind its number; then, or without CURRENT, none counts. The
directory's own lock is the projection's lock: it is held to make, switch, condemn and remove generations, never to
read.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from journal.errors import ProjectionStale, StoreUnavailable
from projections import marks
from projections.environment import Unusable
from projections.locks import InodeLock, identity_of

CURRENT: Final = "CURRENT"
NUMBER: Final = re.compile(r"[0-9]{8}")
READ_ONLY: Final = (errno.EROFS, errno.EACCES, errno.EPERM)  # what a system says where nothing may be written
ATTEMPTS: Final = 8  # how often a directory that changes under our hands is looked at anew
_VOID: Final = " out of force"
_STATED_MAX_BYTES: Final = 64  # what CURRENT says is shorter


class InForce:
    """What one projection's directory says of the generation in force."""

    def __init__(self, path: Path) -> None:
        """Take the projection's directory; it need not be there."""
        self.path = path
        self._current_path = str(path / CURRENT)

    def current(self) -> str | None:
        """Return the number of the generation in force, or None where there is none."""
        number = self.stated().removesuffix("\n")
        return number if NUMBER.fullmatch(number) else None

    def stated(self) -> str:
        """Return what CURRENT says, nothing where it is not there."""
        try:
            fd = os.open(self._current_path, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return ""
        try:  # each read of the projection comes by here: a file object would cost it 20 us
            return os.read(fd, _STATED_MAX_BYTES).decode("ascii", errors="replace")
        finally:
            os.close(fd)

    def void(self, deadline: float | None, number: str | None = None) -> None:
        """Take the generation in force out of force, whatever it holds; whoever opens the projection rebuilds it.

        ``number``: only where that one is in force still.

        Raises:
            ProjectionStale: the projection's lock was not had by the deadline. StoreUnavailable: it cannot be written.
        """
        with suppress(Unusable), self.locked(deadline):
            if number is None or self.current() == number:
                self.void_locked()

    def void_locked(self) -> None:
        """Do so; the projection's lock is held."""
        number = NUMBER.match(self.stated())
        if number is not None:
            self.name_locked(number[0] + _VOID)

    def name_locked(self, number: str) -> None:
        """Write what CURRENT says; the projection's lock is held."""
        lock = InodeLock(self.path)
        try:
            marks.replace(lock.fd, CURRENT, f"{number}\n".encode())
        finally:
            lock.close()

    @contextmanager
    def locked(self, deadline: float | None) -> Iterator[None]:
        """Hold the projection's lock, on the directory as it stands at its path now.

        Raises:
            Unusable: the directory was deleted under the lock; look again. StoreUnavailable: it cannot be written.
            ProjectionStale: the lock was not had by the deadline.
        """
        try:
            lock = self._lock(deadline)
            try:
                yield
            finally:
                lock.close()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise Unusable("the projection's directory was deleted") from error
        except OSError as error:
            if error.errno in READ_ONLY:  # who only reads goes on without writing
                raise
            # The disk is full, say: what was in force stays so.
            raise StoreUnavailable(f"a projection's files cannot be written: {error.strerror}") from error

    def _lock(self, deadline: float | None) -> InodeLock:
        for _ in range(ATTEMPTS):
            self._make_directories()
            lock = InodeLock(self.path)
            if not lock.acquire(deadline):
                lock.close()
                raise ProjectionStale("the projection's lock is held by another process")
            if identity_of(self.path) == lock.identity:
                return lock
            lock.close()
        raise ProjectionStale("the projection's directory keeps being deleted")

    def _make_directories(self) -> None:
        for directory in (self.path.parent.parent, self.path.parent, self.path):
            directory.mkdir(mode=0o700, exist_ok=True)
