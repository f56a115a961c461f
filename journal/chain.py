"""The chain: how a draft becomes an event, and what must hold between neighbours.

Pair assertions: what ``link`` writes, ``verify_next`` checks again on every read.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import force_setattr

from journal import authority, limits
from journal.errors import AlreadyTerminal, CursorGap, EngramError, IllegalTransition, JournalCorrupt
from journal.events import EVENT_ID_BYTES as DIGEST_BYTES
from journal.events import FORMAT, LIFECYCLE, Draft, EventType, Header, RequestState, known_type
from journal.frames import GENESIS, decode_frame, encode_frame, frame_hash, part_digest
from journal.lifecycle import TERMINAL, Operation, State, next_state
from journal.messages import MESSAGE_EVENTS, UNDER_MESSAGE_KEY, UNDER_SCOPE_KEY, MessageState, check_move
from journal.messages import PREFIX as MESSAGE_PREFIX
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


def verify_run(
    scope: Scope, first: int, frames: Sequence[bytes], before: bytes | None, after: bytes
) -> list[Committed]:
    """Return the events of neighbouring frames, each verified against the chain from both sides.

    ``first`` is the first one's cursor. ``before`` is the hash that it must follow; None leaves that out. ``after`` is
    the hash that the last one must have: the ``prev`` of the event behind it, or the commit record's. The walk goes
    backward, so that a frame is known to be the one that was written before it is decoded: an unknown version is then
    another release's, never a flipped bit.

    Raises:
        CursorGap: another cursor's event stands here. JournalCorrupt: a frame or its hash is broken.
        RegistryVersionUnavailable: a format or type that this release does not read.
    """
    events = []
    expected = after
    cursor = first + len(frames)
    for frame in reversed(frames):
        cursor -= 1
        if frame_hash(frame) != expected:
            raise _displaced(cursor, frame)
        header = decode_frame(frame)
        if header.cursor != cursor or header.scope != scope:
            verify_next(scope, cursor, None, frame)  # says which, and raises
        expected = header.prev
        force_setattr(header, "scope", scope)  # the same, but one object, which finds its tag once
        events.append(Committed(header, frame))
    if before is not None and expected != before:
        raise JournalCorrupt(f"the event at cursor {first} does not follow its predecessor")
    events.reverse()
    return events


def _displaced(cursor: int, frame: bytes) -> EngramError:
    """Return what is wrong with a frame that is not the one that the chain has at this cursor."""
    try:
        found = decode_frame(frame).cursor
    except EngramError:
        found = cursor
    if found != cursor:
        return CursorGap(f"expected cursor {cursor}, found {found}")
    return JournalCorrupt(f"the event at cursor {cursor} is not the one that was written")


def check_draft(draft: Draft) -> None:
    """Check what can be told of a draft without the journal: what a reader could not read must never be written.

    Raises:
        RegistryVersionUnavailable: a type that this release does not write. JournalCorrupt: a part is missing or amiss.
    """
    kind = known_type(draft.type)
    _check_sizes(draft)
    prefix = prefix_of(kind)
    if prefix and (draft.subject is None or not draft.subject.startswith(prefix)):
        raise JournalCorrupt(f"a {kind.label} event without a subject of its kind")
    if kind in WITH_CONTENT and (draft.content is None or draft.key_id is None or draft.slot is None):
        raise JournalCorrupt(f"a {kind.label} event without content")
    if kind in UNDER_SUBJECT_KEY and draft.content is None:
        raise JournalCorrupt(f"a {kind.label} event without content")
    if kind in UNDER_SCOPE_KEY and (draft.ledger is None or draft.subject is not None):
        raise JournalCorrupt(f"a {kind.label} event is about no subject, and says what it says in its ledger")
    if draft.content is not None and draft.key_id is None:
        raise JournalCorrupt(f"a {kind.label} event whose content names no key")
    if kind in LIFECYCLE and (draft.record_id is None) != (Operation(kind) in BEFORE_ACCEPTANCE):
        raise JournalCorrupt(f"a {kind.label} event {'without' if draft.record_id is None else 'with'} a record id")
    if kind in authority.EVENTS and (draft.ledger is None or not authority.is_about(kind, draft.subject)):
        raise JournalCorrupt(f"a {kind.label} event about another subject than its own, or without its ledger")
    if kind is EventType.CONFIRMATION_REQUESTED and not draft.guards:
        raise JournalCorrupt("a confirmation request without the digest under which it is found")


def _check_sizes(draft: Draft) -> None:
    """Check what index rows are keyed by: an engine may refuse a longer key, and with it the whole batch."""
    digests = (draft.event_id, *draft.guards, *(() if draft.intent is None else (draft.intent,)))
    if any(len(digest) != DIGEST_BYTES for digest in digests):
        raise JournalCorrupt("an event id, an intent or a guard has not 32 bytes")
    if draft.key_id is not None and len(draft.key_id) != limits.KEY_ID_BYTES:
        raise JournalCorrupt("a key id has not 16 bytes")
    if draft.slot is not None and not 0 <= draft.slot <= limits.SLOT_NUMBER_MAX:
        raise JournalCorrupt("a slot number is out of bounds")
    for name in (draft.subject, draft.record_id, draft.related):
        if name is not None and not 1 <= len(name.encode(errors="replace")) <= limits.NAME_MAX_BYTES:
            raise JournalCorrupt("a name in a header is empty or too long")


def check_successor(kind: int, subject_id: str | None, related_id: str | None, related: Subject | None) -> None:
    """Check the other record that a supersede needs, and that a rewind makes historical in the same event.

    Raises:
        IllegalTransition: it is missing, the subject itself, no candidate, or in a state that forbids it.
    """
    if kind not in SUCCEEDING:
        return
    known = related is not None and related_id is not None and related_id.startswith(CANDIDATE_PREFIX)
    state = State(related.state) if known and related is not None else State.ABSENT
    if related_id == subject_id or state not in SUCCEEDING[EventType(kind)]:
        raise IllegalTransition(f"{EventType(kind).label} with a successor in state {state.label}")


def prefix_of(kind: int) -> str:
    """Return what the id of an event's subject begins with; empty where the type asks for no subject."""
    if kind in LIFECYCLE:
        return CANDIDATE_PREFIX
    if kind in MESSAGE_EVENTS:
        return MESSAGE_PREFIX
    if kind in ABOUT_CANDIDATES:
        return CANDIDATE_PREFIX
    if kind in authority.EVENTS:
        return authority.prefix_of(kind)
    return CONFIRMATION_PREFIX if kind in CONFIRMATIONS else ""


