"""Who holds a lock or has a file open. Nothing is locked to find out: a probe must not be in a server's way.

Linux tells of an OFD lock by ``F_OFD_GETLK`` whether it stands, and in ``/proc/<pid>/fdinfo`` who holds it. Where the
system tells neither, the answer is None: not known.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_OFD_GETLK: int | None = getattr(fcntl, "F_OFD_GETLK", None)
_FLOCK = struct.Struct("@hhqqi4x")  # l_type, l_whence, l_start, l_len, l_pid
_POLL_SECONDS = 0.005
_STOPPED = frozenset("Tt")


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that has a file open."""

    pid: int
    stopped: bool
    locks: bool  # whether it holds a lock on it

    def told(self) -> str:
        """Return it in words."""
        return f"process {self.pid}{' (stopped)' if self.stopped else ''}"


def is_locked(path: Path) -> bool | None:
    """Whether anybody holds an OFD lock on a file; None where that cannot be known.

    Raises:
        FileNotFoundError: it is not there.
    """
    if _OFD_GETLK is None:
        return None
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        answer = fcntl.fcntl(descriptor, _OFD_GETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)


def stays_locked(path: Path, seconds: float) -> bool:
    """Whether a lock stands each time it is looked at for so long; False as soon as it is once seen free."""
    until = time.monotonic() + seconds
    while is_locked(path):
        if time.monotonic() >= until:
            return True
        time.sleep(_POLL_SECONDS)
    return False


def holders(path: Path) -> list[Holder]:
    """Return the other processes that have a file open, as far as this user may see them, by their numbers."""
    try:
        found = path.stat()
        processes = [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - names, not paths
    except OSError:
        return []
    identity = (found.st_dev, found.st_ino)
    held = []
    for pid in sorted(processes):
        descriptors = [] if pid == os.getpid() else list(_descriptors(pid, identity))
        if descriptors:
            held.append(Holder(pid, _is_stopped(pid), any(_locks(pid, each) for each in descriptors)))
    return held


def _descriptors(pid: int, identity: tuple[int, int]) -> Iterator[str]:
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)  # noqa: PTH208 - names, not paths
    except OSError:
        return
    for name in names:
        with suppress(OSError):
            found = os.stat(f"{folder}/{name}")  # noqa: PTH116 - many, and no path is kept
            if (found.st_dev, found.st_ino) == identity:
                yield name


def _locks(pid: int, descriptor: str) -> bool:
    with suppress(OSError):
        return "\nlock:" in Path(f"/proc/{pid}/fdinfo/{descriptor}").read_text(encoding="ascii", errors="replace")
    return False


def _is_stopped(pid: int) -> bool:
    with suppress(OSError):
        # "pid (name) state ...", and a name may hold anything.
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return stat.rpartition(")")[2].split()[0] in _STOPPED
    return False
