"""engram search: a person sees what agents see, records and messages, and why each was found."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

import click

from journal import limits
from journal.errors import BlobMissing, ProjectionStale, RankingUnavailable
from tools.cli import subjects, terminal
from tools.cli.conversing import opened_conversation
from tools.cli.counting import counted
from tools.cli.narrowing import Narrowing, narrowing_options
from tools.cli.options import config_option, json_option, workspace_option
from tools.cli.output import give

if TYPE_CHECKING:
    from projections.lexical.documents import Document
    from projections.lexical.explaining import Explanation
    from projections.lexical.profile import Field
    from projections.snapshot import Snapshot
    from tools.memory.by_meaning import ByMeaning
    from tools.memory.call import Call
    from tools.memory.engine import Engine
    from tools.memory.semantic import Meant

_MILLIONTHS = 1_000_000
WORDS = "words"
MEANING = "meaning"
PART = "part of the text"
_NO_ANSWER = "engram: the provider of embeddings gave no vector, found by words alone (engram doctor)"
_NO_PHRASE = "engram: no record holds what is in quotes as it is written: found by its words"
_ALONE = "engram: records are found by words alone: not every embedding is there, or can be read (engram stats)"


@click.command()
@click.argument("query", metavar="Q")
@click.option("--explain", is_flag=True, help="Say of each result what each word of the query adds to its score.")
@click.option("--records", "records_only", is_flag=True, help="Records alone.")
@click.option("--messages", "messages_only", is_flag=True, help="Messages alone.")
@click.option("--purpose", metavar="REF", help="The purpose to ask for records for; else the host file's first.")
@click.option(
    "--words", "words_only", is_flag=True, help="By words alone, though the host has a provider of embeddings."
)
@click.option(
    "--limit", metavar="N", type=click.IntRange(1, limits.SEARCH_LIMIT_MAX), default=limits.SEARCH_LIMIT_DEFAULT,
    show_default=True, help="How many of each.",
)  # fmt: skip
@narrowing_options
@config_option
@json_option
@workspace_option
def command(
    *, query: str, explain: bool, records_only: bool, messages_only: bool, purpose: str | None, words_only: bool,
    limit: int, **narrowed: Any,
) -> None:  # fmt: skip
    """Search as agents do, by words and, where the host has a provider of embeddings, by meaning.

    What narrows messages leaves records alone.
    """
    from tools.conversation.arguments import search_memory_arguments

    if records_only and messages_only:
        raise click.UsageError("give one of --records, --messages")
    arguments = {"query": query, "limit": limit, **Narrowing(**narrowed).arguments()}
    search_memory_arguments(arguments)  # before a store is opened, or a provider asked
    value: dict[str, Any] = {}
    with opened_conversation(readonly=True) as (engine, call):
        meant = None if words_only or engine.semantic is None else engine.semantic.meant(query)
        if meant is None and engine.semantic is not None and not words_only:
            click.echo(f"{_NO_ANSWER}: {terminal.one_line(engine.semantic.unanswered)}", err=True)
        if not messages_only:
            value["records"] = _records(engine, call, query, meant, purpose, limit)
        if not records_only:
            value["messages"] = _messages(engine, call, arguments, meant)
    if not explain:
        for one in [*value.get("records", []), *value.get("messages", {}).get("results", [])]:
            del one["explanation"]
    give(value, lambda: "\n".join(_told(value)))


# --- records ----------------------------------------------------------------------------------------


def _records(
    engine: Engine, call: Call, query: str, meant: Meant | None, purpose: str | None, limit: int
) -> list[dict[str, Any]]:
    """Return the records that engram_memory_search finds, best first.

    Raises:
        UntrustedContext: the host does not bind the purpose. BlobMissing: a record is lost.
    """
    from dataclasses import replace

    from projections.fusion import WORDS_DOCUMENTS
    from projections.lexical.documents import record_document
    from projections.lexical.profile import RECORD_FIELDS
    from projections.lexical.question import Question
    from projections.serving import RECORDS
    from tools.memory.reading import readable_record
    from tools.memory.records import redacted
    from tools.memory.search import by_words

    call = replace(call, binding=engine.binding)  # records lie in the host's own scope
    if purpose is None and not call.binding.purpose_refs:
        return []
    asked = purpose if purpose is not None else call.binding.purpose_refs[0]
    purposes, question = call.binding.readable(asked), Question.of(query)
    found = []
    with engine.projections(call.scope).snapshot(call.deadline, RECORDS) as snapshot:
        current = snapshot.current
        if current.lost:
            raise BlobMissing(
                f"{counted(current.lost, 'records are lost', 'record is lost')}: engram audit names what is lost; "
                "keys/ from a backup that has it brings it back, and forgetting it leaves the rest whole"
            )

        def eligible(cursors: Any) -> Any:
            return current.eligible(cursors, call.now, purposes)

        by_word = by_words(engine, call, snapshot, question, WORDS_DOCUMENTS, eligible)
        if question.phrases and not by_word.holding:
            click.echo(_NO_PHRASE, err=True)
        words = by_word.hits[:WORDS_DOCUMENTS]
        by_both, hits = _by_both(engine, call, snapshot, meant, eligible, words, by_word.holding)
        said = dict(words)
        for cursor, score in hits[:limit]:
            with engine.journal.store.view(call.scope) as view:
                event = view.event(cursor)
                subject = None if event is None else event.header.subject
                record = readable_record(engine.journal, view, subject, call, asked)
            if record is not None:
                brought = by_word.by_words(cursor, said.get(cursor, 0))
                told = snapshot.lexical.explain(question, cursor, brought, eligible)
                told = told._replace(score=brought)  # what words find further down counts for nothing
                explanation = _explanation(told, RECORD_FIELDS, record_document(record))
                explanation["phrases"] = phrases = said.get(cursor, 0) - brought
                explanation["meaning"] = (
                    None if by_both is None else _meaning(by_both, cursor, score, holds=phrases > 0)
                )
                found.append({"record": redacted(record)["record"], "score": score, "explanation": explanation})
    return found


def _by_both(
    engine: Engine,
    call: Call,
    snapshot: Snapshot,
    meant: Meant | None,
    eligible: Any,
    words: list[tuple[int, int]],
    holding: Collection[int],
) -> tuple[ByMeaning | None, list[tuple[int, int]]]:
    """Return what ranks records by words and meaning, and its hits; None and the words' hits where it cannot."""
    from tools.memory.by_meaning import NotEmbedded

    if engine.semantic is None or meant is None:
        return None, words
    try:
        by_both = engine.semantic.of_records(engine.projections(call.scope), snapshot, meant, eligible)
        return by_both, by_both.ranked(words, eligible, holding).hits
    except (NotEmbedded, RankingUnavailable, ProjectionStale):
        click.echo(_ALONE, err=True)
        return None, words


