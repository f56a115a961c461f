"""engram_memory_search: the records that a query finds, page by page, with the receipt of their ranking."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from journal import limits
from journal.canonical import canonical_bytes
from journal.clock import instant
from journal.digests import DIGEST_PREFIX, digest, receipt_digest, sealed_receipt
from journal.errors import (
    BlobMissing,
    ProjectionOversized,
    ProjectionStale,
    RankingUnavailable,
    ResultTooLarge,
    StalePage,
)
from projections.lexical import profile
from projections.lexical.projection import LexicalProjection
from projections.lexical.tokens import query_terms
from projections.serving import RECORDS
from tools.host.capabilities import SEARCH
from tools.host.grants import authorize, revalidate
from tools.memory.arguments import SearchArguments, search_arguments
from tools.memory.page_cursor import PageCursors, PagePosition
from tools.memory.reading import readable_record, revalidation_receipt_digest
from tools.memory.records import redacted

if TYPE_CHECKING:
    from projections.snapshot import Snapshot
    from tools.memory.call import Call
    from tools.memory.engine import Engine

_ATTEMPTS = 4


class _Moved(Exception):
    """A ranked record ceased to be readable before it was materialised: rank again over the newer state."""


@dataclass(frozen=True, slots=True)
class _Ranking:
    """A ranking of the scope's readable records at one snapshot."""

    cursor: int
    head_hash: bytes
    versions: list[tuple[str, int]]  # of the projections that ranked
    ordered: list[
        tuple[int, int]
    ]  # (capture cursor, score in millionths), best first: the window, and what a page needs
    window: list[str]  # the record ids of the rescored window, best first
    page: PagePosition  # of this page: where it begins, and the first page's cursor and instant


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
    arguments = search_arguments(raw)
    call.binding.require_purpose(arguments.purpose_ref)
    request_digest = digest(b"graphify-memory/request/v1\0", raw)
    authorization = authorize(
        call.binding, SEARCH, request_digest, call.now, randomness=engine.randomness, epoch=engine.epoch
    )
    if arguments.capability_policy.minimum_channels != "lexical":
        raise RankingUnavailable("no semantic channel is configured")
    for _ in range(_ATTEMPTS):
        call.refuse_cancelled()
        ranking = _rank(engine, call, arguments)
        revalidated = revalidate(authorization, engine.clock.now(), engine.epoch(call.scope))
        try:
            return _Answer(engine, call, arguments, ranking, request_digest, authorization, revalidated).value()
        except _Moved:
            continue
    raise ProjectionStale("the records changed faster than they could be read")


def _cursors(engine: Engine, call: Call, arguments: SearchArguments) -> PageCursors:
    policy = [arguments.capability_policy.minimum_channels, arguments.capability_policy.network]
    key = engine.journal.projection_key(call.scope, LexicalProjection.name, LexicalProjection.version)
    return PageCursors(
        key, query=arguments.query, purpose_ref=arguments.purpose_ref, policy=policy, principal=call.binding.principal
    )


def _rank(engine: Engine, call: Call, arguments: SearchArguments) -> _Ranking:
    """Return the ranking at the journal's head: eligible records only, never cut before they are ranked."""
    purposes = call.binding.readable(arguments.purpose_ref)
    with engine.projections(call.scope).snapshot(call.deadline, RECORDS) as snapshot:
        current = snapshot.current
        if current.lost:  # what cannot be ranked must not look as if it were not there
            raise BlobMissing(f"{current.lost} records are lost: engram audit names them, and forgetting them mends it")
        page = _position(engine, call, arguments, snapshot)
        need = max(limits.WINDOW_RECORDS, page.position + arguments.limit + 1)
        ordered = snapshot.lexical.search(
            query_terms(arguments.query), need, lambda cursors: current.eligible(cursors, call.now, purposes)
        )
        versions = [(name, snapshot.version(name)) for name in sorted(snapshot.names)]
        window = current.record_ids(cursor for cursor, _ in ordered[: limits.WINDOW_RECORDS])
        return _Ranking(snapshot.cursor, snapshot.head_hash, versions, ordered, window, page)


def _position(engine: Engine, call: Call, arguments: SearchArguments, snapshot: Snapshot) -> PagePosition:
    """Return where the page begins.

    Raises:
        StalePage: an event or the clock changed the searchable set since the first page.
    """
    if arguments.page_cursor is UNSET:
        return PagePosition(0, snapshot.cursor, call.now)
    page = _cursors(engine, call, arguments).decode(arguments.page_cursor)
    if snapshot.current.set_changed(page.first_cursor, page.first_instant, call.now):
        raise StalePage("the searchable set changed since the first page")
    return page


