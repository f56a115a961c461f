"""Locks on files: per open file description, released by the kernel when the holder dies.

Linux's OFD locks are used where they exist, flock elsewhere: both belong to the open file and not to the process, so
two handles in one process exclude each other as two processes do.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self
from weakref import WeakSet

_OFD_SETLK: int | None = getattr(fcntl, "F_OFD_SETLK", None)
_handles: WeakSet[FileLock] = WeakSet()
_TAKEN = (errno.EAGAIN, errno.EACCES, errno.EINTR)
_POLL_MIN_SECONDS = 0.000_2
_POLL_MAX_SECONDS = 0.005


def _flock_struct(kind: int, first: int = 0, count: int = 0) -> bytes:
    """Return struct flock: l_type, l_whence, l_start, l_len (0: to the end), l_pid (0, as OFD locks demand)."""
    return struct.pack("@hhqqi4x", kind, os.SEEK_SET, first, count, 0)


class FileLock:
    """One handle on a lock file. Not re-entrant; a handle belongs to one thread at a time.

    A forked child would share the lock and keep it beyond the parent's death; so it closes all that it inherits.
    """

    def __init__(self, path: Path, *, create: bool = True) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o600)
        self.path = path
        _handles.add(self)

    def fileno(self) -> int:
        """Return the handle's descriptor; -1 once closed."""
        return self._fd

    def try_acquire(self, *, shared: bool = False) -> bool:
        """Take the lock if it is free; return whether it was."""
        if _OFD_SETLK is not None:
            return self._set(_OFD_SETLK, _flock_struct(fcntl.F_RDLCK if shared else fcntl.F_WRLCK))
        try:
            fcntl.flock(self._fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _TAKEN:
                return False
            raise
        return True

    def try_acquire_range(self, first: int, count: int) -> bool:
        """Take a range of the file, bytes that need not be there, if it is free; False where the system has no such."""
        return _OFD_SETLK is not None and self._set(_OFD_SETLK, _flock_struct(fcntl.F_WRLCK, first, count))

    def release_range(self, first: int, count: int) -> None:
        """Give a range back."""
        if _OFD_SETLK is not None:
            fcntl.fcntl(self._fd, _OFD_SETLK, _flock_struct(fcntl.F_UNLCK, first, count))

    def _set(self, command: int, wanted: bytes) -> bool:
        try:
            fcntl.fcntl(self._fd, command, wanted)
        except OSError as error:
            if error.errno in _TAKEN:
                return False
            raise
        return True

    def acquire(self, deadline: float | None, *, shared: bool = False) -> bool:
        """Take the lock before ``deadline`` (``time.monotonic`` seconds; None: for ever); return whether it was."""
        pause = _POLL_MIN_SECONDS
        while not self.try_acquire(shared=shared):
            if deadline is not None and time.monotonic() >= deadline:
                return False
            time.sleep(pause)
            pause = min(pause * 1.5, _POLL_MAX_SECONDS)
        return True

    def release(self) -> None:
        """Give the lock back; the handle stays open."""
        if _OFD_SETLK is not None:
            fcntl.fcntl(self._fd, _OFD_SETLK, _flock_struct(fcntl.F_UNLCK))
        else:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the handle, which releases the lock. Closing twice is harmless."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with suppress(OSError):
                os.close(fd)

    def __enter__(self) -> Self:
        """Wait for the lock."""
        self.acquire(None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the lock and close the handle."""
        self.close()


def _close_inherited() -> None:
    for handle in list(_handles):
        handle.close()


os.register_at_fork(after_in_child=_close_inherited)
