"""engram candidates: a person decides which candidates become records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import click

from journal import limits
from journal.events import EventType
from tools.cli import subjects, terminal
from tools.cli.counting import counted
from tools.cli.failures import Refused
from tools.cli.invocation import place_words, word
from tools.cli.masking import Masked, masked
from tools.cli.opening import opened_engine, opened_journal
from tools.cli.options import check_size, config_option, json_option, workspace_option
from tools.cli.output import give, note
from tools.cli.shortids import CANDIDATE, RECORD, whole
from tools.cli.waiting import MISMATCHED, Waiting, is_forgotten, secret_note, waiting

if TYPE_CHECKING:
    from journal.scope import Scope
    from replay.history import Chapter
    from tools.cli.neighbours import Neighbour
    from tools.memory.adjudication_notes import Note

_DECISIONS = frozenset({EventType.ACCEPT, EventType.REJECT, EventType.WITHDRAW, EventType.ADJUDICATION})


@click.group()
@config_option
@json_option
@workspace_option
def command() -> None:
    """Decide which candidates become records."""


@command.command("list")
@config_option
@json_option
@workspace_option
def list_candidates() -> None:
    """List the candidates that wait for a decision."""
    with opened_journal() as (journal, scope):
        listed = waiting(journal, scope)
    give([each.as_json() for each in listed], lambda: _table(listed, scope))


def _table(listed: list[Waiting], scope: Scope) -> str:
    where = f"{scope.tenant_id} / {scope.workspace_id}"
    if not listed:
        return terminal.one_line(f"No candidate waits in {where}.")
    cells = [
        (
            where, terminal.local_time(each.row.captured_at), each.row.captured_by, each.says, "; ".join(each.notes),
            each.row.candidate_id,
        )
        for each in listed
    ]  # fmt: skip
    return terminal.table(("scope", "captured", "by", "says", "note", "candidate"), cells)


@command.command("show")
@click.argument("candidate_id", metavar="ID")
@config_option
@json_option
@workspace_option
def show(candidate_id: str) -> None:
    """Show a candidate whole, with what was decided about it. A text that looks like a secret is hidden."""
    from replay.history import find_subject, story
    from tools.memory.adjudication_notes import note_of

    with opened_engine(readonly=True, quiet=True) as (engine, bound):
        journal, scope = engine.journal, bound.scope
        with journal.store.view(scope) as view:
            name, subject = find_subject(view, whole(view, candidate_id, CANDIDATE, RECORD))
            row = subjects.row_of(view, name, subject)
            content = journal.content(view, row.capture)
            forgotten = is_forgotten(view, row)
        shown = None if content is None else masked(content)
        chapters = list(story(journal, scope, name))
        with journal.store.view(scope) as view:
            headers = [each.event.header for each in chapters if each.event.header.type == EventType.ADJUDICATION_NOTE]
            notes = [note_of(journal, view, header) for header in headers]
        near = None
        if content is not None and row.state == "pending":
            from tools.cli.neighbours import neighbours

            near = neighbours(engine, scope, content["payload"])
    decisions = [chapter for chapter in chapters if chapter.event.header.type in _DECISIONS]
    looked_at = _LookedAt(row, shown, decisions, notes, near, forgotten=forgotten)
    give(looked_at.as_json(), lambda: "\n".join(_told(looked_at)))


@dataclass(frozen=True, slots=True)
class _LookedAt:
    """A candidate, and all that a person should see beside it."""

    row: subjects.Row
    shown: Masked | None  # None: erased
    decisions: list[Chapter]
    notes: list[Note]
    near: list[Neighbour] | None  # None: not looked for, or the index cannot be asked
    forgotten: bool = field(kw_only=True)

    def as_json(self) -> dict[str, Any]:
        """Return it as the command line prints it."""
        row, content = self.row, {} if self.shown is None else self.shown.content
        secrets = () if self.shown is None else self.shown.secrets
        return {
            "candidate_id": row.candidate_id,
            "state": row.state,
            "cursor": str(row.subject.born),
            "captured_at": row.captured_at,
            "principal": row.capture.actor.principal,
            "agent_id": row.capture.actor.agent_id,
            "record_id": row.subject.record_id,
            "payload": content.get("payload"),
            "evidence": content.get("evidence"),
            "trust": content.get("trust"),
            "verification": content.get("verification"),
            "like_forgotten": self.forgotten,
            "secrets": [{"detector": detector, "path": path} for detector, path in secrets],
            "notes": [each.as_json() for each in self.notes],
            "neighbours": None if self.near is None else [each.as_json() for each in self.near],
            "decisions": [decision.as_json() for decision in self.decisions],
        }


def _told(looked_at: _LookedAt) -> Iterator[str]:
    row, shown = looked_at.row, looked_at.shown
    rows = [
        ("candidate", row.candidate_id),
        ("state", row.state),
        *([("record", row.subject.record_id)] if row.subject.record_id is not None else []),
        ("captured", f"{terminal.local_time(row.captured_at)}, cursor {row.subject.born}"),
        ("by", row.captured_by),
    ]
    if shown is None:
        yield terminal.fields(rows)
        yield "Its content was erased."
    else:
        yield from subjects.told(shown.content, rows)
        if "verification" in shown.content:
            yield from _verified(shown.content["verification"])
    if looked_at.near:
        yield "\nRecords most like it by their words:"
        for each in looked_at.near:
            yield terminal.one_line(f"  {each.shared_millionths // 10_000} %  {each.record_id}  {each.says}")
    if row.state == "pending":
        yield from _warned(row, shown, forgotten=looked_at.forgotten)
    yield from _since(looked_at)


def _since(looked_at: _LookedAt) -> Iterator[str]:
    """Yield the notes that were left and the decisions, oldest first."""
    told = [(left.cursor, _left(left)) for left in looked_at.notes]
    told += [(chapter.event.header.cursor, [_decided(chapter)]) for chapter in looked_at.decisions]
    if told:
        yield ""
    for _, lines in sorted(told):
        yield from lines


def _left(left: Note) -> list[str]:
    head = terminal.one_line(f"note at cursor {left.cursor} by {left.by}:")
    return [head, subjects.indented(subjects.ERASED if left.text is None else left.text)]


def _decided(chapter: Chapter) -> str:
    header, ledger = chapter.event.header, chapter.ledger or {}
    by = ledger.get("decision", {}).get("policy_id") or header.actor.principal
    reason = ledger.get("reason") or ledger.get("reason_ref")
    return terminal.one_line(
        f"{header.kind.label} at cursor {header.cursor} by {by}" + (f": {reason}" if reason else "")
    )


def _verified(verification: dict[str, Any]) -> Iterator[str]:
    """Yield what the host's verifier found, each thing that did not match with its reason."""
    if verification["result"] == "matched":
        yield "\nWhat it cites was found as cited."
        return
    yield "\nWhat it cites is not what was found:" if verification["result"] == MISMATCHED else "\nNot verified:"
    for finding in verification["findings"]:
        if finding["result"] != "matched":
            yield terminal.one_line(f"  {finding.get('citation_id', 'evidence')}: {finding['reason']}")