# --- messages ---------------------------------------------------------------------------------------


def _messages(engine: Engine, call: Call, raw: dict[str, Any], meant: Meant | None) -> dict[str, Any]:
    """Return the value of search_memory, each result with how it was found.

    Raises:
        InvalidSchema: a range or a filter has no known form. BlobMissing: a message is lost.
    """
    from projections.lexical.question import Question
    from projections.messages.parts import message_document
    from projections.messages.profile import MESSAGE_FIELDS
    from projections.serving import MESSAGES
    from tools.conversation.arguments import search_memory_arguments
    from tools.conversation.search_memory import days_of, look, nothing_of_that_tag, tags_of
    from tools.conversation.utterances import read_message

    arguments = search_memory_arguments(raw)
    owners, question = call.binding.conversation.user, Question.of(raw["query"])
    with engine.projections(call.scope).snapshot(call.deadline, MESSAGES) as snapshot:
        page = look(engine, call, snapshot, arguments, days_of(arguments, call), meant)
        if page is None:
            return nothing_of_that_tag()
        by_both, messages = page.by_both, snapshot.reader("messages")
        for result, found in zip(page.results, page.found, strict=True):
            result["found_by"] = PART if found.is_part else WORDS if found.words else MEANING
            result["explanation"] = None
            if not found.is_part:
                with engine.journal.store.view(call.scope) as view:
                    said = read_message(engine.journal, view, result["id"]) or {}
                    row = page.timeline.at(found.cursor)
                    document = message_document(said, tags_of(engine, view, 0 if row is None else row.tags_cursor))
                by_words = messages.explain(owners, question, found.cursor, found.words)
                told = _explanation(by_words._replace(score=found.words), MESSAGE_FIELDS, document)
                told["phrases"], told["meaning"] = found.phrases, None
                if by_both is not None:
                    told["meaning"] = _meaning(by_both, found.cursor, result["score"], holds=found.phrases > 0)
                result["explanation"] = told
    return page.value()


