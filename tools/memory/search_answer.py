"""The answer of a search: a page of ranked records under its byte budget, with the receipt of its ranking.

It is a function of what was asked, the authority, the ranking and the journal alone. So the same code answers a call
and derives an answer of the past again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from journal.canonical import canonical_bytes
from journal.clock import instant
from journal.digests import DIGEST_PREFIX, digest, receipt_digest, sealed_receipt
from journal.errors import ProjectionOversized, ResultTooLarge
from journal.identity import answer_seal
from projections import fusion
from projections.lexical import profile
from projections.lexical.projection import LexicalProjection
from tools.memory.page_cursor import PageCursors, PagePosition
from tools.memory.reading import readable_record, revalidation_receipt_digest
from tools.memory.records import redacted

if TYPE_CHECKING:
    from tools.memory.arguments import SearchArguments
    from tools.memory.call import Call
    from tools.memory.engine import Engine


SOME_BY_WORDS_ALONE: Final = "-some-by-words-alone"
"""Ends the name of the formula where some readable records have no embedding and never will by themselves."""


class Moved(Exception):
    """A ranked record ceased to be readable before it was materialised: rank again over the newer state."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A search as it was asked, and the authority under which it is answered."""

    arguments: SearchArguments
    request_digest: str
    authorization: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Profile:
    """What a ranking was made by, as its receipt names it."""

    name: str
    version: str
    config_digest: str
    scoring_formula_ref: str


BY_WORDS = Profile(
    profile.PROFILE_NAME, str(profile.PROFILE_VERSION), profile.profile_config_digest(), profile.SCORING_FORMULA_REF
)


def by_meaning(model_digest: bytes, alone: Sequence[str] = ()) -> Profile:
    """Return the profile of words and meaning, with this model.

    ``alone`` are readable records that take part by words alone, for the model refused them: the formula's name says
    that there are some, and the configuration's digest which.
    """
    formula, config_digest = fusion.SCORING_FORMULA_REF, fusion.profile_config_digest(model_digest)
    if alone:
        config = {"profile_config_digest": config_digest, "by_words_alone": sorted(alone)}
        formula, config_digest = formula + SOME_BY_WORDS_ALONE, receipt_digest("rank-profile", config)
    return Profile(fusion.PROFILE_NAME, str(fusion.PROFILE_VERSION), config_digest, formula)


def profile_told(receipt: Mapping[str, Any]) -> Profile:
    """Return the profile that a receipt names, whether or not it is one of ours: what a page cursor is bound to."""
    if receipt.get("profile") != fusion.PROFILE_NAME:
        return BY_WORDS
    names = ("profile", "profile_version", "profile_config_digest", "scoring_formula_ref")
    return Profile(*(str(receipt.get(name)) for name in names))


@dataclass(frozen=True, slots=True)
class Ranking:
    """A ranking of the scope's readable records at one snapshot."""

    cursor: int
    head_hash: bytes
    versions: list[tuple[str, int]]  # of the projections that ranked
    ordered: list[
        tuple[int, int]
    ]  # (capture cursor, score in millionths), best first: the window, and what a page needs
    candidate_count: int  # of the rescored window
    candidate_ids_digest: str
    page: PagePosition  # of this page: where it begins, and the first page's cursor and instant
    profile: Profile = BY_WORDS


def page_cursors(engine: Engine, call: Call, arguments: SearchArguments, profile: Profile) -> PageCursors:
    """Return what makes and reads the page cursors of a search; by meaning those of one model are no other's."""
    policy: list[str] = [arguments.capability_policy.minimum_channels, arguments.capability_policy.network]
    policy += [] if profile is BY_WORDS else [profile.config_digest]
    key = engine.journal.projection_key(call.scope, LexicalProjection.name, LexicalProjection.version)
    return PageCursors(
        key, query=arguments.query, purpose_ref=arguments.purpose_ref, policy=policy, principal=call.binding.principal
    )


def request_digest(raw: dict[str, Any]) -> str:
    """Return the digest of a search's arguments, as they were sent."""
    return digest(b"graphify-memory/request/v1\0", raw)


def candidate_ids_digest(record_ids: list[str]) -> str:
    """Return the digest of the records of the rescored window, whatever their order."""
    return digest(b"graphify-memory/candidate-ids/v1\0", sorted(record_ids))


def ordered_ids_digest(record_ids: list[str]) -> str:
    """Return the digest of the records of a page, in their order."""
    return digest(b"graphify-memory/ordered-ids/v1\0", record_ids)


def projection_receipts(
    scope_ref: str, cursor: int, head_hash: bytes, versions: list[tuple[str, int]]
) -> list[dict[str, Any]]:
    """Return what each projection showed: a head, under a version."""
    return [
        {"projection": name, "version": version, "scope_ref": scope_ref, **_head(cursor, head_hash)}
        for name, version in versions
    ]


def snapshot_digest(scope_ref: str, cursor: int, head_hash: bytes, versions: list[tuple[str, int]]) -> str:
    """Return the digest of what a search saw: the journal's head, and the projections that showed it."""
    projections = projection_receipts(scope_ref, cursor, head_hash, versions)
    return digest(b"graphify-memory/snapshot/v1\0", {**_head(cursor, head_hash), "projections": projections})


