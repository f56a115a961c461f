"""The scrub of a journal that is served: a child process walks it from time to time (``quarantine``).

    journal/scrub.lock    held by the process whose child walks, or is about to
    journal/scrubbed      JSON: when the last walk ended, how long it took, what it found

Frames, sealed parts, key slots and keyrings are checked at each reading. LMDB's own pages are not, and a changed one
can hide a row of an index: NOT_FOUND of what is there. So the pages are walked behind the calls, as file systems do
that have checksums. One process of all that have the store open walks, at the lowest priority, for so long that it
takes a bounded share of a core, and all of them learn what was found. What was found once is looked at a second time.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from journal import limits
from journal.errors import EngramError, JournalCorrupt, StoreUnavailable
from journal.filelock import FileLock
from journal.foreign import UNREADABLE
from journal.ownmodule import own_environment
from journal.store.lmdb.quarantine import command_of, understood

LOCK = "scrub.lock"
NAME = "scrubbed"


class Scrubbed(msgspec.Struct, frozen=True):
    """How the last walk ended."""

    ended_at: float  # epoch seconds
    took_seconds: float
    code: str = ""  # of the contract; empty where everything was as it was written
    detail: str = ""


def last_of(directory: Path) -> Scrubbed | None:
    """Return how the last walk over a journal ended, None where none was made or its note cannot be read."""
    try:
        return msgspec.json.decode((directory / NAME).read_bytes(), type=Scrubbed)
    except (OSError, *UNREADABLE):
        return None


def note_whole(directory: Path, took_seconds: float = 0.0) -> None:
    """Note that the journal is whole now: it was made, or it was walked when it was opened, and mended."""
    with suppress(OSError):
        (directory / NAME).unlink(missing_ok=True)  # on a full disk no note is better than one of damage
        _replace(directory / NAME, msgspec.json.encode(Scrubbed(time.time(), took_seconds)))


class PageScrub:
    """The walks of one process that has the journal open. Belongs to one thread."""

    def __init__(self, directory: Path, opened_at: float) -> None:
        """Take a journal's directory, and when this process opened it, in epoch seconds."""
        self._directory = directory
        self._opened_at = opened_at
        self._lock = FileLock(directory / LOCK)
        self._child: subprocess.Popen[bytes] | None = None
        self._began = 0.0
        self._found_before: EngramError | None = None  # by the walk before, which is made again to be sure
        self._ended: Scrubbed | None = None  # the last one of ours: its note may find no room on a full disk

    def step(self) -> None:
        """Begin a walk where one is due, or take what one found that has ended; never wait for one.

        Raises:
            JournalCorrupt, StoreUnavailable: the journal is damaged, as a walk found twice, here or in another process.
        """
        if self._child is not None:
            if self._child.poll() is None:
                return
            self._take(self._child)
            return
        last = last_of(self._directory)
        if last is not None and last.code and last.ended_at >= self._opened_at:
            raise _error_of(last)
        if self._is_due(last) and self._lock.try_acquire():
            if self._is_due(last_of(self._directory)):
                self._begin()
            else:
                self._lock.release()

    def _is_due(self, last: Scrubbed | None) -> bool:
        now = time.time()
        if self._ended is not None and (last is None or last.ended_at < self._ended.ended_at):
            last = self._ended
        if 0 <= now - self._opened_at < limits.PAGE_SCRUB_AFTER_OPENING_SECONDS:
            return False  # a session's first calls have the machine for themselves
        if last is None:
            return True  # nobody knows of a walk: a store of short sessions would never meet one else
        pause = max(limits.PAGE_SCRUB_PAUSE_SECONDS, last.took_seconds * limits.PAGE_SCRUB_SHARE)
        return not 0 <= now - last.ended_at < pause  # of a clock that was set back it is due as well

    def _begin(self) -> None:
        self._began = time.monotonic()
        try:
            self._child = subprocess.Popen(  # noqa: S603 - our own module
                command_of(self._directory, "idle"), env=own_environment(), stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        except OSError:
            self._end(None)

    def _take(self, child: subprocess.Popen[bytes]) -> None:
        raw = child.communicate()[0]
        try:
            found = _found(child.returncode, raw)
        except StoreUnavailable:
            self._end(None)  # it could not be made, or somebody ended it: that says nothing of the journal
            return
        if found is not None and self._found_before is None:
            self._child, self._found_before = None, found
            self._begin()  # once more, under the same lock
            return
        took = time.monotonic() - self._began
        self._end(Scrubbed(time.time(), took, *(("", "") if found is None else (found.code, found.detail))))
        if found is not None:
            raise found

    def _end(self, scrubbed: Scrubbed | None) -> None:
        """Note how the walk ended; one that could not be made counts as made, for it would fail at once again."""
        self._child, self._found_before = None, None
        noted = scrubbed or last_of(self._directory) or Scrubbed(0.0, 0.0)
        if scrubbed is None:
            noted = msgspec.structs.replace(noted, ended_at=time.time())
        self._ended = noted
        with suppress(OSError):
            _replace(self._directory / NAME, msgspec.json.encode(noted))
        self._lock.release()

    def close(self) -> None:
        """End a walk that is under way."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.communicate()
        self._lock.close()


def _found(returncode: int, raw: bytes) -> EngramError | None:
    """Return what a walk found, None where everything is as it was written.

    Raises:
        StoreUnavailable: it could not be made.
    """
    try:
        broken = understood(returncode, raw)
    except JournalCorrupt as error:
        return error
    return StoreUnavailable(f"index tables are not what was written: {', '.join(broken)}") if broken else None


def _error_of(scrubbed: Scrubbed) -> EngramError:
    kind = JournalCorrupt if scrubbed.code == JournalCorrupt.code else StoreUnavailable
    return kind(scrubbed.detail)


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
