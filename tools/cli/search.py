"""engram search: a person sees what agents see, records and messages, and why each was found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from journal import limits
from journal.errors import BlobMissing
from tools.cli import subjects, terminal
from tools.cli.conversing import opened_conversation
from tools.cli.narrowing import Narrowing, narrowing_options
from tools.cli.options import config_option, json_option, workspace_option
from tools.cli.output import give

if TYPE_CHECKING:
    from projections.lexical.explaining import Share
    from tools.memory.call import Call
    from tools.memory.engine import Engine

_MILLIONTHS = 1_000_000
WORDS = "words"
PART = "part of the text"


@click.command()
@click.argument("query", metavar="Q")
@click.option("--explain", is_flag=True, help="Say of each result what each word of the query adds to its score.")
@click.option("--records", "records_only", is_flag=True, help="Records alone.")
@click.option("--messages", "messages_only", is_flag=True, help="Messages alone.")
@click.option("--purpose", metavar="REF", help="The purpose to ask for records for; else the host file's first.")
@click.option(
    "--limit", metavar="N", type=click.IntRange(1, limits.SEARCH_LIMIT_MAX), default=limits.SEARCH_LIMIT_DEFAULT,
    show_default=True, help="How many of each.",
)  # fmt: skip
@narrowing_options
@config_option
@json_option
@workspace_option
def command(
    *, query: str, explain: bool, records_only: bool, messages_only: bool, purpose: str | None, limit: int,
    **narrowed: Any,
) -> None:  # fmt: skip
    """Search as agents do. What narrows messages leaves records alone."""
    if records_only and messages_only:
        raise click.UsageError("give one of --records, --messages")
    narrowing = Narrowing(**narrowed)
    value: dict[str, Any] = {}
    with opened_conversation(readonly=True) as (engine, call):
        if not messages_only:
            value["records"] = _records(engine, call, query, purpose, limit)
        if not records_only:
            value["messages"] = _messages(engine, call, {"query": query, "limit": limit, **narrowing.arguments()})
    if not explain:
        for one in [*value.get("records", []), *value.get("messages", {}).get("results", [])]:
            del one["explanation"]
    give(value, lambda: "\n".join(_told(value)))


# --- records ----------------------------------------------------------------------------------------


def _records(engine: Engine, call: Call, query: str, purpose: str | None, limit: int) -> list[dict[str, Any]]:
    """Return the records that engram_memory_search finds, best first.

    Raises:
        UntrustedContext: the host does not bind the purpose. BlobMissing: a record is lost.
    """
    from dataclasses import replace

    from projections.lexical.tokens import query_terms
    from projections.serving import RECORDS
    from tools.memory.reading import readable_record
    from tools.memory.records import redacted

    call = replace(call, binding=engine.binding)  # records lie in the host's own scope
    if purpose is None and not call.binding.purpose_refs:
        return []
    asked = purpose if purpose is not None else call.binding.purpose_refs[0]
    purposes, terms = call.binding.readable(asked), query_terms(query)
    found = []
    with engine.projections(call.scope).snapshot(call.deadline, RECORDS) as snapshot:
        current = snapshot.current
        if current.lost:
            raise BlobMissing(f"{current.lost} records are lost: engram audit names them, and forgetting them mends it")
        hits = snapshot.lexical.search(terms, limit, lambda cursors: current.eligible(cursors, call.now, purposes))
        for cursor, score in hits:
            with engine.journal.store.view(call.scope) as view:
                event = view.event(cursor)
                subject = None if event is None else event.header.subject
                record = readable_record(engine.journal, view, subject, call, asked)
            if record is not None:
                explanation = [_share(share) for share in snapshot.lexical.explain(terms, cursor)]
                found.append({"record": redacted(record)["record"], "score": score, "explanation": explanation})
    return found


# --- messages ---------------------------------------------------------------------------------------


def _messages(engine: Engine, call: Call, raw: dict[str, Any]) -> dict[str, Any]:
    """Return the value of search_memory, each result with how it was found.

    Raises:
        InvalidSchema: a range or a filter has no known form. BlobMissing: a message is lost.
    """
    from projections.lexical.tokens import query_terms
    from projections.serving import MESSAGES
    from tools.conversation.arguments import search_memory_arguments
    from tools.conversation.search_memory import days_of, find

    arguments = search_memory_arguments(raw)
    owners, terms = call.binding.conversation.user, query_terms(raw["query"])
    with engine.projections(call.scope).snapshot(call.deadline, MESSAGES) as snapshot:
        value = find(engine, call, snapshot, arguments, days_of(arguments, call))
        for result in value["results"]:
            row = snapshot.reader("timeline").find(owners, result["id"])
            shares = [] if row is None else snapshot.reader("messages").explain(owners, terms, row.cursor)
            result["found_by"] = WORDS if result["score"] else PART
            result["explanation"] = [_share(share) for share in shares] if result["score"] else []
    return value


def _share(share: Share) -> dict[str, Any]:
    return share._asdict()


# --- for a person -----------------------------------------------------------------------------------


def _told(value: dict[str, Any]) -> Iterator[str]:
    if "records" in value:
        records = [
            (each, subjects.primary_text(each["record"]), each["record"]["record_id"]) for each in value["records"]
        ]
        yield from _listed("records", records)
    if "messages" in value:
        if "records" in value:
            yield ""
        yield from _listed("messages", [(each, each["message"], each["id"]) for each in value["messages"]["results"]])
        if "note" in value["messages"]:
            yield terminal.one_line(value["messages"]["note"])


def _listed(kind: str, found: list[tuple[dict[str, Any], str, str]]) -> Iterator[str]:
    if not found:
        yield f"No {kind} found."
        return
    rows = [(_score(each), subjects.beginning(text), name) for each, text, name in found]
    if not any("explanation" in each for each, _, _ in found):
        yield terminal.table(("score", kind, "id"), rows)
        return
    for (each, _, _), row in zip(found, rows, strict=True):
        yield terminal.one_line("  ".join(row))
        if not each["explanation"]:
            yield f"  found as a {PART}"
        for share in each["explanation"]:
            yield terminal.one_line(
                f"  {share['term']}: {share['weight']:,} x {share['impact']} = {share['share']:,}"
                f" (in {share['containing']}; asked {share['times']} times)"
            )


def _score(found: dict[str, Any]) -> str:
    return f"{found['score'] / _MILLIONTHS:.3f}" if found["score"] else "part"
