"""engram brief: what an agent should know at the start of a session, for a client's own session-start hook.

A hook's output goes before a model as it stands, so that nothing else is printed, and nothing is said on stderr. Only
a terminal is kept from what it would obey.
"""

from __future__ import annotations

import json
import sys

import click

from journal import limits
from tools.cli import terminal
from tools.cli.conversing import opened_conversation
from tools.cli.options import config_option, json_option, wants_json, workspace_option
from tools.cli.output import give

_EVENT = "SessionStart"


@click.command()
@click.option("--platform", metavar="NAME", help="Whose session begins; without it all platforms are alike.")
@click.option(
    "--days", metavar="N", type=click.IntRange(1, limits.SHORT_TERM_DAYS_MAX),
    help="How far back recent messages go; else as the host file says.",
)  # fmt: skip
@click.option("--all-platforms", is_flag=True, help="Do not set this platform's messages apart from the others'.")
@click.option("--hook", is_flag=True, help="Print it as the JSON that hooks of some clients have to answer.")
@config_option
@json_option
@workspace_option
def command(*, platform: str | None, days: int | None, all_platforms: bool, hook: bool) -> None:
    """Print what memory_startup tells an agent at the start of a session."""
    from tools.conversation.memory_startup import memory_startup

    arguments = {
        "agent_platform_filter": platform is not None and not all_platforms,
        **({} if days is None else {"short_term_days": days}),
    }
    with opened_conversation(readonly=True, client_name=platform, quiet=True) as (engine, call):
        value = memory_startup(engine, call, arguments)
    if hook:
        answer = {"hookSpecificOutput": {"hookEventName": _EVENT, "additionalContext": value["brief"]}}
        click.echo(json.dumps(answer, ensure_ascii=True))
    elif sys.stdout.isatty() or wants_json():
        give(value, lambda: terminal.lines(value["brief"]))
    else:
        click.echo(value["brief"], color=True)  # else it would leave out what looks like a colour
