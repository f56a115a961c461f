"""Whether each event was legal when it was written, judged from the events alone (CONTRACT §5).

The states come from a fold of its own and not from the journal's indexes: an index that was changed together with the
events would agree with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from journal import authority
from journal.chain import (
    BEFORE_ACCEPTANCE,
    SUCCEEDING,
    WITH_CONTENT,
    check_successor,
    check_transition,
    has_ended,
    prefix_of,
)
from journal.errors import AlreadyTerminal, IllegalTransition, JournalCorrupt
from journal.events import LIFECYCLE, EventType, RequestState
from journal.lifecycle import LEGAL, State
from journal.messages import LEGAL as MESSAGES
from journal.messages import UNDER_MESSAGE_KEY
from journal.store.port import Subject
from replay.compact import CompactMap

if TYPE_CHECKING:
    from journal.events import Header


class States:
    """The state of every candidate, record, confirmation request and message after the events given so far."""

    def __init__(self) -> None:
        self._states = CompactMap()

    def apply(self, header: Header) -> None:
        """Check an event against the state before it, and take over the state that it leads to.

        An event that is refused changes nothing.

        Raises:
            IllegalTransition: the lifecycle table forbids it. JournalCorrupt: it misstates or lacks something.
        """
        kind, from_state, to_state, subject = header.type, header.from_state, header.to_state, header.subject
        form = _FORMS.get((kind, from_state, to_state))
        if form is None:
            if kind == EventType.EPOCH:
                _check_authority(header)
            if kind in _MOVING:
                _check_form(header)
                self._refuse(header)
            return
        prefix, has_content, has_record = form
        if (
            subject is None
            or not subject.startswith(prefix)
            or (has_content and (header.content_digest is None or header.key_id is None))
            or (has_record is not None and (header.record_id is None) is has_record)
        ):
            _check_form(header)
            return
        if kind in authority.EVENTS:
            _check_authority(header)
        if kind in SUCCEEDING:
            self._succeed(header)
        elif self._states.exchange(subject, from_state, to_state) != from_state:
            self._refuse(header)

    def _succeed(self, header: Header) -> None:
        """Take over an event that another record must be there for."""
        if self.of(header.subject) != header.from_state:
            self._refuse(header)
        check_successor(header.type, header.subject, header.related, self._row(header.related))
        self._put(header.subject, header.to_state)
        if header.type == EventType.REWIND:
            self._put(header.related, State.HISTORICAL)

    def _refuse(self, header: Header) -> None:
        """Say what is wrong with a transition, in the journal's own words."""
        try:
            check_transition(header.type, header.from_state, header.to_state, self._row(header.subject))
        except AlreadyTerminal as error:  # a call's answer; in a journal it is as illegal as any other
            raise IllegalTransition(error.detail) from None

    def ended(self, header: Header) -> bool:
        """Whether the subject of an event is in a terminal state, so that its content is lawfully erased."""
        return header.subject is not None and has_ended(header.subject, self.of(header.subject))

    def of(self, subject: str | None) -> int:
        """Return the number of a subject's state, 0 where it is not known."""
        return 0 if subject is None else self._states.get(subject)

    def _row(self, subject: str | None) -> Subject | None:
        state = self.of(subject)
        return Subject(state, 0, 0, 0, None, None, None) if state else None

    def _put(self, subject: str | None, state: int) -> None:
        assert subject is not None  # checked before
        self._states.put(subject, state)


def _check_form(header: Header) -> None:
    """Check what can be told of an event alone: that it has what its type must have."""
    kind = header.type
    is_lifecycle = kind in LIFECYCLE
    if header.subject is None or not header.subject.startswith(prefix_of(kind)):
        raise JournalCorrupt(f"a {header.kind.label} event without a subject of its kind")
    if kind in WITH_CONTENT and (header.content_digest is None or header.key_id is None):
        raise JournalCorrupt(f"a {header.kind.label} event without content")
    if kind in UNDER_MESSAGE_KEY and (header.content_digest is None or header.key_id is None):
        raise JournalCorrupt(f"a {header.kind.label} event without content")
    if is_lifecycle and (header.record_id is None) != (kind in BEFORE_ACCEPTANCE):
        amiss = "without" if header.record_id is None else "with"
        raise JournalCorrupt(f"a {header.kind.label} event {amiss} a record id")


def _check_authority(header: Header) -> None:
    """Check that an event of authority is about a subject of its kind, and says whose and what in its ledger."""
    if header.ledger_digest is None or not authority.is_about(header.type, header.subject):
        raise JournalCorrupt(f"a {header.kind.label} event about another subject than its own, or without its ledger")


_LEGAL = {
    **{(int(operation), int(state)): (int(to_state),) for (operation, state), to_state in LEGAL.items()},
    **{(int(kind), int(state)): tuple(map(int, leads)) for (kind, state), leads in MESSAGES.items()},
    **{(int(kind), state): (to_state,) for (kind, state), to_state in authority.LEGAL.items()},
    (int(EventType.CONFIRMATION_REQUESTED), int(RequestState.ABSENT)): (int(RequestState.OPEN),),
    (int(EventType.CONFIRMATION_APPROVED), int(RequestState.OPEN)): (int(RequestState.APPROVED),),
    (int(EventType.CONFIRMATION_DENIED), int(RequestState.OPEN)): (int(RequestState.DENIED),),
    (int(EventType.CONFIRMATION_EXPIRED), int(RequestState.OPEN)): (int(RequestState.EXPIRED),),
    (int(EventType.CONFIRMATION_FORM), int(RequestState.OPEN)): (int(RequestState.OPEN),),
}
_MOVING = frozenset(kind for kind, _ in _LEGAL)
_FORMS = {  # a legal move -> the subject's prefix, whether it has content, and a record id (None: either)
    (kind, from_state, to_state): (
        prefix_of(kind),
        kind in WITH_CONTENT or kind in UNDER_MESSAGE_KEY,
        kind not in BEFORE_ACCEPTANCE if kind in LIFECYCLE else None,
    )
    for (kind, from_state), leads in _LEGAL.items()
    for to_state in leads
}