def check_subject_key(draft: Draft, subject: Subject | None) -> None:
    """Check that what is sealed about a message or a candidate is sealed under its own key, which still stands.

    Raises:
        JournalCorrupt: it names another, and would outlive its subject. AlreadyTerminal: the subject has ended.
    """
    if draft.type not in UNDER_SUBJECT_KEY:
        return
    if subject is None or draft.key_id != subject.key_id:
        raise JournalCorrupt(f"a {draft.type.label} event under another key than its subject's")
    if draft.subject is not None and has_ended(draft.subject, subject.state):
        raise AlreadyTerminal(f"a {draft.type.label} event about what has ended")


def check_transition(kind: int, from_state: int, to_state: int, subject: Subject | None) -> None:
    """Check that an event about a subject is legal from the subject's state.

    Raises:
        AlreadyTerminal, IllegalTransition: the lifecycle table forbids it.
        JournalCorrupt: the event misstates the states.
    """
    current = 0 if subject is None else subject.state
    if kind in MESSAGE_EVENTS:
        check_move(EventType(kind), current, to_state)
        expected = to_state
    elif kind in LIFECYCLE:
        expected = int(next_state(Operation(kind), State(current)))
    elif kind in _AUTHORITY_MOVES:
        expected = authority.check_step(EventType(kind), current)
    elif kind == EventType.CONFIRMATION_REQUESTED:
        expected = RequestState.OPEN if subject is None else -1
    elif kind in _REQUEST_ENDS:
        expected = _REQUEST_ENDS[EventType(kind)] if current == RequestState.OPEN else -1
    elif kind == EventType.CONFIRMATION_FORM:
        expected = RequestState.OPEN if current == RequestState.OPEN else -1
    else:
        return
    if (current, expected) != (from_state, to_state):
        raise JournalCorrupt(f"event type {kind}: from {from_state} to {to_state} where {current} leads to {expected}")


def has_ended(subject_id: str, state: int) -> bool:
    """Whether a subject in this state has ended, so that its content is lawfully erased."""
    if subject_id.startswith(MESSAGE_PREFIX):
        return state == MessageState.ERASED
    if subject_id.startswith(CONFIRMATION_PREFIX):
        return state > RequestState.OPEN
    if subject_id.startswith(authority.GRANT_PREFIX) or subject_id in authority.SUBJECTS:
        return False  # it has no content, and may be given again
    return state in TERMINAL


CANDIDATE_PREFIX = "candidate_"
CONFIRMATION_PREFIX = "confirmation_"
WITH_CONTENT = frozenset({EventType.CAPTURE, EventType.CONFIRMATION_REQUESTED, EventType.MESSAGE})
"""The events that bring a data key of their own."""
ABOUT_CANDIDATES = frozenset(
    {EventType.RECONCILIATION_PROPOSED, EventType.RECONCILIATION_DISMISSED, EventType.ADJUDICATION_NOTE}
)
"""The control events whose subject is a candidate or the record that it became; none of them moves it."""
UNMOVING = frozenset({EventType.RECONCILIATION_PROPOSED})
"""Events that may share their subject with another of the same decision: they leave every state as it is."""
UNDER_SUBJECT_KEY = UNDER_MESSAGE_KEY | {EventType.ADJUDICATION_NOTE}
"""Events whose content is sealed under the key that their subject brought, and ends with it."""
BEFORE_ACCEPTANCE = frozenset({Operation.CAPTURE, Operation.REJECT, Operation.WITHDRAW})
SUCCEEDING = {  # what state the other record of these must be in
    EventType.SUPERSEDE: frozenset({State.ACCEPTED_CURRENT}),
    EventType.REWIND: frozenset({State.ACCEPTED_CURRENT, State.ACCEPTED_DISPUTED}),
}
_AUTHORITY_MOVES = authority.GRANTS | authority.OPT_INS
_REQUEST_ENDS = {
    EventType.CONFIRMATION_APPROVED: RequestState.APPROVED,
    EventType.CONFIRMATION_DENIED: RequestState.DENIED,
    EventType.CONFIRMATION_EXPIRED: RequestState.EXPIRED,
}
CONFIRMATIONS = frozenset({EventType.CONFIRMATION_REQUESTED, EventType.CONFIRMATION_FORM, *_REQUEST_ENDS})
