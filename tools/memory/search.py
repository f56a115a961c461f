"""engram_memory_search: the records that a query finds, page by page, with the receipt of their ranking."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from journal import limits
from journal.errors import BlobMissing, ProjectionStale, RankingUnavailable, StalePage
from projections.fusion import WORDS_DOCUMENTS
from projections.lexical.documents import record_document
from projections.lexical.phrases import Phrases, Worded, worded
from projections.lexical.question import Question
from projections.serving import RECORDS
from tools.host.capabilities import SEARCH
from tools.memory.arguments import SearchArguments, search_arguments
from tools.memory.by_meaning import NotEmbedded
from tools.memory.page_cursor import PagePosition
from tools.memory.reading import authorize_read, revalidate_read
from tools.memory.search_answer import (
    BY_WORDS,
    Asked,
    Moved,
    Profile,
    Ranking,
    SearchAnswer,
    by_meaning,
    candidate_ids_digest,
    page_cursors,
    request_digest,
)
from tools.memory.semantic import Meant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from projections.lexical.maxscore import Eligible
    from projections.snapshot import Snapshot
    from tools.memory.call import Call
    from tools.memory.engine import Engine
    from tools.memory.query_embedding import QueryVector
    from tools.memory.semantic import Semantic

_ATTEMPTS = 4


def search(engine: Engine, call: Call, raw: dict[str, Any]) -> dict[str, Any]:
    """Return the tool's value.

    Raises:
        InvalidSchema: the arguments do not fit. UntrustedContext: the purpose is not bound.
        RankingUnavailable: a semantic channel is required. StalePage: the cursor is not ours, or the searchable set
        changed.
        ProjectionOversized, ResultTooLarge: the budget does not hold the next record, or not even the receipts.
        BlobMissing: a record of the scope is lost, so that no ranking could be whole.
        ProjectionStale: the projections could not be brought to the head before the deadline.
    """
    asked = asked_of(engine, call, raw)
    if not is_semantic(asked.arguments):
        return _found(engine, call, asked, None)
    with channel_of(engine).asking(asked.arguments.query, call.refuse_late) as vector:
        return _found(engine, call, asked, vector)


def _found(engine: Engine, call: Call, asked: Asked, vector: QueryVector | None) -> dict[str, Any]:
    until = min(call.deadline, time.monotonic() + limits.SEMANTIC_INLINE_SECONDS)
    for _ in range(_ATTEMPTS):
        call.refuse_cancelled()
        try:
            ranking = _rank(engine, call, asked.arguments, vector)
        except NotEmbedded:
            channel_of(engine).catch_up(engine.projections(call.scope), until)
            continue
        revalidated = revalidate_read(engine, call, asked.authorization)
        try:
            return SearchAnswer(engine, call, asked, ranking, revalidated).value()
        except Moved:
            continue
    if vector is not None:
        raise RankingUnavailable("not every record is embedded yet")
    raise ProjectionStale("the records changed faster than they could be read")


def asked_of(engine: Engine, call: Call, raw: dict[str, Any]) -> Asked:
    """Return what is asked, authorized.

    Raises:
        InvalidSchema, UntrustedContext, RankingUnavailable: as ``search``. Unauthorized: it is not granted.
    """
    arguments = search_arguments(raw)
    call.binding.require_purpose(arguments.purpose_ref)
    asked = request_digest(raw)
    authorization = authorize_read(engine, call, SEARCH, asked)
    if is_semantic(arguments):
        channel_of(engine).admit(arguments.capability_policy.network)
    return Asked(arguments, asked, authorization)


def is_semantic(arguments: SearchArguments) -> bool:
    """Whether a search asks for meaning too."""
    return arguments.capability_policy.minimum_channels != "lexical"


def channel_of(engine: Engine) -> Semantic:
    """Return the semantic channel.

    Raises:
        RankingUnavailable: the host names no provider.
    """
    if engine.semantic is None:
        raise RankingUnavailable("no semantic channel is configured")
    return engine.semantic


def page_of(engine: Engine, call: Call, arguments: SearchArguments, head: int, profile: Profile) -> PagePosition:
    """Return where the page begins that is asked for at a head; whether it is stale is not looked at.

    Raises:
        StalePage: the cursor is not ours, or another search's.
    """
    if arguments.page_cursor is UNSET:
        return PagePosition(0, head, call.now)
    return page_cursors(engine, call, arguments, profile).decode(arguments.page_cursor)


def _rank(engine: Engine, call: Call, arguments: SearchArguments, vector: QueryVector | None) -> Ranking:
    """Return the ranking at the journal's head: eligible records only, never cut before they are ranked."""
    purposes = call.binding.readable(arguments.purpose_ref)
    with engine.projections(call.scope).snapshot(call.deadline, RECORDS) as snapshot:
        current = snapshot.current
        if current.lost:  # what cannot be ranked must not look as if it were not there
            raise BlobMissing(f"{current.lost} records are lost: engram audit names them, and forgetting them mends it")

        def eligible(cursors: Any) -> Any:
            return current.eligible(cursors, call.now, purposes)

        question, profile, by_both = Question.of(arguments.query), BY_WORDS, None
        if vector is not None:
            channel, projections = channel_of(engine), engine.projections(call.scope)
            by_both = channel.of_records(projections, snapshot, Meant(question, vector), eligible)
            profile = by_meaning(channel.provider.digest, current.record_ids(by_both.alone))
        page = page_of(engine, call, arguments, snapshot.cursor, profile)
        if arguments.page_cursor is not UNSET and current.set_changed(page.first_cursor, page.first_instant, call.now):
            raise StalePage("the searchable set changed since the first page")
        need = page.position + arguments.limit + 1
        reach = need if by_both is None else max(need, WORDS_DOCUMENTS)
        found = by_words(engine, call, snapshot, question, reach, eligible)
        hits, window = found.hits, found.window
        if by_both is not None:
            fused = by_both.ranked(found.hits, eligible, found.holding)
            hits, window = fused.hits, list(fused.window)
        candidates = current.record_ids(window)
        return Ranking(
            snapshot.cursor, snapshot.head_hash, versions_of(snapshot), hits, len(candidates),
            candidate_ids_digest(candidates), page, profile,
        )  # fmt: skip


def by_words(
    engine: Engine, call: Call, snapshot: Snapshot, question: Question, limit: int, eligible: Eligible
) -> Worded:
    """Return what words find among eligible records; what holds the phrases asked for comes first."""
    lexical, holding = snapshot.lexical, None
    if question.phrases:
        possible = lexical.with_words_of(question.phrases)
        phrases = Phrases(question.phrases, possible, partial(_texts, engine, call))

        def wanted(cursors: Any) -> Any:
            passes = eligible(cursors)
            passes[passes] = phrases(cursors[passes])
            return passes

        holding = lexical.search(question, limit, wanted, eligible)
    return worded(lexical.search(question, limit, eligible), holding)


def _texts(engine: Engine, call: Call, cursor: int) -> Iterator[str]:
    """Give the texts of a record in which a phrase may stand."""
    call.refuse_late()
    payload = engine.journal.payload(call.scope, cursor)
    return iter(()) if payload is None else (text for _, text in record_document(payload).fields)


def versions_of(snapshot: Snapshot) -> list[tuple[str, int]]:
    """Return the projections of a snapshot with their versions, by name."""
    return [(name, snapshot.version(name)) for name in sorted(snapshot.names)]
