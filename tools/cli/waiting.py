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
NOTE_LEFT = "a note was left"
_OF_EVENTS: dict[int, str] = {EventType.ADJUDICATION: ADMISSION_ASKED, EventType.ADJUDICATION_NOTE: NOTE_LEFT}


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
            "tenant_id": self.row.capture.scope.tenant_id,
            "workspace_id": self.row.capture.scope.workspace_id,
            "cursor": str(self.row.subject.born),
            "captured_at": self.row.captured_at,
            "principal": self.row.capture.actor.principal,
            "agent_id": self.row.capture.actor.agent_id,
            "notes": list(self.notes),
        }


def waiting(journal: Journal, scope: Scope) -> list[Waiting]:
    """Return the candidates that wait for a decision, oldest first."""
    rows = subjects.pending(journal, scope)
    said = _said(journal, scope, rows[0].subject.born) if rows else {}
    return [_looked_at(journal, scope, row, list(said.get(row.candidate_id, ()))) for row in rows]


def is_forgotten(view: View, row: subjects.Row) -> bool:
    """Whether a record of the same words was forgotten in this scope."""
    return any(view.tombstoned(guard) for guard in row.capture.guards)


def secret_note(detectors: tuple[str, ...]) -> str:
    """Return how a candidate is told of in which something was found."""
    return f"looks like a secret ({', '.join(detectors)})"


def _said(journal: Journal, scope: Scope, since: int) -> dict[str, dict[str, None]]:
    """Return what the events say of candidates that wait, each thing once, read off them: no index holds it.

    That is, that admission was left to a person, and that somebody left a note.
    """
    from replay.events import pages

    found: dict[str, dict[str, None]] = {}
    for header in (event.header for page in pages(journal.store, scope, after=since) for event in page):
        told = _OF_EVENTS.get(header.type)
        if told is not None and header.subject is not None:
            found.setdefault(header.subject, {})[told] = None
    return found


def _looked_at(journal: Journal, scope: Scope, row: subjects.Row, notes: list[str]) -> Waiting:
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