def _warned(row: subjects.Row, shown: Masked | None, *, forgotten: bool) -> Iterator[str]:
    if forgotten:
        yield "\nA record of the same words was forgotten in this scope."
    if shown is not None and shown.detectors:
        yield f"\nIt {secret_note(shown.detectors)} and can never be accepted. This destroys it:"
        yield f"  {word()} candidates reject {row.candidate_id}{place_words()}"


@command.command("note")
@click.argument("candidate_id", metavar="ID")
@click.argument("text", metavar="TEXT")
@config_option
@json_option
@workspace_option
def leave(candidate_id: str, text: str) -> None:
    """Leave a note on a candidate for whoever decides it. It is erased when the candidate is."""
    from tools.host import screen
    from tools.memory.adjudication_notes import leave_note, left

    check_size("a note", text, limits.ADJUDICATION_NOTE_MAX_BYTES)
    if found := screen.detect(text):
        raise Refused(f"the note holds what looks like a secret ({', '.join(found)}); a secret is never stored")
    with opened_engine(readonly=False) as (engine, bound):
        with engine.journal.store.view(bound.scope) as view:
            candidate_id = whole(view, candidate_id, CANDIDATE, RECORD)
            candidate_id = view.candidate_of(candidate_id) or candidate_id
        committed = leave_note(engine.journal, bound.scope, candidate_id, bound.operator, text)
    give(left(committed), lambda: f"noted, cursor {committed.header.cursor}")


@command.command("accept")
@click.argument("candidate_id", metavar="ID")
@click.option("--anyway", is_flag=True, help="Also where a record of the same words was forgotten in this scope.")
@config_option
@json_option
@workspace_option
def accept(candidate_id: str, *, anyway: bool) -> None:
    """Make a candidate a record that agents find."""
    _decide(candidate_id, "accept", None, anyway=anyway)


@command.command("reject")
@click.argument("candidate_id", metavar="ID")
@click.option("--reason", metavar="TEXT", help="Kept for good, also when the content is erased: do not quote from it.")
@config_option
@json_option
@workspace_option
def reject(candidate_id: str, reason: str | None) -> None:
    """Reject a candidate, and destroy the key of its content."""
    check_size("--reason", reason, limits.REF_MAX_BYTES)
    _decide(candidate_id, "reject", reason)


def _decide(
    candidate_id: str, decision: Literal["accept", "reject"], reason: str | None, *, anyway: bool = False
) -> None:
    from tools.cli.adjudication import Adjudication

    with opened_engine(readonly=False) as (engine, bound):
        with engine.journal.store.view(bound.scope) as view:
            candidate_id = whole(view, candidate_id, CANDIDATE)
        adjudication = Adjudication(engine, bound.scope, candidate_id, bound.operator)
        outcome = adjudication.decide(decision, reason, anyway=anyway)
        decided = outcome.as_json()
        if decision == "accept" and adjudication.is_expired():
            note("warning: its own expiry has passed; agents will never find it")
        record = decided["record_id"]
        if outcome.proposals:
            note(
                f"{counted(outcome.proposals, 'records say', 'record says')} otherwise: "
                f"{word()} records proposals list{place_words()}"
            )
        give(
            decided,
            lambda: f"{decision}ed, cursor {decided['cursor']}" + ("" if record is None else f": {record}"),
        )
