"""Preparing what folds need of payloads ahead of the fold, in a second process and in this one while it waits.

To open payloads and to weigh texts is most of a rebuild, needs no table, and is the same in any order: so another
processor can do it. The second process opens the journal itself, is told through a pipe which pages to prepare, and
gives back what the projections' own ``prepare`` makes of them (``projections.port``). Whoever folds takes it where it
is there and of the very events that he has read; where it is not, because the process died or never came up, he does
without.

    to it      Opening, then the cursor after which each page begins
    from it    Prepared, one a page, in the order in which they were asked for

Each message is its length (8 bytes, little-endian) and msgpack. Nothing of a payload passes the pipe but what a
projection keeps of it; the root key does, to a process of our own.
"""

from __future__ import annotations

import os
import queue
import subprocess
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any

import msgspec

from journal import limits
from journal.errors import EngramError
from journal.foreign import UNREADABLE
from journal.log import Journal
from journal.ownmodule import own_command, own_environment
from journal.scope import Scope
from projections.port import FoldEvent, Projection
from projections.tail import Page, Tail

_LENGTH_BYTES = 8
_END_SECONDS = 5.0
_ASKED = 2  # pages: the one that is being prepared, and the next


class Opening(msgspec.Struct, array_like=True):
    """What the second process opens and prepares for."""

    store: str  # its directory
    root_key: bytes
    scope: Scope
    versions: dict[str, int]  # of the projections, by name
    page_events: int


class Prepared(msgspec.Struct, array_like=True):
    """What was prepared of a page."""

    after: int
    last_hash: bytes = b""  # of the page's last frame: the very events are meant
    rows: dict[str, list[Any]] = {}  # by projection, one an event


def prepare(tail: Tail, projections: Sequence[Projection], after: int) -> Prepared:
    """Prepare the page after a cursor: nothing of it where anything is wrong with it, which the fold will find."""
    try:
        page = tail.read(after)
        with tail.opening():
            rows = {each.name: each.prepare(page.events) for each in _preparing(projections)}
    except EngramError:
        return Prepared(after)
    return Prepared(after, page.last_hash, rows)


def _preparing(projections: Sequence[Projection]) -> list[Any]:
    return [each for each in projections if hasattr(each, "prepare")]


def send(stream: IO[bytes], message: Any) -> None:
    """Write a message."""
    raw = msgspec.msgpack.encode(message)
    stream.write(len(raw).to_bytes(_LENGTH_BYTES, "little") + raw)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes | None:
    """Read a message as it stands, None at the stream's end."""
    length = stream.read(_LENGTH_BYTES)
    if len(length) < _LENGTH_BYTES:
        return None
    raw = stream.read(int.from_bytes(length, "little"))
    return raw if len(raw) == int.from_bytes(length, "little") else None


class _Second:
    """The second process, and what it has been asked for."""

    def __init__(self, opening: Opening) -> None:
        """Start it.

        Raises:
            OSError: it cannot be started.
        """
        self.asked: deque[int] = deque()
        self._arrived: queue.SimpleQueue[Prepared | None] = queue.SimpleQueue()
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            own_command("replay.ahead_process"), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, env=own_environment(),
        )  # fmt: skip
        self._reading = threading.Thread(target=self._read, name="engram-ahead", daemon=True)
        self._reading.start()
        self._tell(opening)

    def _tell(self, message: Any) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):  # it has died: that shows where its answers are read
            send(self._process.stdin, message)

    def _read(self) -> None:
        assert self._process.stdout is not None
        decoder = msgspec.msgpack.Decoder(Prepared)
        with suppress(OSError, *UNREADABLE):
            while (raw := receive(self._process.stdout)) is not None:
                self._arrived.put(decoder.decode(raw))
        self._arrived.put(None)

    def ask(self, after: int) -> None:
        """Ask for the page after a cursor."""
        self.asked.append(after)
        self._tell(after)

    def answer(self, *, wait: bool) -> Prepared | None:
        """Return the next page that has come, None where none has and that is not waited for.

        Raises:
            EOFError: it has ended, or does not answer.
        """
        try:
            prepared = self._arrived.get(block=wait, timeout=limits.REBUILD_SECOND_MAX_SECONDS)
        except queue.Empty:
            if not wait:
                return None
            prepared = None
        if prepared is None:
            raise EOFError
        self.asked.popleft()
        return prepared

    def end(self) -> None:
        """End it."""
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):  # it hangs in the system, and ends when that lets it
            self._process.wait(_END_SECONDS)
        self._reading.join(_END_SECONDS)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


