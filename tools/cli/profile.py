"""engram profile: what is known of the user, how it came to be so, and changing it by hand."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from journal import limits
from journal.clock import instant
from journal.errors import NotFound
from tools.cli import terminal
from tools.cli.conversing import opened_conversation
from tools.cli.counting import counted
from tools.cli.failures import CannotRun
from tools.cli.options import config_option, json_option, workspace_option
from tools.cli.output import give, note
from tools.conversation.brief import when

if TYPE_CHECKING:
    from projections.profile import ProfileRevision
    from tools.memory.call import Call
    from tools.memory.engine import Engine

_FIELDS = ("user_name", "core_profile", "sub_profile")
_READ_MAX_BYTES = 4 * limits.PROFILE_SUB_MAX_CHARACTERS  # of a file whose text would fit
_BOUNDS = {
    "user_name": ("name", limits.USER_NAME_MAX_CHARACTERS),
    "core_profile": ("core profile", limits.PROFILE_CORE_MAX_CHARACTERS),
    "sub_profile": ("sub profile", limits.PROFILE_SUB_MAX_CHARACTERS),
}


@click.group()
@config_option
@json_option
@workspace_option
def command() -> None:
    """Look at what is known of the user, and change it by hand."""


@command.command("show")
@config_option
@json_option
@workspace_option
def show() -> None:
    """Show the profile in force."""
    with opened_conversation(readonly=True) as (engine, call):
        revisions, lost = _revisions(engine, call)
    newest = revisions[0] if revisions else None
    value = {
        **{name: "" if newest is None else getattr(newest, name) for name in _FIELDS},
        "cursor": None if newest is None else str(newest.cursor),
        "recorded_at": None if newest is None else instant(newest.recorded_at),
    }
    give(value, lambda: "Nothing is known of the user yet." if newest is None else "\n".join(_shown(value)))
    _warn(lost)


def _shown(value: dict[str, Any]) -> Iterator[str]:
    yield terminal.fields([("name", value["user_name"] or "-"), ("revised", terminal.local_time(value["recorded_at"]))])
    for heading, name in (("core profile", "core_profile"), ("sub profile", "sub_profile")):
        yield f"\n{heading}:"
        yield terminal.lines(value[name]) if value[name] else "-"


@command.command("history")
@config_option
@json_option
@workspace_option
def history() -> None:
    """List all revisions, newest first, each with what it changed."""
    with opened_conversation(readonly=True) as (engine, call):
        revisions, lost = _revisions(engine, call)
        agents = _agents(engine, call, revisions)
    rows = [
        {
            "cursor": str(each.cursor), "recorded_at": instant(each.recorded_at), "principal": each.principal,
            "agent_id": agents[each.cursor], "action": each.action, "by": each.by,
            **{name: getattr(each, name) for name in _FIELDS},
            "diff": _diff(revisions[at + 1] if at + 1 < len(revisions) else None, each),
        }
        for at, each in enumerate(revisions)
    ]  # fmt: skip
    zone = call.binding.conversation.zone
    dated = [(when(each.recorded_at, zone), row) for each, row in zip(revisions, rows, strict=True)]
    give(rows, lambda: "\n\n".join("\n".join(_told(*one)) for one in dated) or "Nothing is known of the user yet.")
    _warn(lost)


def _told(moment: str, row: dict[str, Any]) -> Iterator[str]:
    who = row["principal"] if row["agent_id"] is None else f"{row['principal']}, agent {row['agent_id']}"
    yield terminal.one_line(f"{moment}  cursor {row['cursor']}  {row['action']}  by {who}")
    for line in row["diff"]:
        yield "  " + terminal.one_line(line)


def _diff(before: ProfileRevision | None, after: ProfileRevision) -> list[str]:
    """Return the lines that a revision took away (``-``) and brought (``+``)."""
    lines = []
    for name in _FIELDS:
        old = "" if before is None else getattr(before, name)
        changes = difflib.ndiff(old.splitlines(), getattr(after, name).splitlines())
        lines += [f"{change[0]} {name}: {change[2:]}" for change in changes if change[0] in "-+"]
    return lines


def _agents(engine: Engine, call: Call, revisions: list[ProfileRevision]) -> dict[int, str | None]:
    with engine.journal.store.view(call.scope) as view:
        events = {each.cursor: view.event(each.cursor) for each in revisions}
    return {cursor: None if event is None else event.header.actor.agent_id for cursor, event in events.items()}


@command.command("set")
@click.option("--name", metavar="N", help="What the user is called.")
@click.option("--core", metavar="TEXT|@FILE|-", help="The core profile: the little that every agent must know.")
@click.option("--sub", metavar="TEXT|@FILE|-", help="The sub profile: the rest worth keeping.")
@config_option
@json_option
@workspace_option
def set_profile(name: str | None, core: str | None, sub: str | None) -> None:
    """Write parts of the profile anew; what is not given stays. An empty text takes a part away."""
    if name is None and core is None and sub is None:
        raise click.UsageError("give --name, --core or --sub")
    if core == sub == "-":
        raise click.UsageError("only one text can come from standard input")
    given = {
        "user_name": None if name is None else _checked(name.encode(errors="surrogateescape")),
        "core_profile": _text(core),
        "sub_profile": _text(sub),
    }
    changes = {field: text for field, text in given.items() if text is not None}
    for field, text in changes.items():
        part, most = _BOUNDS[field]
        if len(text) > most:
            raise CannotRun(f"the {part} has {len(text):,} characters; it may have {most:,}")
    _revise(changes, "set")


@command.command("revert")
@click.argument("cursor", metavar="CURSOR")
@config_option
@json_option
@workspace_option
def revert(cursor: str) -> None:
    """Bring back the profile as the revision at a cursor left it."""
    if not (cursor.isascii() and cursor.isdigit()):
        raise click.UsageError("a revision is named by its cursor, a whole number; engram profile history shows them")
    with opened_conversation(readonly=True) as (engine, call):
        revisions, _ = _revisions(engine, call)
    found = next((each for each in revisions if str(each.cursor) == cursor), None)
    if found is None:
        raise NotFound("no revision of the profile stands at that cursor; engram profile history shows them")
    _revise({name: getattr(found, name) for name in _FIELDS}, f"revert_to_{cursor}")


def _revise(changes: dict[str, str], action: str) -> None:
    from dataclasses import asdict, replace

    from tools.conversation.profile_writing import revise

    with opened_conversation(readonly=False) as (engine, call):
        profile = revise(engine, call, None, action, lambda before: replace(before, **changes))
    give({"action": action, **asdict(profile)}, lambda: "the profile is revised")


def _revisions(engine: Engine, call: Call) -> tuple[list[ProfileRevision], int]:
    """Return the revisions that can be read, newest first, and how many are lost."""
    owners = call.binding.conversation.user
    with engine.projections(call.scope).snapshot(call.deadline, ["profile"]) as snapshot:
        reader = snapshot.reader("profile")
        return reader.history(owners), reader.lost(owners)


def _warn(lost: int) -> None:
    if lost:
        note(f"{counted(lost, 'revisions are', 'revision is')} lost; engram audit names what is lost")


def _text(given: str | None) -> str | None:
    """Return a text as it was given, or what the file or standard input holds, without its last line end."""
    if given is None:
        return None
    if given != "-" and not given.startswith("@"):
        return _checked(given.encode(errors="surrogateescape"))
    with click.open_file("-", "rb") if given == "-" else Path(given[1:]).open("rb") as stream:
        return _checked(stream.read(_READ_MAX_BYTES + 1).removesuffix(b"\n"))


def _checked(raw: bytes) -> str:
    if len(raw) > _READ_MAX_BYTES:
        raise CannotRun(
            f"that text is too long for a profile: the longest part may have {_BOUNDS['sub_profile'][1]:,} characters"
        )
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise CannotRun("that text is not UTF-8") from None
