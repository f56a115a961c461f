"""engram candidates: a person decides which candidates become records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import click

from journal import limits
from journal.events import EventType
from tools.cli import subjects, terminal
from tools.cli.invocation import config_words, word
from tools.cli.masking import Masked, masked
from tools.cli.opening import opened_engine, opened_journal
from tools.cli.options import config_option, json_option, workspace_option
from tools.cli.output import give, note
from tools.cli.shortids import CANDIDATE, RECORD, whole
from tools.cli.waiting import MISMATCHED, Waiting, is_forgotten, secret_note, waiting

if TYPE_CHECKING:
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
        listed = waiting(journal, scope)
    give([each.as_json() for each in listed], lambda: _table(listed))


def _table(listed: list[Waiting]) -> str:
    if not listed:
        return "No candidate waits."
    cells = [
        (terminal.local_time(each.row.captured_at), each.says, "; ".join(each.notes), each.row.candidate_id)
        for each in listed
    ]
    return terminal.table(("captured", "says", "note", "candidate"), cells)


@command.command("show")
@click.argument("candidate_id", metavar="ID")
@config_option
@json_option
@workspace_option
def show(candidate_id: str) -> None:
    """Show a candidate whole, with what was decided about it. A text that looks like a secret is hidden."""
    from replay.history import find_subject, story

    with opened_journal() as (journal, scope):
        with journal.store.view(scope) as view:
            name, subject = find_subject(view, whole(view, candidate_id, CANDIDATE, RECORD))
            row = subjects.row_of(view, name, subject)
            content = journal.content(view, row.capture)
            forgotten = is_forgotten(view, row)
        shown = None if content is None else masked(content)
        decisions = [chapter for chapter in story(journal, scope, name) if chapter.event.header.type in _DECISIONS]
    give(
        _as_json(row, shown, decisions, forgotten=forgotten),
        lambda: "\n".join(_told(row, shown, decisions, forgotten=forgotten)),
    )


def _as_json(row: subjects.Row, shown: Masked | None, decisions: list[Chapter], *, forgotten: bool) -> dict[str, Any]:
    content = {} if shown is None else shown.content
    secrets = () if shown is None else shown.secrets
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
        "like_forgotten": forgotten,
        "secrets": [{"detector": detector, "path": path} for detector, path in secrets],
        "decisions": [decision.as_json() for decision in decisions],
    }


def _told(row: subjects.Row, shown: Masked | None, decisions: list[Chapter], *, forgotten: bool) -> Iterator[str]:
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
    if shown is None:
        yield "Its content was erased."
    else:
        yield from subjects.told(shown.content)
        if "verification" in shown.content:
            yield from _verified(shown.content["verification"])
    if row.state == "pending":
        yield from _warned(row, shown, forgotten=forgotten)
    for chapter in decisions:
        ledger = chapter.ledger or {}
        by = ledger.get("decision", {}).get("policy_id") or chapter.event.header.actor.principal
        reason = ledger.get("reason") or ledger.get("reason_ref")
        yield terminal.one_line(
            f"{chapter.event.header.kind.label} at cursor {chapter.event.header.cursor} by {by}"
            + (f": {reason}" if reason else "")
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
        yield f"  {word()} candidates reject {row.candidate_id}{config_words()}"


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
    if reason is not None and not 1 <= len(reason.encode(errors="replace")) <= limits.REF_MAX_BYTES:
        raise click.UsageError(f"--reason takes 1 to {limits.REF_MAX_BYTES} bytes")
    _decide(candidate_id, "reject", reason)


def _decide(
    candidate_id: str, decision: Literal["accept", "reject"], reason: str | None, *, anyway: bool = False
) -> None:
    from tools.cli.adjudication import Adjudication

    with opened_engine(readonly=False) as (engine, bound):
        with engine.journal.store.view(bound.scope) as view:
            candidate_id = whole(view, candidate_id, CANDIDATE)
        adjudication = Adjudication(engine, bound.scope, candidate_id, bound.operator)
        decided = adjudication.decide(decision, reason, anyway=anyway).as_json()
        if decision == "accept" and adjudication.is_expired():
            note("warning: its own expiry has passed; agents will never find it")
        record = decided["record_id"]
        give(
            decided,
            lambda: f"{decision}ed, cursor {decided['cursor']}" + ("" if record is None else f": {record}"),
        )
