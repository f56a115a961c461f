"""Walks over the pages of what is served, each made by a child process.

    <directory>/scrub.lock    held by the process whose child walks, or is about to
    <directory>/scrubbed      JSON: when the last walk ended, how long it took, what it found

LMDB checks no page that it reads, and a changed one can hide a row or give another. So the pages are walked behind the
calls, as file systems do that have checksums: by a child, which may die of what it finds. One process of all that have
the directory open walks, for so long that it takes a bounded share of a core, and all of them learn what was found.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from journal import limits
from journal.filelock import FileLock
from journal.foreign import UNREADABLE
from journal.ownmodule import own_environment

LOCK: Final = "scrub.lock"
NAME: Final = "scrubbed"
BEGUN: Final = b"begun\n"
"""What a child says first: from there on it is the pages' fault if it dies."""
DIED_OF_PAGES: Final = (signal.SIGBUS, signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE, signal.SIGILL)
"""What reading damaged pages ends in. Any other signal somebody sent."""
_HEARD_BYTES: Final = 1 << 16


class Scrubbed(msgspec.Struct, frozen=True):
    """How the last walk ended."""

    ended_at: float  # epoch seconds
    took_seconds: float
    code: str = ""  # of the contract; empty where everything was as it was written, or is as good as new
    detail: str = ""


def last_of(directory: Path) -> Scrubbed | None:
    """Return how the last walk over a directory ended, None where none was made or its note cannot be read."""
    try:
        return msgspec.json.decode((directory / NAME).read_bytes(), type=Scrubbed)
    except (OSError, *UNREADABLE):
        return None


def note_whole(directory: Path, took_seconds: float = 0.0) -> None:
    """Note that everything is whole now: it was made, or it was walked when it was opened, and mended."""
    with suppress(OSError):
        (directory / NAME).unlink(missing_ok=True)  # on a full disk no note is better than one of damage
        _replace(directory / NAME, msgspec.json.encode(Scrubbed(time.time(), took_seconds)))


class Ended(NamedTuple):
    """What a child left behind."""

    returncode: int  # -1 times a signal's number where it died of that
    output: bytes


class Walks:
    """The walks of one process that has a directory open. Belongs to one thread."""

    def __init__(self, directory: Path, opened_at: float, command: Sequence[str]) -> None:
        """Take the directory, when this process opened it, in epoch seconds, and the command that walks it."""
        self._directory = directory
        self._opened_at = opened_at
        self._command = command
        self._lock = FileLock(directory / LOCK)
        self._began = 0.0
        self._ended: Scrubbed | None = None  # the last one of ours: its note may find no room on a full disk
        self._heard: list[bytes] = []  # what the child has said so far
        self.child: subprocess.Popen[bytes] | None = None

    def step(self) -> Ended | None:
        """Begin a walk where one is due; return what one left that has ended, and never wait for one.

        Then call ``again`` or ``end``: the lock is still held.
        """
        if self.child is None:
            if self.is_due(last_of(self._directory)) and self._lock.try_acquire():
                if self.is_due(last_of(self._directory)):
                    self._began = time.monotonic()
                    self.again()
                else:
                    self._lock.release()
            return None
        is_over = self.child.poll() is not None
        self._hear(self.child)  # while it walks too: one that has much to say would wait for us at a full pipe
        if not is_over:
            return None
        child, self.child = self.child, None
        child.communicate()
        return Ended(child.returncode, b"".join(self._heard))

    def _hear(self, child: subprocess.Popen[bytes]) -> None:
        assert child.stdout is not None
        with suppress(BlockingIOError):  # no select: of a server with many files open it refuses the number
            while part := os.read(child.stdout.fileno(), _HEARD_BYTES):
                self._heard.append(part)

    def is_due(self, last: Scrubbed | None) -> bool:
        """Whether a walk is due now, by how the last one ended."""
        now = time.time()
        if self._ended is not None and (last is None or last.ended_at < self._ended.ended_at):
            last = self._ended
        if 0 <= now - self._opened_at < limits.PAGE_SCRUB_AFTER_OPENING_SECONDS:
            return False  # a session's first calls have the machine for themselves
        if last is None:
            return True  # nobody knows of a walk: a store of short sessions would never meet one else
        pause = max(limits.PAGE_SCRUB_PAUSE_SECONDS, last.took_seconds * limits.PAGE_SCRUB_SHARE)
        return not 0 <= now - last.ended_at < pause  # of a clock that was set back it is due as well

    def again(self) -> None:
        """Walk once more, under the same lock."""
        self._heard = []
        try:
            self.child = subprocess.Popen(  # noqa: S603 - our own module
                self._command, env=own_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )  # fmt: skip
        except OSError:
            self.end_unmade()
            return
        assert self.child.stdout is not None
        os.set_blocking(self.child.stdout.fileno(), False)

    def end(self, code: str = "", detail: str = "") -> None:
        """Note how a walk ended, and let others walk."""
        self._note(Scrubbed(time.time(), time.monotonic() - self._began, code, detail))

    def end_unmade(self) -> None:
        """Note that a walk could not be made; it counts as made, for it would fail at once again."""
        before = last_of(self._directory) or Scrubbed(0.0, 0.0)
        self._note(msgspec.structs.replace(before, ended_at=time.time()))

    def _note(self, scrubbed: Scrubbed) -> None:
        self._ended = scrubbed
        with suppress(OSError):
            _replace(self._directory / NAME, msgspec.json.encode(scrubbed))
        self._lock.release()

    def close(self) -> None:
        """End a walk that is under way."""
        child, self.child = self.child, None
        if child is not None:
            child.kill()
            child.communicate()
        self._lock.close()


def _replace(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
        temporary.rename(path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
