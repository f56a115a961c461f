"""The erasure ledger: every event of a scope that ended a subject, with the key that it had destroyed.

It is what keeps the forgotten forgotten when an older backup is restored: the keys that it names are destroyed before
anything is served, and the ends that the older journal does not know yet are committed to it again, under the same
identities and with the same sealed reasons and outcomes. It holds frames and sealed ledger parts: no content, no key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from journal.chain import CONFIRMATION_PREFIX, has_ended
from journal.errors import AlreadyTerminal, BackupInvalid, IllegalTransition
from journal.events import Actor, Draft, EventType, Header, RequestState
from journal.foreign import UNREADABLE
from journal.frames import decode_frame
from journal.lifecycle import Operation, State, next_state
from journal.store.port import Part

if TYPE_CHECKING:
    from journal.log import Journal
    from journal.scope import Scope
    from journal.store.port import Committed, View

_RESTORE = Actor("engram:restore")


class Erasure(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """An end: the destroyed key, the frame and ledger part of the event, and those of the acceptance before it."""

    key_id: bytes | None
    frame: bytes
    ledger: bytes | None
    accept_frame: bytes | None  # of a forgotten record: what an older journal may lack between capture and end
    accept_ledger: bytes | None

    @property
    def header(self) -> Header:
        """The header of the event that ended the subject."""
        return decode_frame(self.frame)


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(list[Erasure])


def encode(erasures: Sequence[Erasure]) -> bytes:
    """Return the bytes of a page."""
    return _ENCODER.encode(erasures)


def decode(raw: bytes) -> list[Erasure]:
    """Return the erasures of a page.

    Raises:
        BackupInvalid: it is none.
    """
    try:
        return _DECODER.decode(raw)
    except UNREADABLE as error:
        raise BackupInvalid("a page of the erasure ledger cannot be read") from error


def ends(header: Header) -> bool:
    """Whether an event ends its subject."""
    return header.subject is not None and has_ended(header.subject, header.to_state)


def erasures_of(view: View, events: Sequence[Committed]) -> Iterator[Erasure]:
    """Yield the erasures among events."""
    for event in events:
        header = event.header
        if header.subject is None or not ends(header):
            continue
        row = view.subject(header.subject)
        accept = None
        if row is not None and header.type == EventType.TOMBSTONE:
            accept = view.event(row.decided)
        yield Erasure(
            None if row is None else row.key_id,
            event.frame,
            view.body(header.cursor, Part.LEDGER),
            None if accept is None else accept.frame,
            None if accept is None else view.body(accept.header.cursor, Part.LEDGER),
        )


# --- committing them again --------------------------------------------------------------------------


def apply(journal: Journal, scope: Scope, erasure: Erasure) -> bool:
    """Commit an end to a journal that does not know it yet; return whether there was anything to end.

    Raises:
        BackupInvalid: the lifecycle table does not lead there from what the journal has.
    """
    header = erasure.header
    subject_id = header.subject
    assert subject_id is not None
    with journal.store.view(scope) as view:
        row = view.subject(subject_id)
    if row is None or has_ended(subject_id, row.state):
        return False
    if row.state == State.PENDING and header.type == EventType.TOMBSTONE and erasure.accept_frame is not None:
        _commit(journal, scope, decode_frame(erasure.accept_frame), erasure.accept_ledger)
    _commit(journal, scope, header, erasure.ledger)
    return True


def _commit(journal: Journal, scope: Scope, header: Header, ledger: bytes | None) -> None:
    def decide(view: View) -> Sequence[Draft]:
        assert header.subject is not None
        row = view.subject(header.subject)
        return [_draft(journal, scope, header, ledger, 0 if row is None else row.state)]

    try:
        journal.commit(scope, decide)
    except (AlreadyTerminal, IllegalTransition) as error:
        raise BackupInvalid(f"the erasure ledger does not fit the journal: {error.detail}") from error


def _draft(journal: Journal, scope: Scope, header: Header, ledger: bytes | None, state: int) -> Draft:
    """Return an event again, from the state that the older journal has."""
    assert header.subject is not None
    if header.subject.startswith(CONFIRMATION_PREFIX):
        # What was approved then has not happened in this journal, and must not be taken for approved.
        event_id = journal.random_event_id(scope)
        return Draft(
            type=EventType.CONFIRMATION_EXPIRED, event_id=event_id, actor=_RESTORE, subject=header.subject,
            from_state=state, to_state=RequestState.EXPIRED,
            ledger=journal.seal_ledger(scope, event_id, header.subject, {}),
        )  # fmt: skip
    to_state = header.to_state
    if header.kind in (EventType.ACCEPT, EventType.REJECT, EventType.WITHDRAW, EventType.TOMBSTONE):
        to_state = next_state(Operation(header.type), State(state))
    return Draft(
        type=header.kind, event_id=header.event_id, actor=header.actor, subject=header.subject,
        record_id=header.record_id, related=header.related, from_state=state, to_state=to_state, intent=header.intent,
        guards=header.guards, ledger=ledger,
    )  # fmt: skip
