"""engram timeline: what was said, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from journal import limits
from journal.errors import NotFound
from tools.cli import said
from tools.cli.conversing import opened_conversation
from tools.cli.counting import counted
from tools.cli.narrowing import Narrowing, narrowing_options
from tools.cli.options import config_option, json_option, wants_json, workspace_option
from tools.cli.output import give, note
from tools.cli.shortids import MESSAGE, whole

if TYPE_CHECKING:
    from projections.timeline_reader import TimelineReader
    from tools.memory.call import Call
    from tools.memory.engine import Engine

_PROJECTIONS = ("timeline", "tags")


@click.command()
@narrowing_options
@click.option("--device", metavar="NAME", help="What was said on that device.")
@click.option(
    "--limit", metavar="N", type=click.IntRange(min=1),
    help=f"How many messages; else {limits.TIMELINE_SHOWN}, and with --json all.",
)  # fmt: skip
@click.option("--before", metavar="ID", help="Only what was said before that message.")
@config_option
@json_option
@workspace_option
def command(*, device: str | None, limit: int | None, before: str | None, **narrowed: Any) -> None:
    """List what was said, newest first."""
    from tools.conversation.search_memory import UNKNOWN_TAG

    narrowing = Narrowing(**narrowed)
    if device is not None and narrowing.here:
        raise click.UsageError("give one of --device, --here")
    with (
        opened_conversation(readonly=True) as (engine, call),
        engine.projections(call.scope).snapshot(call.deadline, _PROJECTIONS) as snapshot,
    ):
        timeline: TimelineReader = snapshot.reader("timeline")
        chosen = narrowing.filter(call, snapshot, device)
        total = timeline.count(chosen)
        shown = limit or (max(total, 1) if wants_json() else limits.TIMELINE_SHOWN)
        start = None if before is None else _position(engine, call, timeline, before)
        messages = list(said.listed(engine, call, timeline, timeline.newest(chosen, shown, start)))
        lost = timeline.lost_of(chosen.owners)
    give(
        [each.as_json() for each in messages],
        lambda: said.table(messages, call.binding.conversation.zone) if messages else "Nothing was said.",
    )
    if before is None and len(messages) < total and not wants_json():
        note(f"{total - len(messages)} older ones are not shown; --limit or --before shows them")
    if chosen.tags is not None and not chosen.tags:
        note(f"{UNKNOWN_TAG}; engram tags list shows them")
    if lost:
        note(f"{counted(lost, 'messages are', 'message is')} lost and not shown; engram audit names what is lost")


def _position(engine: Engine, call: Call, timeline: TimelineReader, message_id: str) -> tuple[int, int]:
    """Return the (created_at, cursor) of a message; NotFound where it is none of this user's."""
    with engine.journal.store.view(call.scope) as view:
        message_id = whole(view, message_id, MESSAGE)
    row = timeline.find(call.binding.conversation.user, message_id)
    if row is None or not row.known:
        raise NotFound("there is no such message of this user")
    return row.created_at, row.cursor
