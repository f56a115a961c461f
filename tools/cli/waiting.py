"""The candidates that wait for a person, each with what the person should know before deciding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from journal.errors import BlobMissing, JournalCorrupt
from journal.events import EventType
from tools.cli import subjects
from tools.cli.masking import masked

if TYPE_CHECKING:
    from journal.log import Journal
    from journal.scope import Scope
    from journal.store.port import View

ADMISSION_ASKED = "admission asked"
FORGOTTEN_WORDS = "same words were forgotten"
MISMATCHED = "mismatched"
NOT_AS_CITED = "cited files say otherwise"


@dataclass(frozen=True, slots=True)
class Waiting:
    """One candidate that waits."""

    row: subjects.Row
    says: str  # the beginning of its words, safe for a terminal and without a secret
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return it as the command line prints it."""
        return {
            "candidate_id": self.row.candidate_id,
            "state": self.row.state,
            "cursor": str(self.row.subject.born),
            "captured_at": self.row.captured_at,
            "notes": list(self.notes),
        }


def waiting(journal: Journal, scope: Scope) -> list[Waiting]:
    """Return the candidates that wait for a decision, oldest first."""
    rows = subjects.pending(journal, scope)
    asked = _asked(journal, scope, rows[0].subject.born) if rows else frozenset()
    return [_looked_at(journal, scope, row, asked=row.candidate_id in asked) for row in rows]


def is_forgotten(view: View, row: subjects.Row) -> bool:
    """Whether a record of the same words was forgotten in this scope."""
    return any(view.tombstoned(guard) for guard in row.capture.guards)


def secret_note(detectors: tuple[str, ...]) -> str:
    """Return how a candidate is told of in which something was found."""
    return f"looks like a secret ({', '.join(detectors)})"


def _asked(journal: Journal, scope: Scope, since: int) -> frozenset[str]:
    """Return the candidates whose admission was left to a person, read off the events: no index holds it."""
    from replay.events import pages

    events = (event.header for page in pages(journal.store, scope, after=since) for event in page)
    return frozenset(header.subject for header in events if header.type == EventType.ADJUDICATION and header.subject)


def _looked_at(journal: Journal, scope: Scope, row: subjects.Row, *, asked: bool) -> Waiting:
    notes = [ADMISSION_ASKED] if asked else []
    with journal.store.view(scope) as view:
        if is_forgotten(view, row):
            notes.append(FORGOTTEN_WORDS)
        try:
            content = journal.content(view, row.capture)
        except (BlobMissing, JournalCorrupt) as error:
            return Waiting(row, subjects.unopened(error), tuple(notes))
    if content is None:  # decided since it was listed
        return Waiting(row, subjects.excerpt(None), tuple(notes))
    if content.get("verification", {}).get("result") == MISMATCHED:
        notes.append(NOT_AS_CITED)
    shown = masked(content)
    if shown.detectors:
        notes.append(secret_note(shown.detectors))
    return Waiting(row, subjects.excerpt(shown.content), tuple(notes))
