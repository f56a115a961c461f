"""The erasure ledger: every event of a scope that ended a subject, with the key that it had destroyed.

It is what keeps the forgotten forgotten when an older backup is restored: the keys that it names are destroyed before
anything is served, and the ends that the older journal does not know yet are committed to it again, under the same
identities and with the same sealed reasons and outcomes. What was captured after the backup is put back with its end:
its birth under the same identity, around bytes that nobody can open. A ledger holds frames and sealed ledger parts: no
content, no key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from journal import limits
from journal.chain import CONFIRMATION_PREFIX, has_ended
from journal.errors import AlreadyTerminal, BackupInvalid, IllegalTransition, JournalCorrupt
from journal.events import Actor, Draft, EventType, Header, RequestState
from journal.foreign import UNREADABLE
from journal.frames import decode_frame
from journal.lifecycle import Operation, State, next_state
from journal.store.port import Part
from replay.approvals import RESTORED

if TYPE_CHECKING:
    from journal.keyring import DataKey
    from journal.log import Journal
    from journal.scope import Scope
    from journal.store.port import Committed, View

_RESTORE = Actor("engram:restore")


class Erasure(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """An end: the destroyed key, the frame and ledger part of the event, and those of the events that it rests on."""

    key_id: bytes | None
    frame: bytes
    ledger: bytes | None
    accept_frame: bytes | None  # of a forgotten record: what an older journal may lack between capture and end
    accept_ledger: bytes | None
    birth_frame: bytes | None = None  # of the capture or message: what an older journal may lack; None: a request's,
    birth_ledger: bytes | None = None  # or an older release made the ledger

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
        accept = birth = None
        if row is not None and header.type == EventType.TOMBSTONE:
            accept = view.event(row.decided)
        if row is not None and not header.subject.startswith(CONFIRMATION_PREFIX):
            birth = view.event(row.born)
        yield Erasure(
            None if row is None else row.key_id,
            event.frame,
            view.body(header.cursor, Part.LEDGER),
            None if accept is None else accept.frame,
            None if accept is None else view.body(accept.header.cursor, Part.LEDGER),
            None if birth is None else birth.frame,
            None if birth is None else view.body(birth.header.cursor, Part.LEDGER),
        )


# --- committing them again --------------------------------------------------------------------------


@dataclass(slots=True)
class Applied:
    """What became of the ends of a ledger."""

    ended: int = 0  # subjects that the older journal took for live, or did not know
    untold: set[str] = field(default_factory=set)  # subjects that it does not know, and whose birth is not told


def apply(journal: Journal, scope: Scope, erasures: Iterable[Erasure]) -> Applied:
    """Commit the ends that a journal does not know yet, a batch at a time: births, acceptances, then the ends.

    Raises:
        BackupInvalid: the lifecycle table does not lead there from what the journal has.
    """
    applied, waiting = Applied(), iter(erasures)
    while batch := list(islice(waiting, limits.BATCH_MAX_EVENTS)):
        ends_now = _open(journal, scope, batch, applied.untold)
        _commit(journal, scope, _births(journal, scope, ends_now))
        _commit(journal, scope, _acceptances(journal, scope, ends_now))
        _commit(journal, scope, _ends(journal, scope, ends_now))
        applied.ended += len(ends_now)
    return applied


def _open(journal: Journal, scope: Scope, batch: Sequence[Erasure], untold: set[str]) -> dict[str, Erasure]:
    """Return the erasures that the journal needs, by subject; name those that cannot be put back."""
    found: dict[str, Erasure] = {}
    with journal.store.view(scope) as view:
        for erasure in batch:
            subject_id = erasure.header.subject
            assert subject_id is not None
            row = view.subject(subject_id)
            if row is not None:
                if not has_ended(subject_id, row.state):
                    found[subject_id] = erasure
            elif erasure.birth_frame is not None:
                found[subject_id] = erasure
            elif not subject_id.startswith(CONFIRMATION_PREFIX):  # a request guards nothing once it is decided
                untold.add(subject_id)
    return found


def _births(journal: Journal, scope: Scope, ends_now: dict[str, Erasure]) -> list[Draft]:
    """Return the births of subjects that the journal does not know, around content that nobody will open.

    The content is random bytes, under a fresh key that the end has destroyed as any other.
    """
    with journal.store.view(scope) as view:
        unknown = [(name, erasure) for name, erasure in ends_now.items() if view.subject(name) is None]
    drafts = []
    for name, erasure in unknown:
        header = _header(erasure.birth_frame, name, (EventType.CAPTURE, EventType.MESSAGE))
        key = journal.take_key(scope)
        nothing = journal.randomness.draw(scope, limits.KEY_BYTES).hex()
        sealed = journal.seal_content(scope, header.event_id, name, key, nothing)
        drafts.append(_birth(header, name, key, content=sealed, ledger=erasure.birth_ledger))
    return drafts


def _birth(header: Header, subject_id: str, key: DataKey, *, content: bytes, ledger: bytes | None) -> Draft:
    return Draft(
        type=header.kind, event_id=header.event_id, actor=header.actor, subject=subject_id, related=RESTORED,
        from_state=header.from_state, to_state=header.to_state, key_id=key.key_id, slot=key.slot,
        slot_generation=key.generation, intent=header.intent, guards=header.guards, content=content, ledger=ledger,
    )  # fmt: skip


def _acceptances(journal: Journal, scope: Scope, ends_now: dict[str, Erasure]) -> list[Draft]:
    """Return the acceptances that forgotten records lack between their capture and their end."""
    drafts = []
    with journal.store.view(scope) as view:
        for name, erasure in ends_now.items():
            row = view.subject(name)
            if row is None or row.state != State.PENDING or erasure.header.type != EventType.TOMBSTONE:
                continue
            if erasure.accept_frame is not None:
                accept = _header(erasure.accept_frame, name, (EventType.ACCEPT,))
                drafts.append(_draft(journal, scope, accept, erasure.accept_ledger, row.state))
    return drafts


def _ends(journal: Journal, scope: Scope, ends_now: dict[str, Erasure]) -> list[Draft]:
    drafts = []
    with journal.store.view(scope) as view:
        for name, erasure in ends_now.items():
            row = view.subject(name)
            state = 0 if row is None else row.state
            try:
                drafts.append(_draft(journal, scope, erasure.header, erasure.ledger, state))
            except (AlreadyTerminal, IllegalTransition) as error:
                raise BackupInvalid(f"the erasure ledger does not fit the journal: {error.detail}") from error
    return drafts


def _header(frame: bytes | None, subject_id: str, kinds: Sequence[EventType]) -> Header:
    """Return the header of an event that an end rests on, checked to be about its subject."""
    try:
        header = decode_frame(frame or b"")
    except JournalCorrupt as error:
        raise BackupInvalid("the erasure ledger holds what is no frame") from error
    if header.subject != subject_id or header.type not in kinds:
        raise BackupInvalid("the erasure ledger holds another event than an end rests on")
    return header


def _commit(journal: Journal, scope: Scope, drafts: Sequence[Draft]) -> None:
    if not drafts:
        return
    try:
        journal.commit(scope, lambda _: drafts)
    except (AlreadyTerminal, IllegalTransition, JournalCorrupt) as error:
        raise BackupInvalid(f"the erasure ledger does not fit the journal: {error.detail}") from error


def _draft(journal: Journal, scope: Scope, header: Header, ledger: bytes | None, state: int) -> Draft:
    """Return an event again, from the state that the older journal has, and marked: no approval stands before it."""
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
        record_id=header.record_id, related=RESTORED, from_state=state, to_state=to_state, intent=header.intent,
        guards=header.guards, ledger=ledger,
    )  # fmt: skip