class AheadTail(Tail):
    """A tail whose pages come prepared for some projections. Pages are asked for one after the other."""

    def __init__(self, source: Journal, scope: Scope, projections: Sequence[Projection], pages: range) -> None:
        """Take the cursors after which pages begin.

        Raises:
            OSError: the second process cannot be started.
        """
        super().__init__(source, scope, pages.step)
        self.prepared_there = 0  # pages that came from the second process
        self._projections = projections
        self._here = Tail(source, scope, pages.step)
        self._left = deque(pages)  # the pages that nobody prepares yet
        self._ready: dict[int, Prepared] = {}
        versions = {each.name: each.version for each in _preparing(projections)}
        root_key = source.keyring.root.key
        self._second: _Second | None = _Second(
            Opening(str(source.path.resolve()), root_key, scope, versions, pages.step)
        )

    def read(self, after: int) -> Page:
        """Read the page that begins after a cursor, prepared where that could be."""
        page = super().read(after)
        while self._second is not None:
            self._keep_busy()
            if after in self._ready or after not in self._second.asked:
                break
            # Who would have to wait prepares what nobody has begun, so that both come to the end together.
            has_room = bool(self._left) and len(self._ready) < limits.REBUILD_PAGES_AHEAD
            if not self._take(wait=not has_room) and self._second is not None:
                begins = self._left.popleft()
                self._ready[begins] = prepare(self._here, self._projections, begins)
        prepared = self._ready.pop(after, None)
        return page if prepared is None else _joined(page, prepared)

    def _keep_busy(self) -> None:
        """Give the second process pages, so that it never waits for the next."""
        assert self._second is not None
        while self._left and len(self._second.asked) < _ASKED and len(self._ready) < limits.REBUILD_PAGES_AHEAD:
            self._second.ask(self._left.popleft())

    def _take(self, *, wait: bool) -> bool:
        """Take a page that came from the second process; return whether there was one. If it has ended, let it go."""
        assert self._second is not None
        try:
            prepared = self._second.answer(wait=wait)
        except EOFError:
            self.end()
            return False
        if prepared is None:
            return False
        self._ready[prepared.after] = prepared
        self.prepared_there += 1
        return True

    def end(self) -> None:
        """End the second process; what comes now is not prepared."""
        if self._second is not None:
            self._second.end()
            self._second = None


def _joined(page: Page, prepared: Prepared) -> Page:
    """Return a page with what was prepared of its very events."""
    if not prepared.rows or prepared.last_hash != page.last_hash:
        return page
    names = list(prepared.rows)
    events = []
    for event, *found in zip(page.events, *prepared.rows.values(), strict=True):
        made = {name: row for name, row in zip(names, found, strict=True) if row is not None}
        events.append(FoldEvent(event.header, event.payload, made) if made else event)
    return Page(page.after, events, page.last_hash)


@contextmanager
def tail_ahead(source: Journal, scope: Scope, projections: Sequence[Projection], pages: range) -> Iterator[Tail]:
    """Yield what reads the journal for a rebuild: with a second process where there is enough to do for two.

    ``pages`` are the cursors after which pages begin. A second process is not worth its start for a few of them, nor
    where there is one processor, nor for folds that prepare nothing.
    """
    tail: Tail | None = None
    if len(pages) >= limits.REBUILD_SECOND_MIN_PAGES and _processors() > 1 and _preparing(projections):
        with suppress(OSError):
            tail = AheadTail(source, scope, projections, pages)
    try:
        yield tail or Tail(source, scope, pages.step)
    finally:
        if isinstance(tail, AheadTail):
            tail.end()


def _processors() -> int:
    """Return how many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1
