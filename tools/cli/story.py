"""engram records history: a record's whole story, every event with who did it, under what authority, and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from journal.clock import instant
from journal.events import Actor, EventType
from tools.cli import terminal
from tools.cli.opening import opened_journal
from tools.cli.options import config_option, json_option, workspace_option
from tools.cli.output import give
from tools.cli.shortids import CANDIDATE, RECORD, whole
from tools.memory.receipts import transaction_receipt_digest

if TYPE_CHECKING:
    from replay.history import Chapter

_INSET = "  "
_ROLES = {
    ("supersede", "successor"): "its successor",
    ("supersede", "predecessor"): "it takes the place of",
    ("rewind", "successor"): "in the place of",
    ("rewind", "predecessor"): "it is historical now, current is",
}


@click.command("history")
@click.argument("record_id", metavar="ID")
@config_option
@json_option
@workspace_option
def history(record_id: str) -> None:
    """Tell a record's whole story, oldest first.

    Capture, decisions with policy and receipts, notes, confirmations, transitions, erasure. A candidate's id will do,
    too. Of a forgotten record there is what the journal still says, and no word of it.
    """
    from replay.history import story

    with opened_journal() as (journal, scope):
        with journal.store.view(scope) as view:
            record_id = whole(view, record_id, RECORD, CANDIDATE)
        chapters = list(story(journal, scope, record_id))
    give([_as_json(chapter) for chapter in chapters], lambda: "\n".join(_told(chapters)))


def _as_json(chapter: Chapter) -> dict[str, Any]:
    return {**chapter.as_json(), "transaction_receipt_digest": transaction_receipt_digest(chapter.event)}


def _told(chapters: list[Chapter]) -> Iterator[str]:
    for chapter in chapters:
        header = chapter.event.header
        yield terminal.one_line(
            f"{terminal.local_time(instant(header.recorded_at))}  cursor {header.cursor}  {_what(chapter)}"
        )
        yield from (terminal.wrapped(f"{_INSET}{terminal.one_line(line)}", len(_INSET) * 2) for line in _more(chapter))


def _what(chapter: Chapter) -> str:
    """Return the event in a few words: its type, and where it leads."""
    said = chapter.as_json()
    moves = said["to_state"] is not None and said["from_state"] not in (None, "absent")
    return f"{said['type']}: {said['from_state']} to {said['to_state']}" if moves else str(said["type"])


def _more(chapter: Chapter) -> Iterator[str]:
    header, ledger = chapter.event.header, chapter.ledger or {}
    yield f"by {_who(header.actor)}"
    if chapter.counterpart is not None:
        other = chapter.counterpart
        role = _ROLES.get((header.kind.label, other.role), "beside")
        yield f"{role}: {other.record_id or other.candidate_id}"
    if header.type == EventType.ACCEPT:
        yield f"record: {header.record_id}"
    if "decision" in ledger:
        decision = ledger["decision"]
        yield f"policy {decision['policy_id']}, version {decision['policy_version']}: {decision['decision']}"
    if header.subject is not None and header.subject.startswith("confirmation_"):
        yield from _asked(header.subject, ledger)
    if "lineage" in ledger:
        lineage = ledger["lineage"]
        yield f"a copy of {lineage['record_id']} of workspace {lineage['workspace_id']}, {lineage['record_digest']}"
    if header.type == EventType.ERASURE_DONE:
        yield _erased(ledger)
    yield from (f"{name}: {ledger[key]}" for name, key in _SAID if ledger.get(key) is not None)
    receipts = dict(_receipts(ledger))
    if receipts:
        yield "receipts: " + ", ".join(f"{name} {digest}" for name, digest in receipts.items())


_SAID = (("reason", "reason"), ("reason", "reason_ref"), ("note", "note"), ("refused", "refused"))


def _who(actor: Actor) -> str:
    agent = "" if actor.agent_id is None else f", agent {actor.agent_id}"
    session = "" if actor.session is None else f", session {actor.session.hex()}"
    return f"{actor.principal}{agent}{session}"


def _asked(confirmation_id: str, ledger: dict[str, Any]) -> Iterator[str]:
    """Yield what a confirmation's step says: for what it was asked, until when, and by which channel it was decided."""
    yield f"request: {confirmation_id}"
    if "capability" in ledger:
        yield f"for {ledger['capability']}, open until {terminal.local_time(ledger['expires_at'])}"
    if "channel" in ledger:
        yield f"channel: {ledger['channel']}"


def _erased(ledger: dict[str, Any]) -> str:
    if "coverage" not in ledger:
        return f"keys destroyed, of everything that ended up to cursor {ledger.get('up_to_cursor', '?')}"
    clean = ", ".join(f"{each['projection']} at {each['cursor']}" for each in ledger["coverage"]["projections"])
    return f"no projection holds a byte of it: {clean}"


def _receipts(ledger: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if "decision" in ledger:
        yield "decision", ledger["decision"]["receipt_digest"]
    if ledger.get("authorization_receipt_digest") is not None:
        yield "authorization", ledger["authorization_receipt_digest"]
    if "coverage" in ledger:
        yield "coverage", ledger["coverage"]["receipt_digest"]
