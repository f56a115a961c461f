"""Notes that people leave on a candidate, for whoever decides it: sealed under its own key, gone when it is gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from journal.chain import has_ended
from journal.clock import instant
from journal.errors import AlreadyTerminal, JournalCorrupt, NotFound
from journal.events import Actor, Draft, EventType
from journal.lifecycle import State
from tools.memory.receipts import transaction_receipt_digest

if TYPE_CHECKING:
    from journal.events import Header
    from journal.log import Journal
    from journal.scope import Scope
    from journal.store.port import Committed, View


@dataclass(frozen=True, slots=True)
class Note:
    """A note as it stands in the journal."""

    cursor: int
    recorded_at: str  # instant
    by: str
    text: str | None  # None: it ended with its candidate

    def as_json(self) -> dict[str, Any]:
        """Return it as the command line prints it."""
        return {"cursor": str(self.cursor), "recorded_at": self.recorded_at, "by": self.by, "text": self.text}


def leave_note(journal: Journal, scope: Scope, candidate_id: str, operator: str, text: str) -> Committed:
    """Commit a note about a candidate, or about the record that it became.

    Raises:
        NotFound: this scope has none of that id. AlreadyTerminal: it has ended, and nothing is sealed for it any more.
        BlobMissing: its key is lost.
    """
    event_id = journal.random_event_id(scope)
    with journal.store.view(scope) as view:
        subject = view.subject(candidate_id) if candidate_id.startswith("candidate_") else None
        if subject is None:
            raise NotFound("this scope has no candidate of that id")
        if has_ended(candidate_id, subject.state):
            raise AlreadyTerminal(f"it is {State(subject.state).label}: its content is erased, and so would a note be")
        sealed = journal.seal_under(view, scope, event_id, candidate_id, subject.key_id, {"text": text})

    def decide(view: View) -> Sequence[Draft]:
        found = view.subject(candidate_id)
        if found is None:
            raise JournalCorrupt("a candidate that stood is gone")
        state = State(found.state)
        return [
            Draft(
                type=EventType.ADJUDICATION_NOTE, event_id=event_id, actor=Actor(f"operator:{operator}"),
                subject=candidate_id, record_id=found.record_id, from_state=state, to_state=state,
                key_id=found.key_id, content=sealed,
            )
        ]  # fmt: skip

    (committed,) = journal.commit(scope, decide)
    return committed


def note_of(journal: Journal, view: View, header: Header) -> Note:
    """Return the note that an event left.

    Raises:
        BlobMissing, JournalCorrupt: it is lost or broken.
    """
    content = journal.content(view, header)
    text = None if content is None else content["text"]
    return Note(header.cursor, instant(header.recorded_at), header.actor.principal, text)


def left(event: Committed) -> dict[str, Any]:
    """Return a note that was left, without its text, as the command line prints it."""
    header = event.header
    return {
        "candidate_id": header.subject,
        "cursor": str(header.cursor),
        "transaction_receipt_digest": transaction_receipt_digest(event),
    }
