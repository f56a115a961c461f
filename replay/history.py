"""A subject's whole story, told from the events: capture, decisions, confirmations, erasure, and who did it.

The journal has no index from a subject to its events, so the story is read off the scope from the capture on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from journal.chain import CANDIDATE_PREFIX, SUCCEEDING
from journal.errors import NotFound
from journal.events import EventType
from journal.lifecycle import KEY_DESTROYING
from journal.messages import PREFIX as MESSAGE_PREFIX
from replay.events import described, pages

if TYPE_CHECKING:
    from journal.events import Header
    from journal.log import Journal
    from journal.scope import Scope
    from journal.store.port import Committed, Subject, View

_DESTROYING = frozenset({*(int(operation) for operation in KEY_DESTROYING), int(EventType.MESSAGE_ERASED)})


@dataclass(frozen=True, slots=True)
class Counterpart:
    """The other record that an event is about: its successor, the record that it succeeded, or one beside it."""

    role: str  # successor, predecessor, other
    candidate_id: str
    record_id: str | None

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {"role": self.role, "candidate_id": self.candidate_id, "record_id": self.record_id}


@dataclass(frozen=True, slots=True)
class Chapter:
    """One event of a story, with what its ledger says: reasons, outcomes, receipts. It holds no content."""

    event: Committed
    ledger: Any | None
    counterpart: Counterpart | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the event's header as ``replay.events.described`` gives it, the ledger, and the other record."""
        other = None if self.counterpart is None else self.counterpart.as_json()
        return {**described(self.event), "ledger": self.ledger, "counterpart": other}


def find_subject(view: View, subject_id: str) -> tuple[str, Subject]:
    """Return the candidate id and the row of a candidate or record, by either of its ids.

    Raises:
        NotFound: this scope has none of that id.
    """
    candidate_id = view.candidate_of(subject_id) if subject_id.startswith("mem_") else subject_id
    row = None if candidate_id is None or not candidate_id.startswith(CANDIDATE_PREFIX) else view.subject(candidate_id)
    if candidate_id is None or row is None:
        raise NotFound("this scope has no candidate or record of that id")
    return candidate_id, row


def story(journal: Journal, scope: Scope, subject_id: str) -> Iterator[Chapter]:
    """Yield the events about a candidate or record, oldest first, up to the head as it stands now.

    Raises:
        NotFound: this scope has none of that id. CursorGap, JournalCorrupt, BlobMissing: the journal is broken.
    """
    with journal.store.view(scope) as view:
        candidate_id, row = find_subject(view, subject_id)
    yield from _chapters(journal, scope, _Thread(candidate_id, row.record_id), row.born)


def message_story(journal: Journal, scope: Scope, message_id: str) -> Iterator[Chapter]:
    """Yield the events about a message, oldest first, up to the head as it stands now.

    Raises:
        NotFound: this scope has none of that id. CursorGap, JournalCorrupt, BlobMissing: the journal is broken.
    """
    with journal.store.view(scope) as view:
        row = view.subject(message_id) if message_id.startswith(MESSAGE_PREFIX) else None
    if row is None:
        raise NotFound("this scope has no message of that id")
    yield from _chapters(journal, scope, _Thread(message_id, None), row.born)


def _chapters(journal: Journal, scope: Scope, thread: _Thread, born: int) -> Iterator[Chapter]:
    for page in pages(journal.store, scope, after=born - 1):
        told = [event for event in page if thread.takes(event.header)]
        if not told:
            continue
        with journal.store.view(scope) as view:
            for event in told:
                ledger = None if event.header.ledger_digest is None else journal.ledger(view, event.header)
                yield Chapter(event, ledger, _counterpart(view, event.header, thread.subject_id))


def _counterpart(view: View, header: Header, subject_id: str) -> Counterpart | None:
    """Return the other candidate or record that an event about this one names."""
    other = header.related if header.subject == subject_id else header.subject
    if header.related is None or other is None or not other.startswith(CANDIDATE_PREFIX):
        return None
    row = view.subject(other)
    role = "other"
    if header.type in SUCCEEDING:
        role = "successor" if other == header.related else "predecessor"
    return Counterpart(role, other, None if row is None else row.record_id)


class _Thread:
    """Picks the events of one subject: its own, the confirmations that were asked for it, the end of its key."""

    def __init__(self, subject_id: str, record_id: str | None) -> None:
        self.subject_id = subject_id
        self._ids = {subject_id} if record_id is None else {subject_id, record_id}
        self._confirmations: set[str] = set()
        self._proposals: set[str] = set()  # cursors in decimal, by which a dismissal names its proposal
        self._doomed_at: int | None = None  # cursor of an end whose key is not known to be destroyed

    def takes(self, header: Header) -> bool:
        """Whether an event belongs to the story. Events are given in their order."""
        is_proposal = header.type == EventType.RECONCILIATION_PROPOSED
        if is_proposal and self.subject_id in (header.subject, header.related):
            self._proposals.add(str(header.cursor))
        if header.type == EventType.RECONCILIATION_DISMISSED:
            return header.related in self._proposals
        if header.subject == self.subject_id:
            if header.type in _DESTROYING:
                self._doomed_at = header.cursor
            return True
        if header.type == EventType.CONFIRMATION_REQUESTED and header.related in self._ids:
            assert header.subject is not None
            self._confirmations.add(header.subject)
            return True
        if header.type == EventType.ERASURE_DONE and header.subject is None:
            return self._is_end_of_key(header)
        return header.subject in self._confirmations or header.related in self._ids

    def _is_end_of_key(self, header: Header) -> bool:
        """An erasure-done event without a subject says up to which cursor keys were destroyed."""
        if self._doomed_at is None or int(header.related or 0) < self._doomed_at:
            return False
        self._doomed_at = None
        return True
