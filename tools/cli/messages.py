"""engram messages: one message with its story; pinning, archiving, erasing by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from journal.clock import instant
from journal.errors import BlobMissing, JournalCorrupt
from journal.events import EventType
from journal.messages import MessageState
from tools.cli import said, subjects, terminal
from tools.cli.conversing import opened_conversation
from tools.cli.options import config_option, json_option, workspace_option
from tools.cli.output import give, note
from tools.cli.shortids import MESSAGE, whole
from tools.conversation.brief import when

if TYPE_CHECKING:
    from replay.history import Chapter
    from tools.memory.call import Call
    from tools.memory.engine import Engine

_TEXTS = frozenset({EventType.MESSAGE, EventType.MESSAGE_REVISION})


@click.group()
@config_option
@json_option
@workspace_option
def command() -> None:
    """Look at a message; pin, archive or erase it. engram timeline lists them."""


@command.command("show")
@click.argument("message_id", metavar="ID")
@config_option
@json_option
@workspace_option
def show(message_id: str) -> None:
    """Show a message whole, with its texts, its tags and its events."""
    from replay.history import message_story
    from tools.conversation.utterances import message_row

    with opened_conversation(readonly=True) as (engine, call):
        with engine.journal.store.view(call.scope) as view:
            message_id = whole(view, message_id, MESSAGE)
            born = message_row(view, message_id, call.binding.conversation.user).born
        with engine.projections(call.scope).snapshot(call.deadline, ["timeline"]) as snapshot:
            message = next(said.listed(engine, call, snapshot.reader("timeline"), [born]))
        chapters = list(message_story(engine.journal, call.scope, message_id))
        texts = [_content(engine, call, each) for each in chapters if each.event.header.type in _TEXTS]
        tags = [_content(engine, call, each) for each in chapters if each.event.header.type == EventType.MESSAGE_TAG]
    value = {
        **message.as_json(),
        "revisions": [{**where, "message": content.get("message")} for where, content in texts],
        "taggings": [
            {**where, "by": content.get("by"), "p_tag": content.get("p_tag"), "d_tags": content.get("d_tags", [])}
            for where, content in tags
        ],
        "events": [chapter.as_json() for chapter in chapters],
    }
    give(value, lambda: "\n".join(_told(message, value, chapters, call)))


def _content(engine: Engine, call: Call, chapter: Chapter) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return where an event stands and who wrote it, and its content; empty where it was erased or is lost."""
    header = chapter.event.header
    where = {
        "cursor": str(header.cursor), "recorded_at": instant(header.recorded_at),
        "principal": header.actor.principal, "agent_id": header.actor.agent_id,
    }  # fmt: skip
    with engine.journal.store.view(call.scope) as view:
        try:
            return where, engine.journal.content(view, header) or {}
        except (BlobMissing, JournalCorrupt):
            return where, {}


def _told(message: said.Said, value: dict[str, Any], chapters: list[Chapter], call: Call) -> Iterator[str]:
    zone = call.binding.conversation.zone
    yield from said.told(message, zone)
    if len(value["revisions"]) > 1 and message.content:
        for text in value["revisions"][:-1]:
            yield f"\nbefore, from cursor {text['cursor']}:"
            yield subjects.unopened(BlobMissing()) if text["message"] is None else subjects.indented(text["message"])
    yield ""
    for chapter in chapters:
        header = chapter.event.header
        by = header.actor.principal if header.actor.agent_id is None else f"agent {header.actor.agent_id}"
        moment = when(header.recorded_at, zone)
        yield terminal.one_line(f"{moment}  cursor {header.cursor}  {header.kind.label}  by {by}")


# --- its state --------------------------------------------------------------------------------------


def _mover(name: str, kind: EventType, done: str, summary: str) -> Callable[[str], None]:
    @command.command(name, help=summary)
    @click.argument("message_id", metavar="ID")
    @config_option
    @json_option
    @workspace_option
    def move_message(message_id: str) -> None:
        from tools.conversation.upkeep import move

        with opened_conversation(readonly=False) as (engine, call):
            with engine.journal.store.view(call.scope) as view:
                message_id = whole(view, message_id, MESSAGE)
            header = move(engine, call, kind, message_id)[-1].header
        value = {"id": message_id, "state": MessageState(header.to_state).label, "cursor": str(header.cursor)}
        give(value, lambda: f"{done}, cursor {header.cursor}")

    return move_message


pin = _mover("pin", EventType.MESSAGE_PIN, "pinned", "Pin a message: every brief begins with it.")
unpin = _mover("unpin", EventType.MESSAGE_UNPIN, "unpinned", "Take a message's pin away.")
archive = _mover(
    "archive", EventType.MESSAGE_ARCHIVE, "archived", "Put a message away losslessly; a pinned one is unpinned first."
)
restore = _mover("restore", EventType.MESSAGE_RESTORE, "restored", "Bring an archived message back.")


# --- its end ----------------------------------------------------------------------------------------


@command.command("erase")
@click.argument("message_ids", metavar="[ID]...", nargs=-1)
@click.option(
    "--older-than", metavar="DAYS", type=click.IntRange(0, 36_500), help="All that was said more than so many days ago."
)
@click.option("--pinned-too", is_flag=True, help="With --older-than: pinned messages as well.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@config_option
@json_option
@workspace_option
def erase(message_ids: tuple[str, ...], older_than: int | None, *, pinned_too: bool, yes: bool) -> None:
    """Erase messages for good: their keys are destroyed, and no projection keeps a word."""
    from tools.cli.erasing import Erasing

    if bool(message_ids) is (older_than is not None):
        raise click.UsageError("give the ids of messages, or --older-than DAYS")
    if pinned_too and older_than is None:
        raise click.UsageError("--pinned-too goes with --older-than")
    with opened_conversation(readonly=False) as (engine, call):
        erasing = Erasing(engine, call)
        if older_than is None:
            erasing.choose(message_ids)
        else:
            erasing.choose_older(older_than, pinned_too=pinned_too)
        if erasing.message_ids and not yes:
            erasing.ask()
        value = erasing.erase()
    give(
        value,
        lambda: (
            f"{value['erased']} erased; keys destroyed: {value['key_destruction']};"
            f" projections clean: {value['projection_invalidation']}"
        ),
    )
    if "pending" in value.values():
        note("another process has old projections open; a running server finishes what is pending in some seconds")
