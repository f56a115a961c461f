"""Locks on the very files and directories that they guard.

flock, not OFD byte ranges: both belong to the open file, so that two handles in one process exclude each other as two
processes do, and the kernel releases them when the holder dies. But an OFD write lock wants a handle open for writing,
which a directory never gives, and Python offers none on macOS. A lock on the guarded inode itself can never be deleted
apart from what it guards: a separate lock file, removed under a live process and made anew, would let two writers in.

flock changes from exclusive to shared in two steps, and a change that fails loses the lock held before; so nobody here
changes a lock but one who is about to close it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

_POLL_MIN_SECONDS = 0.000_2
_POLL_MAX_SECONDS = 0.005


class InodeLock:
    """A handle of its own on a file or directory, and the lock that it holds. Belongs to one thread at a time."""

    def __init__(self, path: Path) -> None:
        """Open the file or directory, which must be there.

        Raises:
            FileNotFoundError: it is not.
        """
        flags = os.O_RDONLY | os.O_DIRECTORY if path.is_dir() else os.O_RDWR
        self.fd = os.open(path, flags | os.O_CLOEXEC)

    @property
    def identity(self) -> tuple[int, int]:
        """The device and inode that the handle is open on."""
        found = os.fstat(self.fd)
        return found.st_dev, found.st_ino

    def try_acquire(self, *, shared: bool = False) -> bool:
        """Take the lock if it is free; return whether it was."""
        try:
            fcntl.flock(self.fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES, errno.EINTR):
                return False
            raise
        return True

    def acquire(self, deadline: float | None, *, shared: bool = False) -> bool:
        """Take the lock before the deadline, trying at least once; return whether it was had.

        ``deadline`` is in ``time.monotonic`` seconds; None never gives up.
        """
        pause_seconds = _POLL_MIN_SECONDS
        while not self.try_acquire(shared=shared):
            if deadline is not None and time.monotonic() >= deadline:
                return False
            time.sleep(pause_seconds)
            pause_seconds = min(pause_seconds * 1.5, _POLL_MAX_SECONDS)
        return True

    def release(self) -> None:
        """Give the lock back; the handle stays open."""
        fcntl.flock(self.fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the handle, which releases the lock unless a forked child still has the handle too."""
        if self.fd >= 0:
            with suppress(OSError):
                os.close(self.fd)
            self.fd = -1


def identity_of(path: Path) -> tuple[int, int] | None:
    """Return the device and inode at a path, or None where there is nothing."""
    try:
        found = os.stat(path)  # noqa: PTH116 - a search does it for each projection, and Path.stat costs twice as much
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino
