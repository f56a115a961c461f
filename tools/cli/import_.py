"""engram import: messages that another store or another program holds."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from tools.cli import progress
from tools.cli.conversing import opened_conversation
from tools.cli.counting import counted
from tools.cli.failures import Refused
from tools.cli.options import config_option, json_option, workspace_option
from tools.cli.output import give, note

if TYPE_CHECKING:
    from tools.conversation.exchange.summary import Summary
    from tools.memory.call import Call
    from tools.memory.engine import Engine

JSONL: Final = "jsonl"
SERVER_MEMORY: Final = "server-memory"
KINDS: Final = (JSONL, SERVER_MEMORY)
LATER: Final = ("transcripts", "mcp-agents-memory", "mem0")
"""Kinds that a later release imports."""


@click.command()
@click.argument("kind", metavar="KIND")
@click.argument("path", metavar="PATH", type=click.Path(path_type=Path))
@click.option("--pin", is_flag=True, help="server-memory: pin what is imported.")
@config_option
@json_option
@workspace_option
def command(kind: str, path: Path, *, pin: bool) -> None:
    """Bring the messages of a file in, each once however often it is imported.

    KIND is jsonl, what `engram export` writes, or server-memory, the file of MCP's reference memory server. The whole
    file is checked before anything is written. An import that was interrupted is run again.
    """
    _check_usage(kind, path, pin=pin)
    with opened_conversation(readonly=False) as (engine, call):
        summary = _import(engine, call, kind, path, pin=pin)
    if summary.profile == "kept":
        note("note: the profile of the file was left out, since there is one here")
    for count, what in (
        (summary.skipped, "messages that were erased here"),
        (summary.aliases_left_out, "aliases of project tags that are set otherwise here"),
        (summary.revisions_left_out, "revisions of the profile, the oldest"),
    ):
        if count:
            note(f"note: {count} left out: {what}")
    give(asdict(summary), lambda: _told(summary))


def _check_usage(kind: str, path: Path, *, pin: bool) -> None:
    if kind in LATER:
        raise click.UsageError(f"{kind} is imported by a later release; this one takes {' and '.join(KINDS)}")
    if kind not in KINDS:
        raise click.UsageError(f"there is no kind {kind}; there are {' and '.join(KINDS)}")
    if pin and kind != SERVER_MEMORY:
        raise click.UsageError("--pin is for server-memory; in jsonl each message says whether it is pinned")
    if not path.exists():
        raise click.UsageError(f"{path}: there is no such file")
    if not path.is_file():
        raise click.UsageError(f"{path} is no regular file, and has to be read twice")


def _import(engine: Engine, call: Call, kind: str, path: Path, *, pin: bool) -> Summary:
    from tools.conversation.exchange import import_jsonl, import_server_memory
    from tools.conversation.exchange.reading import WrongLine

    try:
        with progress.bar("checking") as told:
            checked = import_jsonl.check_jsonl(path, told) if kind == JSONL else None
            partly = 0 if kind == JSONL else import_server_memory.check_server_memory(path, told)
    except WrongLine as wrong:
        raise Refused(f"{path}: {wrong}; nothing was imported") from wrong
    if partly:
        note(
            f"note: {counted(partly, 'lines have', 'line has')} fields that are not the reference server's; these are "
            "left out"
        )
    try:
        with progress.bar("importing") as told:
            if checked is not None:
                return import_jsonl.import_jsonl(engine, call, path, checked, told)
            return import_server_memory.import_server_memory(engine, call, path, told, pin=pin)
    except WrongLine as wrong:
        raise Refused(f"{path}: was changed while it was imported: {wrong}; import it again") from wrong


def _told(summary: Summary) -> str:
    words = [f"{counted(summary.imported, 'messages')} imported"]
    words += [counted(summary.duplicates, "were here already", "was here already")] if summary.duplicates else []
    words += [counted(summary.tags, "project tags", "project tag")] if summary.tags else []
    words += ["the profile"] if summary.profile == "imported" else []
    return ", ".join(words)