def _explanation(told: Explanation, fields: tuple[Field, ...], document: Document) -> dict[str, Any]:
    """Return {terms, own, tenths, neighbours, priors, score}; with each term the thousandths of each field."""
    from projections.lexical.explaining import field_shares

    held = field_shares(fields, document, told.terms)
    return {
        "terms": [{**share._asdict(), "fields": held[share.term]} for share in told.terms],
        "own": told.own, "tenths": told.tenths,
        "neighbours": [one._asdict() for one in told.neighbours],
        "priors": [one._asdict() for one in told.priors],
        "score": told.score,
    }  # fmt: skip


def _meaning(by_both: ByMeaning, cursor: int, score: int, *, holds: bool) -> dict[str, Any]:
    """Return {similarity, neighbours, priors, meaning, weight_thousandths, share, words, base}.

    The result's score is the sum of the last three: meaning's share, that of the words, and the base. The similarity of
    what is not embedded is None, and counts as 0.
    """
    from projections.meant import channels

    told = by_both.explain(cursor)
    found = channels(score, told, holds=holds)
    embedded = by_both.embedded([cursor, *(one.cursor for one in told.neighbours)])
    return {
        **told._asdict(),
        "similarity": told.similarity if cursor in embedded else None,
        "neighbours": [
            {**one._asdict(), "similarity": one.similarity if one.cursor in embedded else None}
            for one in told.neighbours
        ],
        "priors": [one._asdict() for one in told.priors],
        "words": found.words, "base": found.base,
    }  # fmt: skip


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
        yield terminal.row(row)
        for line in _why(each["explanation"]):
            yield terminal.wrapped(terminal.one_line(line), 4)


def _why(told: dict[str, Any] | None) -> Iterator[str]:
    """Give a line a term, neighbour and prior; what they make of each other stands in the order of the lines."""
    if told is None:
        yield f"  found as a {PART}"
        return
    yield from _why_by_words(told)
    if told["meaning"] is not None:
        yield from _why_by_meaning(told["meaning"])


def _why_by_words(told: dict[str, Any]) -> Iterator[str]:
    for share in told["terms"]:
        where = ", ".join(f"{name} {thousandths / 10:.0f} %" for name, thousandths in share["fields"].items())
        yield (
            f"  {share['term']}: {share['weight']:,} x {share['impact']} = {share['share']:,}"
            f" (in {share['containing']}; asked {counted(share['times'], 'times')}{'; ' + where if where else ''})"
        )
    yield f"  own words: {told['own']:,} x {told['tenths']} = {told['own'] * told['tenths']:,}"
    for one in told["neighbours"]:
        yield f"  {_place(one)}: {one['own']:,} x {one['tenths']} = {one['share']:,}"
    yield from _priors(told)
    if told["phrases"]:
        both = told["score"] + told["phrases"]
        yield f"  holds what is in quotes: {told['score']:,} + {told['phrases']:,} = {both:,}"


def _why_by_meaning(told: dict[str, Any]) -> Iterator[str]:
    yield f"  meaning: {_similarity(told)}"
    for one in told["neighbours"]:
        yield f"  {_place(one)}: {_similarity(one)} x {one['hundredths'] / 100} of meaning"
    yield from _priors(told)
    yield (
        f"  words {told['words']:,} + base {told['base']:,} + meaning {told['meaning']:,}"
        f" x {told['weight_thousandths'] / 1000} = {told['words'] + told['base'] + told['share']:,}"
    )


def _similarity(told: dict[str, Any]) -> str:
    return "0, for it is not embedded yet" if told["similarity"] is None else f"{told['similarity']:,}"


def _place(one: dict[str, Any]) -> str:
    return f"{abs(one['distance'])} {'before' if one['distance'] < 0 else 'after'}, cursor {one['cursor']}"


def _priors(told: dict[str, Any]) -> Iterator[str]:
    for prior in told["priors"]:
        yield f"  {prior['name']}: x {prior['thousandths'] / 1000}"


def _score(found: dict[str, Any]) -> str:
    return f"{found['score'] / _MILLIONTHS:.3f}" if found["score"] else "part"
