"""A process whose calls about the files of one directory are counted, and one of which is met by a fault.

Calls are counted over all threads and children of the process in the order in which they are made. What concerns no
file of the directory happens as if nobody were asked.
"""

from __future__ import annotations

import errno
import os
import re
import select
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.faults.seccomp import Asked, answer, closed, receive, text_at

KILLED = "SIGKILL"
_AT_NOTHING = -100  # AT_FDCWD
_ANONYMOUS = 0x20
_BY_NAME = {
    "open": (0,), "stat": (0,), "lstat": (0,), "access": (0,), "truncate": (0,), "rename": (0, 1), "mkdir": (0,),
    "rmdir": (0,), "creat": (0,), "link": (0, 1), "unlink": (0,), "symlink": (1,), "chmod": (0,), "statfs": (0,),
}  # fmt: skip
_BY_FOLDER_AND_NAME = {
    "openat": (0,), "mkdirat": (0,), "newfstatat": (0,), "unlinkat": (0,), "renameat": (0, 2), "linkat": (0, 2),
    "faccessat": (0,), "renameat2": (0, 2), "statx": (0,), "faccessat2": (0,),
}  # fmt: skip
_NEEDING_ROOM = frozenset(
    ("write", "pwrite64", "writev", "pwritev", "pwritev2", "fsync", "fdatasync", "truncate", "ftruncate", "fallocate",
     "mkdir", "mkdirat", "creat", "link", "linkat", "rename", "renameat", "renameat2", "copy_file_range", "sendfile")
)  # fmt: skip
_INTERRUPTED = frozenset(
    ("read", "pread64", "readv", "preadv", "preadv2", "write", "pwrite64", "writev", "pwritev", "pwritev2", "open",
     "openat", "fsync", "fdatasync", "ftruncate", "fallocate", "fcntl", "flock")
)  # fmt: skip
_CHANCE = re.compile(r"(?<![0-9a-z])[0-9a-f]{12,64}(?![0-9a-z])|(?<=CURRENT\.)[0-9]+$|(?<=MARK\.)[0-9]+$")


@dataclass(frozen=True, slots=True)
class Call:
    """One call about a file of the directory: its name, the file's, and whether it may make a file."""

    name: str
    file: str  # below the directory, what chance drew replaced by a star
    creates: bool = False

    @property
    def faults(self) -> tuple[str, ...]:
        """The faults that such a call can meet."""
        named = ["ENOMEM" if self.name == "mmap" else "EIO"]
        if self.name in _NEEDING_ROOM or self.creates:
            named.append("ENOSPC")
        if self.name in _INTERRUPTED:
            named.append("EINTR")
        return (*named, KILLED)


@dataclass(frozen=True, slots=True)
class Fault:
    """What is done to a call: the how-manieth, and an error's name or SIGKILL."""

    number: int
    error: str


class Watch:
    """Answers every call of a watched process until nobody is left of it."""

    def __init__(
        self, listener: int, root: Path, fault: Fault | None = None, *, when_met: Callable[[], None] = lambda: None
    ) -> None:
        """Take a listener over, and the directory whose files count. ``when_met``: called as the fault strikes."""
        self.calls: list[Call] = []
        self.met: Call | None = None
        self.said_after: list[int] = []  # how many calls came before each write to anything else: what it tells
        self._listener = listener
        self._root = os.fsencode(root.resolve()) + b"/"
        self._fault = fault
        self._when_met = when_met

    def run(self, seconds: float) -> bool:
        """Answer until nobody is watched any more; return whether that was so in time."""
        polled = select.poll()
        polled.register(self._listener, select.POLLIN)
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            for _, event in polled.poll(left * 1000):
                if event & select.POLLIN:
                    self._answer_one()
                elif event & (select.POLLHUP | select.POLLERR):
                    os.close(self._listener)
                    return True
        os.close(self._listener)  # whatever is still held fails, and goes on unwatched
        return False

    def _answer_one(self) -> None:
        asked = receive(self._listener)
        if asked is None:
            return
        call = self._call(asked)
        error = 0
        if call is None and asked.name == "write":
            self.said_after.append(len(self.calls))
        elif call is not None:
            self.calls.append(call)
            if self._fault is not None and self.met is None and len(self.calls) == self._fault.number:
                error = self._strike(asked, call, self._fault)
        answer(self._listener, asked, error)

    def _strike(self, asked: Asked, call: Call, fault: Fault) -> int:
        self.met = call
        self._when_met()
        if fault.error != KILLED:
            if call.name == "close":  # one that fails has closed the file all the same
                closed(self._listener, asked, _signed(asked.arguments[0]))
            return int(getattr(errno, fault.error))
        with suppress(ProcessLookupError):
            os.kill(_process_of(asked.thread), signal.SIGKILL)
        return errno.EIO  # it is dead: nobody hears it

    def _call(self, asked: Asked) -> Call | None:
        """Return the call where it is about a file of the directory; after the fault nothing is counted any more."""
        if self.met is not None:
            return None
        try:
            for path in _paths(asked):
                if (path + b"/").startswith(self._root):
                    below = os.fsdecode(path[len(self._root) :])
                    return Call(asked.name, _CHANCE.sub("*", below), _creates(asked))
        except (OSError, ProcessLookupError):
            pass  # a descriptor or an address that is none: the system will say so
        return None


def _paths(asked: Asked) -> list[bytes]:
    """Return the whole paths of the files that a call is about."""
    name, words, thread = asked.name, asked.arguments, asked.thread
    if name in _BY_NAME:
        return [_whole(thread, _AT_NOTHING, text_at(thread, words[at])) for at in _BY_NAME[name]]
    if name in _BY_FOLDER_AND_NAME:
        pairs = [(words[at], words[at + 1]) for at in _BY_FOLDER_AND_NAME[name]]
        return [_whole(thread, _signed(folder), text_at(thread, address)) for folder, address in pairs]
    if name == "mmap":
        return [] if words[3] & _ANONYMOUS else [_file(thread, _signed(words[4]))]
    return [] if name == "msync" else [_file(thread, _signed(words[0]))]


def _whole(thread: int, folder: int, name: bytes) -> bytes:
    if name.startswith(b"/"):
        return os.path.normpath(name)
    base = os.readlink(f"/proc/{thread}/cwd".encode()) if folder == _AT_NOTHING else _file(thread, folder)  # noqa: PTH115 - of bytes
    return os.path.normpath(base + b"/" + name) if name else base


def _file(thread: int, descriptor: int) -> bytes:
    return os.readlink(f"/proc/{thread}/fd/{descriptor}".encode())  # noqa: PTH115 - of bytes


def _signed(word: int) -> int:
    low = word & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low


def _creates(asked: Asked) -> bool:
    if asked.name == "openat":
        return bool(asked.arguments[2] & os.O_CREAT)
    return asked.name == "creat" or (asked.name == "open" and bool(asked.arguments[1] & os.O_CREAT))


def _process_of(thread: int) -> int:
    """Return the process that a thread belongs to."""
    for line in Path(f"/proc/{thread}/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("Tgid:"):
            return int(line.split()[1])
    raise ProcessLookupError(thread)
