"""engram records history: a record's whole story, every event with who did it, under what authority, and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from journal.clock import instant
from journal.errors import BlobMissing, JournalCorrupt
from journal.events import Actor, EventType
from tools.cli import subjects, terminal
from tools.cli.opening import opened_journal
from tools.cli.options import config_option, json_option, workspace_option
from tools.cli.output import give
from tools.cli.shortids import CANDIDATE, RECORD, whole
from tools.memory.adjudication_notes import note_of
from tools.memory.receipts import transaction_receipt_digest

if TYPE_CHECKING:
    from journal.events import Header
    from journal.log import Journal
    from journal.store.port import View
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
        told = list(story(journal, scope, record_id))
        with journal.store.view(scope) as view:
            chapters = [(chapter, _note(journal, view, chapter)) for chapter in told]
    give([_as_json(*each) for each in chapters], lambda: "\n".join(_told(chapters)))


def _note(journal: Journal, view: View, chapter: Chapter) -> str | None:
    """Return what a person noted, or why it cannot be read; None where the event is no note, or the note is erased."""
    if chapter.event.header.type != EventType.ADJUDICATION_NOTE:
        return None
    try:
        return note_of(journal, view, chapter.event.header).text
    except (BlobMissing, JournalCorrupt) as error:  # the rest of the story is whole
        return subjects.unopened(error)


def _as_json(chapter: Chapter, note: str | None) -> dict[str, Any]:
    receipt = transaction_receipt_digest(chapter.event)
    return {**chapter.as_json(), "note": note, "transaction_receipt_digest": receipt}


def _told(chapters: list[tuple[Chapter, str | None]]) -> Iterator[str]:
    for chapter, note in chapters:
        header = chapter.event.header
        yield terminal.one_line(
            f"{terminal.local_time(instant(header.recorded_at))}  cursor {header.cursor}  {_what(chapter)}"
        )
        yield from (
            terminal.wrapped(f"{_INSET}{terminal.one_line(line)}", len(_INSET) * 2) for line in _more(chapter, note)
        )


def _what(chapter: Chapter) -> str:
    """Return the event in a few words: its type, and where it leads."""
    said = chapter.as_json()
    moves = said["to_state"] is not None and said["from_state"] not in (None, "absent", said["to_state"])
    return f"{said['type']}: {said['from_state']} to {said['to_state']}" if moves else str(said["type"])


def _more(chapter: Chapter, note: str | None) -> Iterator[str]:
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
    beside = _beside(header, ledger, note)
    if beside is not None:
        yield beside
    yield from (f"{name}: {ledger[key]}" for name, key in _SAID if ledger.get(key) is not None)
    receipts = dict(_receipts(ledger))
    if receipts:
        yield "receipts: " + ", ".join(f"{name} {digest}" for name, digest in receipts.items())


_SAID = (("reason", "reason"), ("reason", "reason_ref"), ("refused", "refused"))


def _beside(header: Header, ledger: dict[str, Any], note: str | None) -> str | None:
    """Return what an event says that moves nothing; None where it says nothing of its own."""
    match header.kind:
        case EventType.RECONCILIATION_PROPOSED:
            return f"proposed: {ledger.get('relation')}, of {ledger.get('family_ref')}"
        case EventType.RECONCILIATION_DISMISSED:
            return f"dismissed: the proposal at cursor {header.related}"
        case EventType.ADJUDICATION_NOTE:
            return "note: (erased)" if note is None else f"note: {note}"
        case EventType.ERASURE_DONE:
            return _erased(ledger)
    return None


def _who(actor: Actor) -> str:
    agent = "" if actor.agent_id is None else f", agent {actor.agent_id}"
    session = "" if actor.session is None else f", session {actor.session.hex()}"
    return f"{actor.principal}{agent}{session}"


def _asked(confirmation_id: str, ledger: dict[str, Any]) -> Iterator[str]:
    """Yield what a confirmation's step says: for what it was asked, until when, and by which channel it was decided."""
    yield f"request: {confirmation_id}"
    if "capability" in ledger:
        yield f"for {ledger['capability']}, open until {terminal.local_time(ledger['expires_at'])}"
    if "form" in ledger:
        yield f"a form, {ledger['form'].replace('_', ' ')}: client {ledger['client']}"
    elif "channel" in ledger:
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