def _head(cursor: int, head_hash: bytes) -> dict[str, str]:
    return {"head_cursor": str(cursor), "head_hash": head_hash.hex()}


class SearchAnswer:
    """Builds a page under its byte budget."""

    def __init__(self, engine: Engine, call: Call, asked: Asked, ranking: Ranking, revalidated: dict[str, Any]) -> None:
        self._engine = engine
        self._call = call
        self._asked = asked
        self._ranking = ranking
        self._revalidated = revalidated
        self._cursors = page_cursors(engine, call, asked.arguments, ranking.profile)

    def value(self) -> dict[str, Any]:
        """Return the page's value: it ends before a record that does not fit.

        Raises:
            ResultTooLarge, ProjectionOversized: the budget does not hold the receipts, or not the next record.
            Moved: a ranked record can no longer be read.
        """
        arguments, ordered = self._asked.arguments, self._ranking.ordered
        begin = self._ranking.page.position
        budget = min(arguments.max_packet_bytes, self._call.binding.packet_cap_bytes)
        found = ordered[begin : begin + arguments.limit]
        empty = len(canonical_bytes(self.of([], more=False)))
        if empty > budget:
            raise ResultTooLarge("the receipts alone are over the budget")
        # Nothing but the records' own bytes, the commas between them and the cursor's field changes the size: every
        # receipt is digests of a fixed length.
        cursor_bytes = len(canonical_bytes(self.of([], more=True))) - empty
        packets: list[dict[str, Any]] = []
        size_bytes = empty
        for packet in self._packets(begin, found):
            size_bytes += len(canonical_bytes(packet)) + bool(packets)
            more = begin + len(packets) + 1 < len(ordered)
            if size_bytes + cursor_bytes * more > budget:
                break
            packets.append(packet)
        if found and not packets:
            raise ProjectionOversized("the next record alone is over the budget")
        return self.of(packets, more=begin + len(packets) < len(ordered))

    def _packets(self, begin: int, found: list[tuple[int, int]]) -> Iterator[dict[str, Any]]:
        journal, call = self._engine.journal, self._call
        for offset, (cursor, score) in enumerate(found):
            with journal.store.view(call.scope) as view:
                event = view.event(cursor)
                candidate_id = None if event is None else event.header.subject
                record = readable_record(journal, view, candidate_id, call, self._asked.arguments.purpose_ref)
            if record is None:
                raise Moved
            yield {**redacted(record), "score": score, "rank": begin + offset + 1}

    def of(self, packets: list[dict[str, Any]], *, more: bool) -> dict[str, Any]:
        """Return the value of a page of these packets; ``more``: another page follows."""
        value: dict[str, Any] = {"records": packets, "rank_receipt": self._rank_receipt(packets, more=more)}
        if more:
            page = self._ranking.page
            position = page.position + len(packets)
            value["next_page_cursor"] = self._cursors.encode(
                PagePosition(position, page.first_cursor, page.first_instant)
            )
        return {**value, "response_digest": receipt_digest("search-response", value)}

    def _seal(self, packets: list[dict[str, Any]], *, more: bool) -> str:
        key = self._engine.journal.keyring.identity_key(self._call.scope)
        ranking = self._ranking
        return answer_seal(key, [packets, ranking.candidate_count, ranking.candidate_ids_digest, more])

    def _rank_receipt(self, packets: list[dict[str, Any]], *, more: bool) -> dict[str, Any]:
        ranking, call, asked = self._ranking, self._call, self._asked
        head = (call.scope.ref, ranking.cursor, ranking.head_hash, ranking.versions)
        seen = snapshot_digest(*head)
        return sealed_receipt(
            "rank",
            {
                "request_digest": asked.request_digest,
                "authorization_receipt_digest": asked.authorization["receipt_digest"],
                "profile": ranking.profile.name,
                "profile_version": ranking.profile.version,
                "profile_config_digest": ranking.profile.config_digest,
                "valid_as_of": instant(call.now),
                "system_as_of": str(ranking.cursor),
                # Not by the scope's tag: that is its scope_ref, which no agent sees.
                "snapshot_id": f"snapshot:{ranking.cursor}:{seen.removeprefix(DIGEST_PREFIX)[:32]}",
                "snapshot_digest": seen,
                "candidate_count": ranking.candidate_count,
                "candidate_ids_digest": ranking.candidate_ids_digest,
                "scoring_formula_ref": ranking.profile.scoring_formula_ref,
                "ordered_ids_digest": ordered_ids_digest([packet["record"]["record_id"] for packet in packets]),
                "revalidation_receipt_digest": revalidation_receipt_digest(
                    asked.authorization, self._revalidated, call, ranking.cursor, self._seal(packets, more=more)
                ),
                "projection_receipt_digests": [
                    receipt_digest("projection", receipt) for receipt in projection_receipts(*head)
                ],
                "issued_at": instant(call.now),
            },
        )