class _Answer:
    """Builds a page under its byte budget."""

    def __init__(
        self, engine: Engine, call: Call, arguments: SearchArguments, ranking: _Ranking, request_digest: str,
        authorization: dict[str, Any], revalidated: dict[str, Any],
    ) -> None:  # fmt: skip
        self._engine = engine
        self._call = call
        self._arguments = arguments
        self._ranking = ranking
        self._request_digest = request_digest
        self._authorization = authorization
        self._revalidated = revalidated
        self._cursors = _cursors(engine, call, arguments)
        self._ids: dict[int, str] = {}

    def value(self) -> dict[str, Any]:
        """Return the page's value: it ends before a record that does not fit."""
        begin = self._ranking.page.position
        budget = min(self._arguments.max_packet_bytes, self._call.binding.packet_cap_bytes)
        window = self._ranking.window
        found = self._ranking.ordered[begin : begin + self._arguments.limit]
        empty = len(canonical_bytes(self._assembled([], window, more=False)))
        if empty > budget:
            raise ResultTooLarge("the receipts alone are over the budget")
        # Nothing but the records' own bytes, the commas between them and the cursor's field changes the size: every
        # receipt is digests of a fixed length.
        cursor_bytes = len(canonical_bytes(self._assembled([], window, more=True))) - empty
        packets: list[dict[str, Any]] = []
        size_bytes = empty
        for packet in self._packets(begin, found):
            size_bytes += len(canonical_bytes(packet)) + bool(packets)
            more = begin + len(packets) + 1 < len(self._ranking.ordered)
            if size_bytes + cursor_bytes * more > budget:
                break
            packets.append(packet)
        if found and not packets:
            raise ProjectionOversized("the next record alone is over the budget")
        return self._assembled(packets, window, more=begin + len(packets) < len(self._ranking.ordered))

    def _packets(self, begin: int, found: list[tuple[int, int]]) -> Iterator[dict[str, Any]]:
        journal, call = self._engine.journal, self._call
        for offset, (cursor, score) in enumerate(found):
            with journal.store.view(call.scope) as view:
                event = view.event(cursor)
                candidate_id = None if event is None else event.header.subject
                record = readable_record(journal, view, candidate_id, call, self._arguments.purpose_ref)
            if record is None:
                raise _Moved
            yield {**redacted(record), "score": score, "rank": begin + offset + 1}

    def _assembled(self, packets: list[dict[str, Any]], window: list[str], *, more: bool) -> dict[str, Any]:
        value: dict[str, Any] = {"records": packets, "rank_receipt": self._rank_receipt(packets, window)}
        if more:
            page = self._ranking.page
            position = page.position + len(packets)
            value["next_page_cursor"] = self._cursors.encode(
                PagePosition(position, page.first_cursor, page.first_instant)
            )
        return {**value, "response_digest": receipt_digest("search-response", value)}

    def _rank_receipt(self, packets: list[dict[str, Any]], window: list[str]) -> dict[str, Any]:
        ranking, call = self._ranking, self._call
        head = {"head_cursor": str(ranking.cursor), "head_hash": ranking.head_hash.hex()}
        projections = [
            {"projection": name, "version": version, "scope_ref": call.scope.ref, **head}
            for name, version in ranking.versions
        ]
        ordered = [packet["record"]["record_id"] for packet in packets]
        snapshot_digest = digest(b"graphify-memory/snapshot/v1\0", {**head, "projections": projections})
        return sealed_receipt(
            "rank",
            {
                "request_digest": self._request_digest,
                "authorization_receipt_digest": self._authorization["receipt_digest"],
                "profile": profile.PROFILE_NAME,
                "profile_version": str(profile.PROFILE_VERSION),
                "profile_config_digest": profile.profile_config_digest(),
                "valid_as_of": instant(call.now),
                "system_as_of": str(ranking.cursor),
                # Not by the scope's tag: that is its scope_ref, which no agent sees.
                "snapshot_id": f"snapshot:{ranking.cursor}:{snapshot_digest.removeprefix(DIGEST_PREFIX)[:32]}",
                "snapshot_digest": snapshot_digest,
                "candidate_count": len(window),
                "candidate_ids_digest": digest(b"graphify-memory/candidate-ids/v1\0", sorted(window)),
                "scoring_formula_ref": profile.SCORING_FORMULA_REF,
                "ordered_ids_digest": digest(b"graphify-memory/ordered-ids/v1\0", ordered),
                "revalidation_receipt_digest": revalidation_receipt_digest(
                    self._authorization, self._revalidated, call, ranking.cursor
                ),
                "projection_receipt_digests": [receipt_digest("projection", receipt) for receipt in projections],
                "issued_at": instant(call.now),
            },
        )
