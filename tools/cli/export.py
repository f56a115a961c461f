"""engram export: a user's conversation memory as a file, for machines or for people."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from tools.cli import progress, terminal
from tools.cli.conversing import opened_conversation
from tools.cli.counting import counted
from tools.cli.failures import Refused
from tools.cli.options import config_option, json_option, wants_json, workspace_option
from tools.cli.output import escaped, give, note
from tools.cli.placing import check_place, put_in_place

if TYPE_CHECKING:
    from datetime import tzinfo

    from tools.conversation.exchange.standing import StandingMemory

JSONL: Final = "jsonl"
MARKDOWN: Final = "markdown"
_STDOUT: Final = Path("-")


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "--format", "form", type=click.Choice([JSONL, MARKDOWN]), default=JSONL, show_default=True,
    help="jsonl is what `engram import jsonl` reads; markdown is for people.",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@click.option("--skip-lost", is_flag=True, help="Go on without what is lost; it is counted.")
@config_option
@json_option
@workspace_option
def command(file: Path, *, form: str, force: bool, skip_lost: bool) -> None:
    """Write your messages, tags and profile to FILE, in clear text that only you can read; - is stdout.

    What was erased is not in it.
    """
    if file == _STDOUT and wants_json():
        raise click.UsageError("--json tells of a file; with - the export itself is printed")
    if file != _STDOUT:
        check_place(file, force=force)
    with opened_conversation(readonly=True) as (engine, call):
        from tools.conversation.exchange.standing import standing_memory

        conversation = call.binding.conversation
        with standing_memory(engine, conversation) as memory:
            _check_lost(memory, skip_lost=skip_lost)
            with _destination(file, form, force=force) as write, progress.bar("exporting") as told:
                total = memory.count()
                for piece in _pieces(memory, form, call.now, conversation.zone):
                    write(piece)
                    told(memory.read, max(total, memory.read))
                _check_lost(memory, skip_lost=skip_lost)
            value = {"file": str(file), "format": form, "messages": memory.read, "lost": memory.lost}
    if memory.lost:
        note(f"warning: {_lost(memory.lost)} and not in the export")
    if file == _STDOUT:
        note(counted(memory.read, "messages"))
    else:
        give(value, lambda: f"{counted(memory.read, 'messages')} in {terminal.one_line(str(file))}")


def _check_lost(memory: StandingMemory, *, skip_lost: bool) -> None:
    if memory.lost and not skip_lost:
        raise Refused(f"{_lost(memory.lost)}: engram audit names them; --skip-lost exports the rest")


def _lost(number: int) -> str:
    return counted(number, "messages, revisions or tags are lost", "message, revision or tag is lost")


def _pieces(memory: StandingMemory, form: str, now: int, zone: tzinfo | None) -> Iterator[bytes]:
    """Yield the export, in UTF-8."""
    if form == JSONL:
        from tools.conversation.exchange.export_jsonl import jsonl_export

        return jsonl_export(memory, now)
    from tools.conversation.exchange.export_markdown import markdown_export

    return (piece.encode() for piece in markdown_export(memory, now, zone))


@contextmanager
def _destination(file: Path, form: str, *, force: bool) -> Iterator[Callable[[bytes], Any]]:
    """Yield what writes a piece. What goes to a terminal cannot command it; a file and a pipe get it as it is."""
    if file != _STDOUT:
        with put_in_place(file, force=force) as placed:
            yield placed.write
        return
    out = sys.stdout.buffer
    if not sys.stdout.isatty():
        yield out.write
        out.flush()
        return
    yield lambda piece: out.write(_made_safe(piece.decode(), form).encode())
    out.flush()


def _made_safe(piece: str, form: str) -> str:
    return escaped(piece) if form == JSONL else terminal.lines(piece)
