"""The journal's indexes, as a pure function of headers: written in the same transaction as the event, and rebuildable.

An engine keeps these tables beside the events, each key under the scope's tag. ``changes`` says what one event does to
them; both the commit and the rebuild call it, so that the two can never differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum

import msgspec

from journal import authority
from journal.events import CONVERSATION, LIFECYCLE, EventType, Header, RequestState
from journal.lifecycle import KEY_DESTROYING, Operation, State
from journal.messages import MESSAGE_EVENTS
from journal.store.port import Subject

_SUBJECT_ENCODER = msgspec.msgpack.Encoder()
_SUBJECT_DECODER = msgspec.msgpack.Decoder(Subject)


class Table(Enum):
    """An index table; the value is its name in the engine."""

    OUTCOME = b"outcome"  # event_id (32) -> cursor
    SUBJECT = b"subject"  # subject id -> Subject
    RECORD = b"record"  # record id -> candidate id
    TOMBSTONE = b"tombstone"  # guard (32) || cursor of the tombstone (8) -> candidate id
    REQUEST = b"request"  # keyed digest of the operation (32) -> id of the open confirmation request
    OPEN_REQUEST = b"open_request"  # cursor of the request (8) -> its id
    PENDING = b"pending"  # cursor of the capture (8) -> candidate id
    DESTROY = b"destroy"  # cursor of the terminal event (8) -> key_id
    ERASE = b"erase"  # cursor of the tombstone or of a message's erasure (8) -> candidate id, or message id
    SLOT = b"slot"  # key_id (16) -> slot number; comes from the draft, rebuilt from the slot file


Change = tuple[Table, bytes, bytes | None]
"""(table, key without the scope tag, new value; None deletes)."""

_CONFIRMATION = {
    EventType.CONFIRMATION_APPROVED: RequestState.APPROVED,
    EventType.CONFIRMATION_DENIED: RequestState.DENIED,
    EventType.CONFIRMATION_EXPIRED: RequestState.EXPIRED,
}


def cursor_key(cursor: int) -> bytes:
    """Return a cursor as 8 big-endian bytes, so that keys sort by it."""
    return cursor.to_bytes(8, "big")


def encode_subject(subject: Subject) -> bytes:
    """Return a subject row's bytes."""
    return _SUBJECT_ENCODER.encode(subject)


def decode_subject(raw: bytes) -> Subject:
    """Return the subject of a row's bytes."""
    return _SUBJECT_DECODER.decode(raw)


class Lookup:
    """What ``changes`` may ask of the state before the event."""

    def __init__(
        self,
        subject: Callable[[str], Subject | None],
        guards: Callable[[int], tuple[bytes, ...]],
        marks: Callable[[Table, int], list[bytes]],
    ) -> None:
        self.subject = subject
        self.guards = guards  # cursor of a capture or request -> the guards in its header
        self.marks = marks  # (table keyed by cursor, up to cursor) -> keys


def changes(header: Header, lookup: Lookup) -> Iterator[Change]:
    """Yield what this event changes in the indexes."""
    if header.type not in CONVERSATION or header.intent is not None:  # else the event id is random: it reserves nothing
        yield Table.OUTCOME, header.event_id, cursor_key(header.cursor)
    if header.type in LIFECYCLE:
        yield from _lifecycle(header, lookup)
    elif header.type in MESSAGE_EVENTS:
        yield from _message(header, lookup)
    elif header.type == EventType.CONFIRMATION_REQUESTED:
        yield from _request(header)
    elif header.type in _CONFIRMATION:
        yield from _decision(header, lookup)
    elif header.type == EventType.ERASURE_DONE:
        yield from _erasure(header, lookup)
    elif header.type in authority.EVENTS:
        for subject_id, row in authority_rows(header, lookup.subject).items():
            yield Table.SUBJECT, subject_id.encode(), encode_subject(row)


