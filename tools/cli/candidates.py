"""engram candidates: a person decides which candidates become records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import click

from journal import limits
from journal.errors import NotFound
from journal.events import EventType
from tools.cli import subjects, terminal
from tools.cli.opening import opened_engine, opened_journal
from tools.cli.options import config_option, json_option, workspace_option
from tools.cli.output import give, note

if TYPE_CHECKING:
    from journal.log import Journal
    from journal.scope import Scope
    from replay.history import Chapter

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
        rows = subjects.pending(journal, scope)
        give(
            [
                {
                    "candidate_id": row.candidate_id,
                    "state": row.state,
                    "cursor": str(row.subject.born),
                    "captured_at": row.captured_at,
                }
                for row in rows
            ],
            lambda: _table(journal, scope, rows),
        )


def _table(journal: Journal, scope: Scope, rows: list[subjects.Row]) -> str:
    if not rows:
        return "No candidate waits."
    cells = [
        (
            terminal.local_time(row.captured_at),
            subjects.excerpt_of(journal, scope, row),
            row.candidate_id,
        )
        for row in rows
    ]
    return terminal.table(("captured", "says", "candidate"), cells)


@command.command("show")
@click.argument("candidate_id", metavar="ID")
@config_option
@json_option
@workspace_option
def show(candidate_id: str) -> None:
    """Show a candidate whole, with what was decided about it."""
    from replay.history import find_subject, story

    with opened_journal() as (journal, scope):
        with journal.store.view(scope) as view:
            name, subject = find_subject(view, candidate_id)
            row = subjects.row_of(view, name, subject)
            content = journal.content(view, row.capture)
            forgotten = any(view.tombstoned(guard) for guard in row.capture.guards)
        decisions = [chapter for chapter in story(journal, scope, name) if chapter.event.header.type in _DECISIONS]
        give(
            _as_json(row, content, decisions, forgotten=forgotten),
            lambda: "\n".join(_told(row, content, decisions, forgotten=forgotten)),
        )


def _as_json(
    row: subjects.Row, content: dict[str, Any] | None, decisions: list[Chapter], *, forgotten: bool
) -> dict[str, Any]:
    shown = content or {}
    return {
        "candidate_id": row.candidate_id,
        "state": row.state,
        "cursor": str(row.subject.born),
        "captured_at": row.captured_at,
        "principal": row.capture.actor.principal,
        "agent_id": row.capture.actor.agent_id,
        "record_id": row.subject.record_id,
        "payload": shown.get("payload"),
        "evidence": shown.get("evidence"),
        "trust": shown.get("trust"),
        "like_forgotten": forgotten,
        "decisions": [decision.as_json() for decision in decisions],
    }


def _told(
    row: subjects.Row, content: dict[str, Any] | None, decisions: list[Chapter], *, forgotten: bool
) -> Iterator[str]:
    actor = row.capture.actor
    yield terminal.fields(
        [
            ("candidate", row.candidate_id),
            ("state", row.state),
            *([("record", row.subject.record_id)] if row.subject.record_id is not None else []),
            ("captured", f"{terminal.local_time(row.captured_at)}, cursor {row.subject.born}"),
            ("by", actor.principal if actor.agent_id is None else f"{actor.principal}, agent {actor.agent_id}"),
        ]
    )
    if content is None:
        yield "Its content was erased."
    else:
        yield from subjects.told(content)
    if forgotten and row.state == "pending":
        yield "\nA record of the same words was forgotten in this scope."
    for chapter in decisions:
        ledger = chapter.ledger or {}
        by = ledger.get("decision", {}).get("policy_id") or chapter.event.header.actor.principal
        reason = ledger.get("reason") or ledger.get("reason_ref")
        yield terminal.one_line(
            f"{chapter.event.header.kind.label} at cursor {chapter.event.header.cursor} by {by}"
            + (f": {reason}" if reason else "")
        )


@command.command("accept")
@click.argument("candidate_id", metavar="ID")
@config_option
@json_option
@workspace_option
def accept(candidate_id: str) -> None:
    """Make a candidate a record that agents find."""
    _decide(candidate_id, "accept", None)


@command.command("reject")
@click.argument("candidate_id", metavar="ID")
@click.option("--reason", metavar="TEXT", help="Kept for good, also when the content is erased: do not quote from it.")
@config_option
@json_option
@workspace_option
def reject(candidate_id: str, reason: str | None) -> None:
    """Reject a candidate, and destroy the key of its content."""
    if reason is not None and not 1 <= len(reason.encode(errors="replace")) <= limits.REF_MAX_BYTES:
        raise click.UsageError(f"--reason takes 1 to {limits.REF_MAX_BYTES} bytes")
    _decide(candidate_id, "reject", reason)


def _decide(candidate_id: str, decision: Literal["accept", "reject"], reason: str | None) -> None:
    from tools.cli.adjudication import Adjudication

    if not candidate_id.startswith("candidate_"):
        raise NotFound("this scope has no candidate of that id")
    with opened_engine(readonly=False) as (engine, bound):
        adjudication = Adjudication(engine, bound.scope, candidate_id, bound.operator)
        if decision == "accept" and adjudication.is_forgotten_content():
            note("warning: a record of the same words was forgotten in this scope")
        if decision == "accept" and adjudication.is_expired():
            note("warning: its own expiry has passed; agents will never find it")
        decided = adjudication.decide(decision, reason).as_json()
        record = decided["record_id"]
        give(
            decided,
            lambda: f"{decision}ed, cursor {decided['cursor']}" + ("" if record is None else f": {record}"),
        )
