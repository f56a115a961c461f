"""engram replay: reading the past, as events or as answers of then."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from journal.clock import instant, parse_instant
from journal.errors import NotFound
from journal.limits import CURSOR_MAX
from tools.cli import terminal
from tools.cli.failures import CannotRun, Refused
from tools.cli.opening import Bound, bound, reading
from tools.cli.options import config_option, json_option, wants_json, workspace_option
from tools.cli.output import as_json, give
from tools.cli.shortids import RECORD, whole

if TYPE_CHECKING:
    from journal.log import Journal
    from journal.scope import Scope
    from journal.store.port import Committed

_CURSOR = re.compile(r"0|[1-9][0-9]{0,19}", re.ASCII)


class _Cursor(click.ParamType[int]):
    """A canonical decimal cursor."""

    name = "cursor"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the cursor's number."""
        text = str(value)
        if not _CURSOR.fullmatch(text) or int(text) > CURSOR_MAX:
            self.fail("a cursor is a whole number, as an event or a receipt gives it", param, ctx)
        return int(text)


class _Instant(click.ParamType[int]):
    """An instant, canonical or as a person writes it."""

    name = "instant"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return epoch milliseconds; without a zone the machine's own is meant."""
        text = str(value)
        try:
            return parse_instant(text)
        except ValueError:
            pass
        try:
            moment = datetime.fromisoformat(text if len(text) > len("YYYY-MM-DD") else "")  # a date alone is no instant
            return int(moment.astimezone().timestamp() * 1000)
        except (ValueError, OverflowError, OSError):
            self.fail('an instant has a date and a time, as "2026-11-29 14:00" or 2026-11-29T05:00:00.000Z', param, ctx)


@click.command()
@click.option("--to", "to_cursor", metavar="CURSOR", type=_Cursor(), help="As it stood after the event at this cursor.")
@click.option("--as-of", "as_of", metavar="INSTANT", type=_Instant(), help="As it stood at this instant.")
@click.option("--query", metavar="Q", help="What a search would have found.")
@click.option("--messages", is_flag=True, help="With --query: search the conversations.")
@click.option("--record", metavar="ID", help="What a get would have answered.")
@click.option(
    "--receipt",
    "receipts",
    metavar="FILE",
    multiple=True,
    type=click.Path(path_type=Path, exists=True),
    help="Derive an answer again, kept as {tool, request, answer}: a file, a .jsonl file of many, or a directory.",
)
@click.option("--events", is_flag=True, help="The events themselves; this is also the default.")
@click.option("--purpose", metavar="REF", help="The purpose to ask for; else the host file's first.")
@config_option
@json_option
@workspace_option
def command(
    *,
    to_cursor: int | None,
    as_of: int | None,
    query: str | None,
    messages: bool,
    record: str | None,
    receipts: tuple[Path, ...],
    events: bool,
    purpose: str | None,
) -> None:
    """Read the past: its events, or what a search or get would have answered then; or derive kept answers again."""
    if sum([query is not None, record is not None, bool(receipts), events]) > 1:
        raise click.UsageError("give one of --query, --record, --receipt, --events")
    if to_cursor is not None and as_of is not None:
        raise click.UsageError("give one of --to, --as-of")
    if receipts and (to_cursor is not None or as_of is not None):
        raise click.UsageError("an answer names its own cursor and instant: leave out --to and --as-of")
    if messages and query is None:
        raise click.UsageError("--messages goes with --query")
    if purpose is not None and (messages or (query is None and record is None)):
        raise click.UsageError("--purpose goes with --query or --record, and not with --messages")
    command_bound = bound()
    if receipts:
        click.get_current_context().exit(_check_receipts(command_bound, receipts))
    scope = command_bound.binding.conversation.scope if messages else command_bound.scope
    with reading(command_bound.host_file) as journal:
        cursor = _cursor(journal, scope, to_cursor, as_of)
        if query is None and record is None:
            _print_events(journal, scope, cursor)
        else:
            now = _now(journal, scope, cursor, to_cursor, as_of)
            _ask(journal, command_bound, cursor, now, query=query, record=record, purpose=purpose, messages=messages)


def _check_receipts(command_bound: Bound, paths: tuple[Path, ...]) -> int:
    """Derive kept answers again, say what came of it, and return the exit code."""
    from tools.cli import progress
    from tools.cli.receipts import as_document, checked, exit_code, told
    from tools.memory.semantic import channel

    with reading(command_bound.host_file) as journal, progress.bar("receipts") as report_progress:
        semantic = channel(journal, command_bound.host_file.semantic)
        results = checked(journal, command_bound.binding, paths, report_progress, semantic)
    give(as_document(results), lambda: "\n".join(told(results)))
    return exit_code(results)


