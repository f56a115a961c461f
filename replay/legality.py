"""Whether each event was legal when it was written, judged from the events alone (CONTRACT §5).

The states come from a fold of its own and not from the journal's indexes: an index that was changed together with the
events would agree with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from journal.chain import check_transition
from journal.errors import AlreadyTerminal, IllegalTransition, JournalCorrupt
from journal.events import LIFECYCLE, EventType, RequestState
from journal.lifecycle import TERMINAL, Operation, State
from journal.store.port import Subject
from replay.compact import CompactMap

if TYPE_CHECKING:
    from journal.events import Header

CANDIDATE_PREFIX = "candidate_"
CONFIRMATION_PREFIX = "confirmation_"
_REQUEST_ENDS = frozenset(
    {EventType.CONFIRMATION_APPROVED, EventType.CONFIRMATION_DENIED, EventType.CONFIRMATION_EXPIRED}
)
_WITH_CONTENT = frozenset({EventType.CAPTURE, EventType.CONFIRMATION_REQUESTED})
_BEFORE_ACCEPTANCE = frozenset({Operation.CAPTURE, Operation.REJECT, Operation.WITHDRAW})


class States:
    """The state of every candidate, record and confirmation request after the events given so far."""

    def __init__(self) -> None:
        self._states = CompactMap()

    def apply(self, header: Header) -> None:
        """Check an event against the state before it, and take over the state that it leads to.

        An event that is refused changes nothing.

        Raises:
            IllegalTransition: the lifecycle table forbids it. JournalCorrupt: it misstates or lacks something.
        """
        if header.type in LIFECYCLE:
            self._require(header, CANDIDATE_PREFIX)
            self._transition(header)
            self._check_record_id(header)
            self._check_related(header)
        elif header.type == EventType.CONFIRMATION_REQUESTED or header.type in _REQUEST_ENDS:
            self._require(header, CONFIRMATION_PREFIX)
            self._transition(header)
        else:
            return
        self._put(header.subject, header.to_state)
        if header.type == EventType.REWIND:
            self._put(header.related, State.HISTORICAL)

    def ended(self, header: Header) -> bool:
        """Whether the subject of an event is in a terminal state, so that its content is lawfully erased."""
        state = self.of(header.subject)
        if header.type in LIFECYCLE:
            return State(state) in TERMINAL
        return state > RequestState.OPEN

    def of(self, subject: str | None) -> int:
        """Return the number of a subject's state, 0 where it is not known."""
        return 0 if subject is None else self._states.get(subject)

    def _put(self, subject: str | None, state: int) -> None:
        assert subject is not None
        self._states.put(subject, state)

    @staticmethod
    def _require(header: Header, prefix: str) -> None:
        if header.subject is None or not header.subject.startswith(prefix):
            raise JournalCorrupt(f"a {header.kind.label} event without a subject of its kind")
        if header.type in _WITH_CONTENT and (header.content_digest is None or header.key_id is None):
            raise JournalCorrupt(f"a {header.kind.label} event without content")

    def _transition(self, header: Header) -> None:
        state = self.of(header.subject)
        before = Subject(state, 0, 0, 0, None, None, None) if state else None
        try:
            check_transition(header.type, header.from_state, header.to_state, before)
        except AlreadyTerminal as error:  # a call's answer; in a journal it is as illegal as any other
            raise IllegalTransition(error.detail) from None

    @staticmethod
    def _check_record_id(header: Header) -> None:
        expected = Operation(header.type) not in _BEFORE_ACCEPTANCE
        if (header.record_id is not None) != expected:
            raise JournalCorrupt(f"a {header.kind.label} event {'without' if expected else 'with'} a record id")

    def _check_related(self, header: Header) -> None:
        """Supersede needs a distinct current successor; rewind makes its successor historical in the same event."""
        if header.type not in (EventType.SUPERSEDE, EventType.REWIND):
            return
        state = self.of(header.related)
        legal = (State.ACCEPTED_CURRENT,) if header.type == EventType.SUPERSEDE else _CURRENT
        if header.related == header.subject or state not in legal:
            raise IllegalTransition(f"{header.kind.label} with a successor in state {State(state).label}")


_CURRENT = (State.ACCEPTED_CURRENT, State.ACCEPTED_DISPUTED)
