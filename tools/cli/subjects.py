"""Candidates and records as a person sees them: rows of a list, and one whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from journal.clock import instant
from journal.errors import BlobMissing, EngramError, JournalCorrupt
from journal.lifecycle import State
from tools.cli import terminal

if TYPE_CHECKING:
    from journal.events import Header
    from journal.log import Journal
    from journal.scope import Scope
    from journal.store.port import Subject, View

ERASED = "(erased)"
_EXCERPT_COLUMNS = 60


@dataclass(frozen=True, slots=True)
class Row:
    """One candidate or record, with the header of its capture."""

    candidate_id: str
    subject: Subject
    capture: Header

    @property
    def state(self) -> str:
        """The contract's name of its state."""
        return State(self.subject.state).label

    @property
    def captured_by(self) -> str:
        """Who captured it, for a person."""
        actor = self.capture.actor
        return actor.principal if actor.agent_id is None else f"{actor.principal}, agent {actor.agent_id}"

    @property
    def captured_at(self) -> str:
        """When it was captured."""
        return instant(self.capture.recorded_at)


def row_of(view: View, candidate_id: str, subject: Subject) -> Row:
    """Return the row of a candidate; JournalCorrupt where its capture is missing."""
    event = view.event(subject.born)
    if event is None:
        raise JournalCorrupt(f"the capture at cursor {subject.born} is missing")
    return Row(candidate_id, subject, event.header)


def pending(journal: Journal, scope: Scope) -> list[Row]:
    """Return the candidates that wait for a decision, oldest first."""
    with journal.store.view(scope) as view:
        found = [(candidate_id, view.subject(candidate_id)) for candidate_id in view.pending_candidates()]
        return [row_of(view, candidate_id, subject) for candidate_id, subject in found if subject is not None]


def records(journal: Journal, scope: Scope) -> list[Row]:
    """Return all records, the forgotten ones too, oldest first."""
    with journal.store.view(scope) as view:
        found = [(name, subject) for name, subject in view.subjects() if subject.record_id is not None]
        return [row_of(view, name, subject) for name, subject in sorted(found, key=lambda row: row[1].born)]


def excerpt_of(journal: Journal, scope: Scope, row: Row) -> str:
    """Return the beginning of a row's words; what is lost is said in its place, for a list must show the others."""
    with journal.store.view(scope) as view:
        try:
            return excerpt(journal.content(view, row.capture))
        except (BlobMissing, JournalCorrupt) as error:
            return unopened(error)


def unopened(error: EngramError) -> str:
    """Return what stands in the place of words that are lost."""
    return f"(cannot be opened: {error.code})"


def excerpt(content: dict[str, Any] | None) -> str:
    """Return the beginning of the primary component's text, on one line and safe."""
    return ERASED if content is None else beginning(primary_text(content["payload"]))


def beginning(words: str) -> str:
    """Return the beginning of a text, on one line and safe."""
    text = " ".join(words.split())
    shown = ""
    columns = 0
    for character in terminal.one_line(text[: 2 * _EXCERPT_COLUMNS]):
        columns += terminal.width(character)
        if columns > _EXCERPT_COLUMNS:
            return f"{shown} ..."
        shown += character
    return shown


def primary_text(payload: dict[str, Any]) -> str:
    """Return the text of the primary component."""
    primary = payload["primary_component_id"]
    return next((each["text"] for each in payload["components"] if each["component_id"] == primary), "")


def told(content: dict[str, Any], before: Sequence[tuple[str, str]] = ()) -> Iterator[str]:
    """Yield the lines that show a content whole, aligned with the fields that stand before it."""
    payload, evidence = content["payload"], content["evidence"]
    valid = payload["valid_time"]
    until = _moment(valid["t_end"]) if "t_end" in valid else "no end"
    retention = payload["retention"]
    yield terminal.fields(
        [
            *before,
            ("purpose", payload["purpose_ref"]),
            ("valid", f"{_moment(valid['t'])} to {until}"),
            ("event", f"{payload['primary_event']['type_ref']} at {_moment(payload['primary_event']['at'])}"),
            ("expires", terminal.local_time(retention["expires_at"]) if "expires_at" in retention else "never"),
            ("trust", content["trust"]["class"]),
        ]
    )
    for component in payload["components"]:
        mark = ", primary" if component["component_id"] == payload["primary_component_id"] else ""
        yield ""
        yield terminal.one_line(
            f"{component['component_id']} ({component['kind']}{mark}; cites {', '.join(component['citation_ids'])})"
        )
        yield indented(component["text"])
    yield ""
    for citation in payload["citations"]:
        locator = citation["locator"]
        yield terminal.one_line(
            f"{citation['citation_id']}: {citation['source_ref']}, {locator['scheme']} {locator['value']},"
            f" {citation['content_digest']}"
        )
    yield terminal.one_line(f"evidence: {evidence['evidence_ref']}, {evidence['evidence_digest']}")
    if "attestation" in evidence:
        yield indented(evidence["attestation"])


def indented(text: str) -> str:
    """Return a text set in by two columns, its line breaks kept, and safe."""
    return "\n".join(f"  {line}" for line in terminal.lines(text).split("\n"))


def _moment(epoch_milliseconds: int) -> str:
    try:
        return terminal.local_time(instant(epoch_milliseconds))
    except (ValueError, OverflowError, OSError):  # a safe integer may lie beyond every calendar
        return f"{epoch_milliseconds} ms"
