"""Other processes: one that keeps a lock that all need, and how those ended that had the store open before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from journal import layout, limits
from journal.store.lmdb import markers
from tools.cli.checkup.finding import Finding, fault, note, warning
from tools.cli.checkup.locks import Holder, holders, is_locked, stays_locked
from tools.cli.counting import counted

_WRITER = "writer.lock"
_DATA = "data.mdb"
_TURN = "turn.lock"


def writer(store: Path) -> Iterator[Finding]:
    """Yield a process that keeps the writer lock, the turn to it, the opening lock, or a scope's key lock."""
    journal = store / layout.JOURNAL
    locks = [journal / _WRITER, journal / _TURN, journal / markers.LOCK, *sorted((store / layout.KEYS).glob("*.lock"))]
    for path in locks:
        with suppress(FileNotFoundError):
            if is_locked(path):
                yield from _kept(path)


def _kept(path: Path) -> Iterator[Finding]:
    found = [holder for holder in holders(path) if holder.locks]
    stopped = [holder for holder in found if holder.stopped]
    if stopped:
        pid = stopped[0].pid
        yield fault(
            "LOCK_HELD_BY_STOPPED_PROCESS", str(path), f"{stopped[0].told()} holds the lock, and everybody else waits",
            f"let it go on with kill -CONT {pid}, or end it with kill -KILL {pid}; no acknowledged capture is lost",
        )  # fmt: skip
    elif path.name == _WRITER and _stands_still(path):
        # Who waits for its turn holds the turn, who opens may check the store for long: only the writer must let go.
        found = [holder for holder in holders(path) if holder.locks]
        yield warning(
            "LOCK_HELD", str(path), f"{_named(found)} has kept the writer lock for {limits.CHECK_LOCK_SECONDS:g} s",
            "wait if it checks the store after an unclean end; else end it, no acknowledged capture is lost",
        )  # fmt: skip


def _stands_still(lock: Path) -> bool:
    """Whether a writer keeps the lock and writes nothing. Busy ones hand it on so fast that it is never seen free."""
    data = lock.with_name(_DATA)
    before = data.stat().st_mtime_ns
    return stays_locked(lock, limits.CHECK_LOCK_SECONDS) and data.stat().st_mtime_ns == before


def _named(found: list[Holder]) -> str:
    return " and ".join(holder.told() for holder in found) or "a process that this user cannot see"


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of the processes that have the store open for writing, and of those that ended without closing it."""

    alive: tuple[Path, ...]
    dead: tuple[Path, ...]


def marks(store: Path) -> Marks:
    """Return a store's marks; where the system does not tell of locks, all count as alive."""
    alive: list[Path] = []
    dead: list[Path] = []
    try:
        paths = sorted((store / layout.JOURNAL / markers.DIRECTORY).iterdir())
    except OSError:
        paths = []
    for path in paths:
        with suppress(OSError):  # closed meanwhile
            (dead if is_locked(path) is False else alive).append(path)
    return Marks(tuple(alive), tuple(dead))


def open_in(store: Path) -> list[int]:
    """Return the processes that have the store open for writing, as far as this user may see them."""
    return sorted({holder.pid for mark in marks(store).alive for holder in holders(mark)})


def stopped(store: Path) -> Iterator[Finding]:
    """Yield processes that have the store open and are stopped: their projections and readers stand still."""
    for mark in marks(store).alive:
        for holder in holders(mark):
            if holder.stopped:
                yield note(
                    "PROCESS_STOPPED", f"process {holder.pid}", "has the store open and is stopped",
                    f"let it go on with kill -CONT {holder.pid}, or end it",
                )  # fmt: skip


def ends(store: Path) -> Iterator[Finding]:
    """Yield how processes ended that did not close the store."""
    killed, crashed, distrusted = 0, 0, 0
    for mark in marks(store).dead:
        with suppress(FileNotFoundError):
            text = mark.read_text(encoding="utf-8", errors="replace").strip()
            killed += text == markers.boot_id() != ""
            distrusted += text == markers.DISTRUSTED
            crashed += text not in (markers.boot_id() or None, markers.DISTRUSTED)
    subject = str(store / layout.JOURNAL / markers.DIRECTORY)
    if killed:
        yield note(
            "UNCLEAN_END", subject,
            counted(
                killed, "processes were killed while they had the store open",
                "process was killed while it had the store open",
            ),
            "nothing is to be done: the next one that opens it checks what is left",
        )  # fmt: skip
    if crashed:
        yield warning(
            "MACHINE_WENT_DOWN", subject, "the machine went down while the store was open",
            "start engram serve once: before it writes it walks the store, some 30 s a million events",
        )  # fmt: skip
    if distrusted:
        yield warning(
            "FLUSH_FAILED", subject, "a write could not be made durable, so that nothing is taken on trust",
            "see whether the disk is full or failing; then run engram audit",
        )  # fmt: skip
