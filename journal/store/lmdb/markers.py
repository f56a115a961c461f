"""Who has the store open for writing, and how the ones before ended.

    journal/opening.lock    held while a process opens the store: one at a time
    journal/open/<32 hex>   one a process; its text is the boot id, its lock is held as long as the process lives

A mark is durable before its process writes anything, and is removed by a clean close: first unlinked, then unlocked,
so that a mark that can be locked and still has a name belongs to a process that is dead. What that means depends on the
boot:

    the same boot      the process was killed. The page cache outlives it, and LMDB never overwrites a page in use
    another boot       the machine went down: what the disk kept of unflushed pages is anybody's guess
    "distrusted"       a flush failed under it: no matter which boot, nothing is taken on trust
"""

from __future__ import annotations

import errno
import os
import secrets
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from journal import limits
from journal.errors import StoreUnavailable
from journal.filelock import FileLock
from journal.rootkey import flush_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

DIRECTORY = "open"
LOCK = "opening.lock"
DISTRUSTED = "distrusted"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class End(Enum):
    """How those ended who had the store open before; the worst one counts."""

    CLEAN = 0
    KILLED = 1
    CRASHED = 2


@lru_cache(maxsize=1)
def boot_id() -> str:
    """Return this boot's id, or an empty string where the system has none: then every unclean end counts as a crash."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    if sys.platform == "darwin":
        command = ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"]
        with suppress(OSError, subprocess.SubprocessError):
            return subprocess.run(command, capture_output=True, check=True, text=True, timeout=5).stdout.strip()  # noqa: S603 - a constant command
    return ""


class Markers:
    """The marks of one journal directory, as one process sees them."""

    def __init__(self, directory: Path) -> None:
        self._journal = directory
        self._directory = directory / DIRECTORY
        self._mine: FileLock | None = None
        self._distrusted = False
        self.alone = False  # whether nobody else had the store open for writing when this process opened it

    def killed(self) -> frozenset[Path]:
        """Return the marks of processes that were killed in this boot; none where the machine went down as well.

        Writes nothing. Where no lock can be had, nobody counts as dead.
        """
        with suppress(OSError):
            dead = {path: _end_of(path) for path in self._paths() if _is_dead(path)}
            if End.CRASHED not in dead.values():
                return frozenset(dead)
        return frozenset()

    def crashed(self) -> bool:
        """Whether a crash has not been looked into yet. Writes nothing and locks nothing.

        Whoever is alive was started in this boot, so a mark of another boot needs no lock to be known for dead.
        """
        return any(_boot_of(path) != boot_id() for path in self._paths())

    @contextmanager
    def opening(self, looked_into: Collection[Path] = ()) -> Iterator[End]:
        """Yield how the others ended, nobody else opening meanwhile; then take their marks away.

        ``looked_into`` are marks of the dead whose end has been looked into already: it counts as a clean one. What is
        raised inside leaves the marks as they are, so that the next one to open looks again.

        Raises:
            StoreUnavailable: another process has been opening the store for too long.
        """
        lock = FileLock(self._journal / LOCK)
        try:
            if not lock.acquire(time.monotonic() + limits.OPENING_WAIT_SECONDS):
                raise StoreUnavailable("another process is opening the store, or checking it after an unclean end")
            with suppress(FileExistsError):
                self._directory.mkdir(mode=0o700)
                flush_directory(self._journal)  # a mark is no more durable than the folder that it stands in
            paths = self._paths()
            dead = [path for path in paths if _is_dead(path)]
            self.alone = len(dead) == len(paths)
            ends = (_end_of(path) for path in dead if path not in looked_into)
            yield max(ends, key=lambda end: end.value, default=End.CLEAN)
            for path in dead:
                with suppress(OSError):  # the next one to open then looks again, which costs time and no more
                    path.unlink()
        finally:
            lock.close()

    def distrust(self) -> None:
        """Say that nothing may be taken on trust when the store is opened next."""
        if self._mine is not None:
            _write(self._mine, DISTRUSTED)

        self._distrusted = True

    def remove(self, note: Callable[[], None] = lambda: None) -> None:
        """Take one's own mark away: the store was closed cleanly. A mark of distrust stays.

        ``note`` is called before where nobody else has the store open for writing, nor can open it meanwhile.
        """
        mine, self._mine = self._mine, None
        if mine is None or mine.fileno() < 0:  # closed already in a forked child, where the mark is the parent's
            return
        try:
            if not self._distrusted:
                with suppress(OSError):  # the next one to open looks, which costs time and no more
                    self._note_if_last(mine, note)
                mine.path.unlink(missing_ok=True)
        except OSError:
            pass  # likewise
        finally:
            mine.close()

    def _note_if_last(self, mine: FileLock, note: Callable[[], None]) -> None:
        lock = FileLock(self._journal / LOCK)
        try:
            if lock.acquire(time.monotonic() + limits.REST_WAIT_SECONDS) and self._paths() == [mine.path]:
                note()
        finally:
            lock.close()

    def place(self) -> None:
        """Set one's own mark, durably. Called within ``opening``. A mark that cannot be set leaves nothing behind."""
        mark = FileLock(self._directory / secrets.token_hex(16))
        try:
            if not mark.try_acquire():
                raise StoreUnavailable("a fresh mark is locked already")  # noqa: TRY301 - it is given up like any other
            _write(mark, boot_id())
            flush_directory(self._directory)
        except BaseException:
            with suppress(OSError):  # half a mark would count as a crash
                mark.path.unlink(missing_ok=True)
            mark.close()
            raise
        self._mine = mark

    def place_if_room(self) -> None:
        """Set one's own mark where the disk has room for it; called as ``place``.

        Who only reads needs none, and must not be refused for want of room: ``placed`` sets it before the first write.
        """
        try:
            self.place()
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise

    def placed(self, deadline: float | None) -> bool:
        """Set one's own mark if it is missing; return whether it could be had before the deadline.

        Raises:
            OSError: there is still no room for it.
        """
        if self._mine is not None:
            return True
        lock = FileLock(self._journal / LOCK)
        try:
            if not lock.acquire(deadline):
                return False
            self.place()
        finally:
            lock.close()
        return True

    def _paths(self) -> list[Path]:
        try:
            return sorted(self._directory.iterdir())
        except FileNotFoundError:
            return []


def _write(mark: FileLock, text: str) -> None:
    os.ftruncate(mark.fileno(), 0)
    os.pwrite(mark.fileno(), text.encode() + b"\n", 0)
    os.fsync(mark.fileno())


def _boot_of(path: Path) -> str:
    """Return what a mark says. One that is gone meanwhile was removed by a clean close, so it counts as this boot's."""
    try:
        return path.read_text(encoding="utf-8").strip() or DISTRUSTED
    except FileNotFoundError:
        return boot_id()
    except (OSError, UnicodeDecodeError):
        return DISTRUSTED


def _is_dead(path: Path) -> bool:
    try:
        lock = FileLock(path, create=False)
    except FileNotFoundError:
        return False
    try:
        return lock.try_acquire() and os.fstat(lock.fileno()).st_nlink > 0
    finally:
        lock.close()


def _end_of(path: Path) -> End:
    return End.KILLED if boot_id() and _boot_of(path) == boot_id() else End.CRASHED
