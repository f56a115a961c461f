"""The chain: how a draft becomes an event, and what must hold between neighbours.

Pair assertions: what ``link`` writes, ``verify_next`` checks again on every read.
"""

from __future__ import annotations

from journal.errors import CursorGap, JournalCorrupt
from journal.events import FORMAT, LIFECYCLE, Draft, EventType, Header, RequestState
from journal.frames import GENESIS, decode_frame, encode_frame, frame_hash, part_digest
from journal.lifecycle import Operation, State, next_state
from journal.scope import Scope
from journal.store.port import Committed, Head, Subject

EMPTY_HEAD = Head(0, GENESIS, 0, 0)


def link(scope: Scope, head: Head, draft: Draft, now: int) -> Committed:
    """Return the event that follows the head. ``recorded_at`` never decreases within a scope."""
    header = Header(
        format=FORMAT, type=draft.type, scope=scope, cursor=head.cursor + 1,
        recorded_at=max(now, head.recorded_at), event_id=draft.event_id, actor=draft.actor, subject=draft.subject,
        record_id=draft.record_id, related=draft.related, from_state=draft.from_state, to_state=draft.to_state,
        key_id=draft.key_id, intent=draft.intent, guards=draft.guards,
        content_digest=None if draft.content is None else part_digest(draft.content),
        ledger_digest=None if draft.ledger is None else part_digest(draft.ledger), prev=head.hash,
    )  # fmt: skip
    return Committed(header, encode_frame(header))


def follow(head: Head, event: Committed, slot_generation: int = 0) -> Head:
    """Return the head after an event."""
    header = event.header
    return Head(header.cursor, frame_hash(event.frame), header.recorded_at, max(head.slot_generation, slot_generation))


def verify_next(scope: Scope, cursor: int, prev: bytes | None, frame: bytes) -> Committed:
    """Return a stored frame's event, checked to be this scope's at this cursor, chained to ``prev`` where given.

    Raises:
        CursorGap: it says another cursor. JournalCorrupt: it is broken, another scope's, or not chained.
    """
    header = decode_frame(frame)
    if header.scope != scope:
        raise JournalCorrupt(f"the event at cursor {cursor} belongs to another scope")
    if header.cursor != cursor:
        raise CursorGap(f"expected cursor {cursor}, found {header.cursor}")
    if prev is not None and header.prev != prev:
        raise JournalCorrupt(f"the event at cursor {cursor} does not follow its predecessor")
    return Committed(header, frame)


def check_transition(kind: int, from_state: int, to_state: int, subject: Subject | None) -> None:
    """Check that an event about a subject is legal from the subject's state.

    Raises:
        AlreadyTerminal, IllegalTransition: the lifecycle table forbids it.
        JournalCorrupt: the event misstates the states.
    """
    current = 0 if subject is None else subject.state
    if kind in LIFECYCLE:
        expected = int(next_state(Operation(kind), State(current)))
    elif kind == EventType.CONFIRMATION_REQUESTED:
        expected = RequestState.OPEN if subject is None else -1
    elif kind in _REQUEST_ENDS:
        expected = _REQUEST_ENDS[EventType(kind)] if current == RequestState.OPEN else -1
    else:
        return
    if (current, expected) != (from_state, to_state):
        raise JournalCorrupt(f"event type {kind}: from {from_state} to {to_state} where {current} leads to {expected}")


_REQUEST_ENDS = {
    EventType.CONFIRMATION_APPROVED: RequestState.APPROVED,
    EventType.CONFIRMATION_DENIED: RequestState.DENIED,
    EventType.CONFIRMATION_EXPIRED: RequestState.EXPIRED,
}
