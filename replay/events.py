"""Reading a scope's events in order, page by page, and telling them to people."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from journal import authority, limits
from journal.clock import instant
from journal.errors import CursorGap
from journal.events import LIFECYCLE, EventType, RequestState
from journal.frames import event_digest
from journal.lifecycle import State
from journal.messages import MESSAGE_EVENTS, MessageState

if TYPE_CHECKING:
    from journal.events import Header
    from journal.scope import Scope
    from journal.store.port import Committed, Store

_REQUESTS = frozenset(
    {
        EventType.CONFIRMATION_REQUESTED,
        EventType.CONFIRMATION_APPROVED,
        EventType.CONFIRMATION_DENIED,
        EventType.CONFIRMATION_EXPIRED,
        EventType.CONFIRMATION_FORM,
    }
)


def pages(store: Store, scope: Scope, *, after: int = 0, to: int | None = None) -> Iterator[list[Committed]]:
    """Yield the events with cursors over ``after`` up to ``to`` (None: the head as it stands now), verified, in pages.

    No transaction is held between two pages.

    Raises:
        CursorGap, JournalCorrupt, RegistryVersionUnavailable: as ``Store.read``.
    """
    last = store.head(scope).cursor if to is None else to
    while after < last:
        page = store.read(scope, after, min(limits.READ_PAGE_EVENTS, last - after))
        if not page:
            return  # ``to`` lies beyond the head
        yield page
        after = page[-1].header.cursor


def cursor_at(store: Store, scope: Scope, epoch_milliseconds: int) -> int:
    """Return the cursor of the last event recorded at or before an instant; 0 where there is none.

    recorded_at never decreases within a scope, so halving finds it.

    Raises:
        CursorGap: an event on the way is missing.
    """
    with store.view(scope) as view:
        low, high = 0, view.head.cursor
        while low < high:
            middle = (low + high + 1) // 2
            event = view.event(middle)
            if event is None:
                raise CursorGap(f"the event at cursor {middle} is missing")
            if event.header.recorded_at <= epoch_milliseconds:
                low = middle
            else:
                high = middle - 1
    return low


def described(event: Committed) -> dict[str, Any]:
    """Return an event's clear header as JSON: every field, numbers named, bytes in hex, and its event_digest."""
    header = event.header
    from_state, to_state = states_of(header)
    return {
        "cursor": str(header.cursor),
        "recorded_at": instant(header.recorded_at),
        "type": header.kind.label,
        "event_id": header.event_id.hex(),
        "event_digest": event_digest(event.frame),
        "actor": {
            "principal": header.actor.principal,
            "agent_id": header.actor.agent_id,
            "session": _hex(header.actor.session),
        },
        "subject": header.subject,
        "record_id": header.record_id,
        "related": header.related,
        "from_state": from_state,
        "to_state": to_state,
        "key_id": _hex(header.key_id),
        "intent": _hex(header.intent),
        "guards": [guard.hex() for guard in header.guards],
        "content_digest": _hex(header.content_digest),
        "ledger_digest": _hex(header.ledger_digest),
        "prev": header.prev.hex(),
        "format": header.format,
    }


def states_of(header: Header) -> tuple[str | None, str | None]:
    """Return the names of the states that an event leads from and to; None where it moves none."""
    if header.type in LIFECYCLE:
        return _label(State, header.from_state), _label(State, header.to_state)
    if header.type in _REQUESTS:
        return _label(RequestState, header.from_state), _label(RequestState, header.to_state)
    if header.type in MESSAGE_EVENTS:
        return _label(MessageState, header.from_state), _label(MessageState, header.to_state)
    if header.type in authority.GRANTS:
        return _label(authority.GrantState, header.from_state), _label(authority.GrantState, header.to_state)
    if header.type in authority.OPT_INS:
        return _label(authority.OptIn, header.from_state), _label(authority.OptIn, header.to_state)
    return None, None


def _label(states: type[IntEnum], number: int) -> str:
    """Return a state's name, or its number where a broken frame has one that no state has."""
    try:
        return states(number).name.lower()
    except ValueError:
        return str(number)


def _hex(raw: bytes | None) -> str | None:
    return None if raw is None else raw.hex()