def _lifecycle(header: Header, lookup: Lookup) -> Iterator[Change]:
    assert header.subject is not None
    key = header.subject.encode()
    operation = Operation(header.type)
    if operation is Operation.CAPTURE:
        born = Subject(header.to_state, header.cursor, 0, header.cursor, header.key_id, None, header.related)
        yield Table.SUBJECT, key, encode_subject(born)
        yield Table.PENDING, cursor_key(header.cursor), key
        return
    before = lookup.subject(header.subject)
    assert before is not None
    after = msgspec.structs.replace(before, state=header.to_state, changed=header.cursor)
    if before.state == State.PENDING:
        after = msgspec.structs.replace(after, decided=header.cursor, record_id=header.record_id)
        yield Table.PENDING, cursor_key(before.born), None
        if header.record_id is not None:
            yield Table.RECORD, header.record_id.encode(), key
    yield Table.SUBJECT, key, encode_subject(after)
    if operation in KEY_DESTROYING and before.key_id is not None:
        yield Table.DESTROY, cursor_key(header.cursor), before.key_id
    if operation is Operation.TOMBSTONE:
        yield Table.ERASE, cursor_key(header.cursor), key
        for guard in lookup.guards(before.born):
            yield Table.TOMBSTONE, guard + cursor_key(header.cursor), key
    if operation is Operation.REWIND and header.related is not None:
        successor = lookup.subject(header.related)
        assert successor is not None
        gone = msgspec.structs.replace(successor, state=State.HISTORICAL, changed=header.cursor)
        yield Table.SUBJECT, header.related.encode(), encode_subject(gone)


def _message(header: Header, lookup: Lookup) -> Iterator[Change]:
    assert header.subject is not None
    key = header.subject.encode()
    if header.type == EventType.MESSAGE:
        born = Subject(header.to_state, header.cursor, 0, header.cursor, header.key_id, None, None)
        yield Table.SUBJECT, key, encode_subject(born)
        return
    before = lookup.subject(header.subject)
    assert before is not None
    revised = header.cursor if header.type == EventType.MESSAGE_REVISION else before.decided
    after = msgspec.structs.replace(before, state=header.to_state, decided=revised, changed=header.cursor)
    yield Table.SUBJECT, key, encode_subject(after)
    if header.type == EventType.MESSAGE_ERASED:
        if before.key_id is not None:
            yield Table.DESTROY, cursor_key(header.cursor), before.key_id
        yield Table.ERASE, cursor_key(header.cursor), key


def _request(header: Header) -> Iterator[Change]:
    assert header.subject is not None
    key = header.subject.encode()
    row = Subject(RequestState.OPEN, header.cursor, 0, header.cursor, header.key_id, None, header.related)
    yield Table.SUBJECT, key, encode_subject(row)
    yield Table.REQUEST, header.guards[0], key
    yield Table.OPEN_REQUEST, cursor_key(header.cursor), key


def _decision(header: Header, lookup: Lookup) -> Iterator[Change]:
    assert header.subject is not None
    before = lookup.subject(header.subject)
    assert before is not None
    state = _CONFIRMATION[EventType(header.type)]
    after = msgspec.structs.replace(before, state=state, decided=header.cursor, changed=header.cursor)
    yield Table.SUBJECT, header.subject.encode(), encode_subject(after)
    yield Table.REQUEST, lookup.guards(before.born)[0], None
    yield Table.OPEN_REQUEST, cursor_key(before.born), None
    if before.key_id is not None:
        yield Table.DESTROY, cursor_key(header.cursor), before.key_id


def authority_rows(header: Header, before: Callable[[str], Subject | None]) -> dict[str, Subject]:
    """Return the subject rows after an event of authority: that of a grant or an opt-in, and the scope's one.

    ``before`` gives the rows that stood.
    """
    rows = {}
    if header.subject is not None:
        rows[header.subject] = _touched(header, before(header.subject), header.to_state, 0)
    whole = before(authority.AUTHORITY)
    epoch = header.cursor if header.type in authority.RAISING else 0 if whole is None else whole.decided
    rows[authority.AUTHORITY] = _touched(header, whole, 1, epoch)
    return rows


def _touched(header: Header, before: Subject | None, state: int, decided: int) -> Subject:
    born = header.cursor if before is None else before.born
    return Subject(state, born, decided, header.cursor, None, None, None)


def _erasure(header: Header, lookup: Lookup) -> Iterator[Change]:
    """An erasure-done event: keys are destroyed up to the cursor ``related``; a ``subject`` is erased everywhere."""
    for key in lookup.marks(Table.DESTROY, int(header.related or 0)):
        yield Table.DESTROY, key, None
    if header.subject is not None:
        row = lookup.subject(header.subject)
        assert row is not None
        yield Table.ERASE, cursor_key(row.changed), None