def _cursor(journal: Journal, scope: Scope, to_cursor: int | None, as_of: int | None) -> int:
    from replay.events import cursor_at

    head = journal.store.head(scope).cursor
    if to_cursor is not None and to_cursor > head:
        raise CannotRun(f"the journal does not reach so far: its head is at cursor {head}")
    if as_of is not None:
        return cursor_at(journal.store, scope, as_of)
    return head if to_cursor is None else to_cursor


def _now(journal: Journal, scope: Scope, cursor: int, to_cursor: int | None, as_of: int | None) -> int:
    """Return the instant of the read: the one asked for, else that of the event at the cursor, else now."""
    if as_of is not None:
        return as_of
    if to_cursor is None:
        return journal.clock.now()
    with journal.store.view(scope) as view:
        event = view.event(cursor)
    return 0 if event is None else event.header.recorded_at


# --- events -----------------------------------------------------------------------------------------


def _print_events(journal: Journal, scope: Scope, cursor: int) -> None:
    """Print events page by page: a journal may be longer than the memory."""
    from replay.events import described, pages

    if not wants_json():
        for page in pages(journal.store, scope, to=cursor):
            click.echo("\n".join(map(_line, page)))
        return
    begun = False
    for page in pages(journal.store, scope, to=cursor):
        body = ",\n".join(as_json(described(event)) for event in page)
        click.echo(f"{',' if begun else '['}\n{body}", nl=False)
        begun = True
    click.echo("\n]" if begun else "[]")


def _line(event: Committed) -> str:
    from replay.events import states_of

    header = event.header
    _, to_state = states_of(header)
    words = [
        f"{header.cursor:>8}",
        terminal.local_time(instant(header.recorded_at)),
        header.kind.label,
        *([header.subject] if header.subject is not None else []),
        *([f"-> {to_state}"] if to_state is not None else []),
        *([header.record_id] if header.record_id is not None else []),
        *([f"about {header.related}"] if header.related is not None else []),
        f"by {header.actor.principal}",
    ]
    return terminal.row(words)


# --- answers of then --------------------------------------------------------------------------------


def _ask(
    journal: Journal, command_bound: Bound, cursor: int, now: int, *, query: str | None, record: str | None,
    purpose: str | None, messages: bool,
) -> None:  # fmt: skip
    from tools.cli.past import opened_past

    binding = command_bound.binding
    purpose_ref = purpose if purpose is not None else binding.purpose_refs[0]
    with opened_past(journal, binding, command_bound.operator, cursor, now, messages=messages) as past:
        if query is not None and messages:
            value = past.search_messages(query)
            give(value, lambda: "\n".join(_told_messages(value)))
            return
        if query is not None:
            value = past.search(query, purpose_ref)
            give(value, lambda: "\n".join(_told_search(value)))
            return
        assert record is not None
        with journal.store.view(command_bound.scope) as view:
            record = whole(view, record, RECORD)
        try:
            value = past.get(record, purpose_ref)
        except NotFound:
            if record in past.erased_since():
                raise Refused("that record was there then; its content has been erased since") from None
            raise
        give(value, lambda: "\n".join(_told_get(value)))


def _told_search(value: dict[str, Any]) -> Iterator[str]:
    yield _as_of(value)
    for packet in value["records"]:
        yield f"{packet['rank']:>3}. {_first_words(packet['record'])}"
        yield terminal.one_line(f"     {packet['record']['record_id']}, score {packet['score'] / 1e6:.3f}")
    if not value["records"]:
        yield "Nothing was to be found."
    yield from _told_erased(value)


def _told_messages(value: dict[str, Any]) -> Iterator[str]:
    yield _as_of(value)
    for result in value["results"]:
        said = f"{terminal.local_time(result['created_at'])}  {result['agent_platform']} {result['role']}"
        yield terminal.one_line(f"{said}: {result['message']}")
        yield terminal.one_line(f"     {result['id']}")
    if not value["results"]:
        yield "Nothing was to be found."
    yield from _told_erased(value)


def _told_get(value: dict[str, Any]) -> Iterator[str]:
    yield _as_of(value)
    yield terminal.lines(json.dumps(value["record"], ensure_ascii=False, indent=2))
    yield from _told_erased(value)


def _as_of(value: dict[str, Any]) -> str:
    return f"as of cursor {value['system_as_of']}, {terminal.local_time(value['valid_as_of'])}"


def _told_erased(value: dict[str, Any]) -> Iterator[str]:
    if value["erased_since"]:
        yield "Erased since, and so left out:"
        yield from (f"  {terminal.one_line(record_id)}" for record_id in value["erased_since"])


def _first_words(record: dict[str, Any]) -> str:
    from tools.cli.subjects import excerpt

    return excerpt({"payload": record})
