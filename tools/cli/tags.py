"""engram tags: the project tags, what stands for what, and tagging by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from journal.clock import instant
from tools.cli import terminal
from tools.cli.conversing import opened_conversation
from tools.cli.options import config_option, json_option, workspace_option
from tools.cli.output import give
from tools.cli.shortids import MESSAGE, whole
from tools.conversation.brief import when

if TYPE_CHECKING:
    from tools.memory.call import Call
    from tools.memory.engine import Engine


@click.group()
@config_option
@json_option
@workspace_option
def command() -> None:
    """Look at project tags, and change them by hand."""


@command.command("list")
@config_option
@json_option
@workspace_option
def list_tags() -> None:
    """List the project tags with how much each is used, archived messages among them."""
    with opened_conversation(readonly=True) as (engine, call):
        rows = _rows(engine, call)
    zone = call.binding.conversation.zone
    give(
        [{**row, "last_used": None if row["last_used"] is None else instant(row["last_used"])} for row in rows],
        lambda: (
            terminal.table(
                ("tag", "stands for", "messages", "last used", "description"),
                [
                    (
                        row["name"],
                        row["representative"] if row["alias_of"] else "-",
                        str(row["count"]),
                        "-" if row["last_used"] is None else when(row["last_used"], zone),
                        row["description"],
                    )
                    for row in rows
                ],
            )
            if rows
            else "No project tag yet."
        ),
    )


def _rows(engine: Engine, call: Call) -> list[dict[str, Any]]:
    from projections.timeline_reader import Filter

    owners = call.binding.conversation.user
    with engine.projections(call.scope).snapshot(call.deadline, ("timeline", "tags")) as snapshot:
        tags = snapshot.reader("tags").tags(owners)
        everything = Filter(owners=owners, archived=True)
        used = {one.name: one for one in snapshot.reader("timeline").tag_usage(everything, [tag.name for tag in tags])}
    return [
        {
            "name": tag.name, "description": tag.description, "alias_of": tag.alias_of,
            "representative": tag.representative, "count": used[tag.name].count if tag.name in used else 0,
            "last_used": used[tag.name].last_used if tag.name in used else None,
        }
        for tag in tags
    ]  # fmt: skip


@command.command("add")
@click.argument("name")
@click.option("--description", metavar="TEXT", help="What the project is; it replaces an earlier one.")
@config_option
@json_option
@workspace_option
def add(name: str, description: str | None) -> None:
    """Make a project tag, or describe one anew."""
    from tools.conversation.upkeep import add_tag

    with opened_conversation(readonly=False) as (engine, call):
        made, described = add_tag(engine, call, name, description)
    give({"name": made, "description": described}, lambda: terminal.one_line(f"{made} is a project tag"))


@command.command("alias")
@click.argument("name", metavar="A")
@click.option("--of", "of", metavar="B", help="The tag that it stands for.")
@click.option("--none", "none", is_flag=True, help="It stands for itself again.")
@config_option
@json_option
@workspace_option
def alias(name: str, of: str | None, *, none: bool) -> None:
    """Let one project tag stand for another; a search for either finds both."""
    from tools.conversation.upkeep import alias_tag

    if (of is None) is not none:
        raise click.UsageError("give one of --of B, --none")
    with opened_conversation(readonly=False) as (engine, call):
        made, alias_of = alias_tag(engine, call, name, of)
    give(
        {"name": made, "alias_of": alias_of},
        lambda: terminal.one_line(f"{made} stands for {alias_of or 'itself again'}"),
    )


@command.command("set")
@click.argument("message_id", metavar="ID")
@click.option("--project", metavar="NAME", help="Its project tag, which is made where it is new.")
@click.option("--keyword", "keywords", metavar="K", multiple=True, help="A keyword; may come more than once.")
@click.option("--clear", is_flag=True, help="First take away what it has; else what is not named stays.")
@config_option
@json_option
@workspace_option
def set_tags(message_id: str, project: str | None, keywords: tuple[str, ...], *, clear: bool) -> None:
    """Tag a message by hand."""
    from tools.conversation.upkeep import Tagging, tag_message

    if project is None and not keywords and not clear:
        raise click.UsageError("give --project, --keyword or --clear")
    with opened_conversation(readonly=False) as (engine, call):
        with engine.journal.store.view(call.scope) as view:
            message_id = whole(view, message_id, MESSAGE)
        tags = tag_message(engine, call, message_id, Tagging(project, keywords or None, clear))
    give(
        {"id": message_id, **tags},
        lambda: terminal.fields(
            [("project", tags["p_tag"] or "none"), ("keywords", ", ".join(tags["d_tags"]) or "none")]
        ),
    )
