"""The journal as folds read it: pages of events after a cursor, each event's payload opened when first asked for.

Several projections that fold the same page share it, so that a payload is unsealed once a page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from journal import limits
from journal.errors import CursorGap
from journal.events import CONVERSATION, LIFECYCLE, EventType, Header
from journal.frames import GENESIS, frame_hash
from journal.scope import Scope
from journal.store.port import Committed, Head
from projections.port import FoldEvent

_UNOPENED = object()
_CAPTURE = int(EventType.CAPTURE)


class Forgettings(Protocol):
    """What projections need of a view (``journal.store.port.View``)."""

    def pending_erasures(self) -> list[tuple[int, str]]:
        """Return (cursor of the tombstone, candidate id) of forgettings that are not complete."""
        ...


class EventSource(Protocol):
    """What projections need of a storage engine (``journal.store.port.Store``)."""

    def head(self, scope: Scope) -> Head:
        """Return the head of a scope's journal."""
        ...

    def read(self, scope: Scope, after: int, limit: int) -> list[Committed]:
        """Return at most ``limit`` verified events with cursors over ``after``, in order."""
        ...

    def view(self, scope: Scope) -> AbstractContextManager[Forgettings]:
        """Return a snapshot of a scope's indexes."""
        ...


class JournalSource(Protocol):
    """What projections need of a journal (``journal.log.Journal``)."""

    @property
    def store(self) -> EventSource:
        """The storage engine."""
        ...

    def payload(self, scope: Scope, subject: str | int | Header, view: Any = None) -> dict[str, Any] | None:
        """Return a candidate's effective payload, or None once it is rejected, withdrawn or forgotten.

        ``subject``: its id, its capture's cursor, or the header of its capture, where that was read and verified.
        ``view``: one of the store's to read through; None: one for this alone.

        Raises:
            BlobMissing: it is lost. JournalCorrupt: it is not what the journal says.
        """
        ...

    def said(self, scope: Scope, cursor: int, view: Any = None) -> dict[str, Any] | None:
        """Return what a conversation event says, or None once its message is erased; ``view`` as of ``payload``.

        Raises:
            BlobMissing: it is lost. JournalCorrupt: it is not what the journal says.
        """
        ...

    def projection_key(self, scope: Scope, name: str, version: int) -> bytes:
        """Return the 32-byte key of a projection version."""
        ...


class _Room:
    """How many characters of payloads a page may still keep."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = limits.PAYLOADS_KEPT_MAX_CHARACTERS

    def take(self, characters: int) -> bool:
        """Take room for a payload; return whether there was."""
        if characters > min(self._left, limits.PAYLOAD_KEPT_MAX_CHARACTERS):
            return False
        self._left -= characters
        return True


class _Payload:
    """Opens what an event says once and keeps it, unless it is large: a page of those would fill the memory."""

    __slots__ = ("_kept", "_open", "_room")

    def __init__(self, opening: Callable[[], dict[str, Any] | None], room: _Room) -> None:
        self._open = opening
        self._room = room
        self._kept: Any = _UNOPENED

    def __call__(self) -> dict[str, Any] | None:
        if self._kept is not _UNOPENED:
            kept: dict[str, Any] | None = self._kept
            return kept
        payload = self._open()
        if payload is None or self._room.take(_characters(payload)):
            self._kept = payload
        return payload


def _characters(payload: dict[str, Any]) -> int:
    components = sum(len(component["text"]) for component in payload.get("components", ()))
    return components + len(payload.get("message", ""))


def _nothing() -> None:
    """Stand for the payload of an event that has none."""


@dataclass(frozen=True, slots=True)
class Page:
    """Consecutive events. ``events[0]`` has cursor ``after + 1``; an empty page is the journal's end."""

    after: int
    events: Sequence[FoldEvent]
    last_hash: bytes  # BLAKE3 of the last frame

    @property
    def last(self) -> int:
        """The cursor of the last event, or ``after`` of an empty page."""
        return self.after + len(self.events)

    def hash_before(self, cursor: int) -> bytes:
        """Return the hash that the chain has before the event at ``cursor``; the page reaches from there to its end."""
        at = cursor - self.after - 1
        return self.last_hash if at == len(self.events) else self.events[at].header.prev

    def between(self, after: int, upto: int) -> Sequence[FoldEvent]:
        """Return the events with cursors over ``after`` and not over ``upto``."""
        return self.events[max(0, after - self.after) : max(0, upto - self.after)]


class Tail:
    """Reads one scope's journal forward, keeping the newest page for whoever folds it next."""

    def __init__(self, journal: JournalSource, scope: Scope, page_events: int | None = None) -> None:
        """Read so many events at once, None: ``limits.CATCHUP_PAGE_EVENTS``. Who folds a whole journal takes more."""
        self.page_events = limits.CATCHUP_PAGE_EVENTS if page_events is None else page_events
        self._journal = journal
        self._scope = scope
        self._page = Page(-1, (), GENESIS)
        self._view: Any = None

    @contextmanager
    def opening(self) -> Iterator[None]:
        """Open what the events say through one view of the journal, as long as this lasts: let it be short.

        A view that is older than the end of a subject tells lawfully erased from lost all the same.
        """
        with self._journal.store.view(self._scope) as view:
            self._view = view
            try:
                yield
            finally:
                self._view = None

    def page(self, after: int) -> Page:
        """Return the page that begins after a cursor, or the kept page where that holds the next event too.

        Raises:
            CursorGap, JournalCorrupt: the journal is broken.
        """
        if not self._page.after <= after < self._page.last:
            self._page = self.read(after)
        return self._page

    def read(self, after: int) -> Page:
        """Read the page that begins after a cursor; raises as ``page`` does."""
        found = self._journal.store.read(self._scope, after, self.page_events)
        if found and found[0].header.cursor != after + 1:
            raise CursorGap(f"cursor {after + 1} is missing")
        events, room = [], _Room()
        captures: dict[str | None, Header] = {}
        for committed in found:
            header = committed.header
            if header.type == _CAPTURE:
                captures[header.subject] = header
            events.append(FoldEvent(header, self._payload(header, captures.get(header.subject), room)))
        return Page(after, events, frame_hash(found[-1].frame) if found else GENESIS)

    def _payload(self, header: Header, capture: Header | None, room: _Room) -> Callable[[], dict[str, Any] | None]:
        """Return what opens what an event says; ``capture``: that of its subject, where it is at hand."""
        journal, scope = self._journal, self._scope
        if header.type in LIFECYCLE and header.subject is not None:
            subject = capture or header.subject
            return _Payload(lambda: journal.payload(scope, subject, self._view), room)
        if header.type in CONVERSATION and (header.content_digest or header.ledger_digest):
            cursor = header.cursor
            return _Payload(lambda: journal.said(scope, cursor, self._view), room)
        return _nothing


def invalidates(event: FoldEvent, name: str) -> bool:
    """Whether an event takes a projection out of force: it names it as ``related``, or names none and means all."""
    header = event.header
    return header.type == EventType.PROJECTION_INVALIDATED and header.related in (None, name)
