"""Deriving answers again: the very tool is asked the same question over the past that the answer names.

The same journal, cursor, instant, request and profile give the same answer, byte for byte; what was granted counts as
the host file stands today. Where something that counted then is erased by now, the order cannot be derived, and what
can still be checked is (``tools.memory.order_check``).
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Self

from journal import layout, limits
from journal.canonical import canonical_bytes
from journal.clock import instant
from journal.errors import (
    EngramError,
    InvalidSchema,
    NotFound,
    ProjectionOversized,
    RankingUnavailable,
    ResultTooLarge,
    StalePage,
)
from projections import fusion
from projections.serving import RECORDS
from replay.receipts import AdvancingPast, counted_then
from tools.host.capabilities import SEARCH
from tools.host.exceptions import UntrustedContext
from tools.memory import get, search
from tools.memory.arguments import search_arguments
from tools.memory.call import Call
from tools.memory.order_check import OrderCheck
from tools.memory.past import PastEngine, everything_granted
from tools.memory.past_semantic import PastSemantic
from tools.memory.search_answer import BY_WORDS, SOME_BY_WORDS_ALONE, by_meaning, profile_told, snapshot_digest
from tools.memory.semantic import Semantic
from tools.memory.told import NoAnswer, Told, broken_digests, differing, told_of
from tools.server.envelope import failure, success

if TYPE_CHECKING:
    from journal.log import Journal
    from projections.current_reader import Row
    from projections.snapshot import Snapshot
    from tools.host.binding import Binding

_ANSWERABLE = (InvalidSchema, NotFound, ProjectionOversized, RankingUnavailable, ResultTooLarge, StalePage)
"""What a tool may answer by its arguments and the past alone; every other refusal says nothing of the answer."""

_OF_AUTHORITY = frozenset(
    {
        "answer.auditId",
        *(
            f"answer.output.value.{name}"
            for name in ("response_digest", "packet_digest", "next_page_cursor")
        ),
        *(
            f"answer.output.value.{receipt}.{name}"
            for receipt in ("rank_receipt", "read_receipt")
            for name in ("authorization_receipt_digest", "revalidation_receipt_digest", "receipt_digest")
        ),
    }
)  # fmt: skip
"""What differs where an answer was made for another principal or agent, and nothing else does."""


_CONFIG = "answer.output.value.rank_receipt.profile_config_digest"


class Verdict(Enum):
    """What came of an answer."""

    DERIVED = "derived"  # equal, byte for byte
    ORDER_UNDERIVABLE = "order_underivable"  # sound as far as what is erased lets it be looked at
    ALTERED = "altered"
    UNVERIFIABLE = "unverifiable"  # not of this scope, store, profile or authority, or no answer at all


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One answer's verdict."""

    verdict: Verdict
    tool: str | None = None
    cursor: int | None = None
    now: int | None = None
    differs: list[str] = field(default_factory=list)  # dotted places
    erased: list[str] = field(default_factory=list)  # record ids that counted then and are erased by now
    verified: int = 0  # records in the answer that were opened again and are what it shows
    reason: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the verdict as the command line prints it."""
        return {
            "verdict": self.verdict.value,
            "tool": self.tool,
            "system_as_of": None if self.cursor is None else str(self.cursor),
            "valid_as_of": None if self.now is None else instant(self.now),
            "differs": self.differs,
            "erased": self.erased,
            "verified": self.verified,
            "reason": self.reason,
        }


class ReceiptVerifier:
    """Derives answers of one scope again. Ask in the order of their cursors: the past is then gone through once."""

    def __init__(self, journal: Journal, binding: Binding, semantic: Semantic | None = None) -> None:
        """Take a journal, for reading or more, and whose answers they are: scope, principal, agent and purposes.

        ``semantic``: the channel by which answers are ranked that asked for meaning.
        """
        self._journal = journal
        self._semantic = None if semantic is None else PastSemantic(journal, semantic)
        self._binding = everything_granted(binding)
        self._past = AdvancingPast(journal, binding.scope, RECORDS, journal.path / layout.PROJECTIONS)

    def close(self) -> None:
        """Throw the past away."""
        self._past.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def verify_all(self, documents: Iterable[Any]) -> list[Checked]:
        """Return the verdicts of documents in the order in which they are given, whatever their cursors."""
        found: dict[int, Checked] = {}
        told: list[tuple[int, Told]] = []
        for number, document in enumerate(documents):
            try:
                told.append((number, told_of(document)))
            except NoAnswer as error:
                found[number] = unreadable(error)
        for number, each in sorted(told, key=lambda pair: pair[1].cursor):
            found[number] = self.check(each)
        return [found[number] for number in sorted(found)]

    def verify(self, document: Any) -> Checked:
        """Return the verdict of {tool, request, answer}.

        Raises:
            CursorGap, JournalCorrupt: the journal itself is broken. StoreUnavailable: it cannot be read.
        """
        try:
            return self.check(told_of(document))
        except NoAnswer as error:
            return unreadable(error)

    def check(self, told: Told) -> Checked:
        """Return the verdict of an answer; raises as ``verify``."""
        broken = broken_digests(told)
        verdict = _Verdicts(told, broken)
        profiled = self._other_profile(told)
        if profiled is not None and not broken:
            return verdict.unverifiable(f"it was ranked under {profiled}, which is not at hand here")
        head = self._journal.store.head(self._binding.scope).cursor
        if told.cursor > head:
            if broken:
                return verdict.altered(broken)
            return verdict.unverifiable(
                f"the journal of this scope ends at cursor {head}: another scope or store, or one that was cut"
            )
        with self._past.at(told.cursor, told.now) as snapshot:
            derivation = _Derivation(self._past, self._binding, told, snapshot, self._semantic)
            try:
                return derivation.verdict(verdict)
            except UntrustedContext:
                return verdict.unverifiable("the host file does not bind this purpose")

    def _other_profile(self, told: Told) -> str | None:
        """Return the ranking profile of an answer where nothing here ranks by it."""
        if told.tool != SEARCH:
            return None
        receipt = told.receipt
        named = (receipt.get("profile"), receipt.get("profile_version"), receipt.get("profile_config_digest"))
        ours = BY_WORDS
        formula = receipt.get("scoring_formula_ref")
        if named[0] == fusion.PROFILE_NAME and self._semantic is not None:
            try:
                ours = by_meaning(self._semantic.provider.digest)
            except RankingUnavailable as error:
                return f"the profile {named[0]}, whose provider cannot be had: {error.detail}"
        if named == (ours.name, ours.version, ours.config_digest):
            return None
        if named[:2] == (ours.name, ours.version) and formula == ours.scoring_formula_ref + SOME_BY_WORDS_ALONE:
            return None  # its configuration names records, and is derived with the order
        is_reconfigured = named[:2] == (ours.name, ours.version)
        return f"the profile {named[0]} version {named[1]}" + (" of another configuration" if is_reconfigured else "")


class _Verdicts:
    """Makes the verdicts of one answer."""

    def __init__(self, told: Told, broken: list[str]) -> None:
        self.broken = broken
        self._said: dict[str, Any] = {"tool": told.tool, "cursor": told.cursor, "now": told.now}

    def sound(self, verdict: Verdict, *, erased: list[str], verified: int) -> Checked:
        return Checked(verdict=verdict, erased=erased, verified=verified, **self._said)

    def altered(self, differs: Iterable[str], *, erased: list[str] | None = None) -> Checked:
        places = list(dict.fromkeys([*self.broken, *differs]))
        return Checked(verdict=Verdict.ALTERED, differs=places, erased=erased or [], **self._said)

    def unverifiable(self, reason: str, differs: Iterable[str] = ()) -> Checked:
        return Checked(verdict=Verdict.UNVERIFIABLE, reason=reason, differs=list(differs), **self._said)


class _Derivation:
    """One answer against the past that it names."""

    def __init__(
        self, past: AdvancingPast, binding: Binding, told: Told, snapshot: Snapshot, semantic: Semantic | None
    ) -> None:
        self._binding = binding
        self._told = told
        self._snapshot = snapshot
        self._engine = PastEngine(past.journal, binding, snapshot, semantic)
        self._call = self._call_under(binding)

    def _call_under(self, binding: Binding) -> Call:
        deadline = time.monotonic() + limits.CALL_DEADLINE_SECONDS
        return Call(
            binding=binding, actor=binding.actor(), now=self._told.now, deadline=deadline, audit_id=self._told.audit_id
        )

    def verdict(self, verdict: _Verdicts) -> Checked:
        """Return the verdict.

        Raises:
            UntrustedContext: the purpose is not bound.
        """
        unranked: RankingUnavailable | None = None
        try:
            differs = self._differs()
        except RankingUnavailable as error:  # for some of it is erased, perhaps
            differs, unranked = ["answer"], error
        except EngramError as error:
            return verdict.unverifiable(_underivable(error))
        if not differs:
            return verdict.sound(Verdict.DERIVED, erased=[], verified=len(self._told.packets))
        erased = self._erased()
        if unranked is not None and not erased and not verdict.broken:
            return verdict.unverifiable(_underivable(unranked))
        if erased:
            names = [row.record_id for row in erased if row.record_id is not None]
            differs = self._differs_in_order(erased)
            if not differs and not verdict.broken:
                surviving = [each for each in self._told.packets if each["record"]["record_id"] not in names]
                return verdict.sound(Verdict.ORDER_UNDERIVABLE, erased=names, verified=len(surviving))
            return self._judged(verdict, differs, names)
        return self._judged(verdict, differs, [])

    def _erased(self) -> list[Row]:
        """Return what counted then and is erased by now: in a ranking all that was in force, in a get the one."""
        erased = counted_then(self._snapshot)
        if self._told.tool == SEARCH:
            return erased
        return [row for row in erased if row.record_id == self._told.request.get("record_id")]

    # --- the same answer --------------------------------------------------------------------------

    def _differs(self) -> list[str]:
        """Return where the answer differs from the one that is derived."""
        differs = differing(self._told.answer, self._derived(self._call))
        if not differs:
            return []
        # The host's cap on a page may have been another. Where a page ends, its cursor says under a MAC.
        cap_bytes = max(limits.PACKET_MIN_BYTES, len(canonical_bytes(self._told.value)))
        other = self._call_under(replace(self._binding, packet_cap_bytes=cap_bytes))
        return differing(self._told.answer, self._derived(other)) and differs

    def _derived(self, call: Call) -> dict[str, Any]:
        """Return the envelope that the tool answers over the past."""
        tool = search.search if self._told.tool == SEARCH else get.get
        try:
            return success(tool(self._engine, call, self._told.request), self._told.audit_id).document()
        except RankingUnavailable:
            raise  # it says what is at hand here, and nothing of the answer
        except _ANSWERABLE as error:
            return failure(error, self._told.audit_id).document()

    # --- the same answer, given its order ---------------------------------------------------------

    def _differs_in_order(self, erased: list[Row]) -> list[str]:
        """Return where the answer differs from what can be derived although some of what counted is erased."""
        told = self._told
        try:
            check = OrderCheck(self._engine, self._call, told, self._snapshot, erased)
            if told.tool != SEARCH:
                return differing(told.answer, success(check.got(), told.audit_id).document())
            derived = success(check.searched(), told.audit_id).document()
            return [*differing(told.answer, derived), *check.disorder()]
        except _ANSWERABLE as error:
            return differing(told.answer, failure(error, told.audit_id).document())

    # --- an answer that differs -------------------------------------------------------------------

    def _judged(self, verdict: _Verdicts, differs: list[str], erased: list[str]) -> Checked:
        """Tell an answer of this store that was altered from one of another scope, store, release or authority."""
        other = None if verdict.broken else self._other(differs)
        return verdict.altered(differs, erased=erased) if other is None else verdict.unverifiable(*other)

    def _other(self, differs: list[str]) -> tuple[str, list[str]] | None:
        """Return why an answer that differs cannot be checked here, and what of it is told; None: it can."""
        if _CONFIG in differs and self._told.receipt.get("profile") == fusion.PROFILE_NAME:
            return "other records took part by words alone then: they are embedded by now, or erased", []
        if self._is_authorized():
            versions = self._other_versions()
            told = f"it was answered from {versions}, which this release does not have"
            return None if versions is None else (told, [])
        if set(differs) <= _OF_AUTHORITY or self._continues_another():
            return (
                "its authorization is not derived: it was made for another principal or agent than the host file "
                "binds, or was altered and sealed anew"
            ), differs
        return None if self._is_known() else ("nothing in it is of this scope of this store", differs)

    def _is_authorized(self) -> bool:
        """Whether the authorization is one that only this scope's key makes, for this request, instant and auditId."""
        try:
            tool = search.asked_of if self._told.tool == SEARCH else get.asked_of
            asked = tool(self._engine, self._call, self._told.request)
        except EngramError:
            return False
        expected = asked.authorization["receipt_digest"]
        return bool(self._told.receipt.get("authorization_receipt_digest") == expected)

    def _continues_another(self) -> bool:
        """Whether a page cursor was asked for that is not ours: a page of it was given to somebody else, if at all."""
        try:
            arguments = search_arguments(self._told.request)
            search.page_of(self._engine, self._call, arguments, self._snapshot.cursor, profile_told(self._told.receipt))
        except StalePage:
            return True
        except InvalidSchema:
            return False
        return False

    def _is_known(self) -> bool:
        """Whether the journal knows its snapshot, or one of its records."""
        snapshot = self._snapshot
        seen = snapshot_digest(
            self._call.scope.ref, snapshot.cursor, snapshot.head_hash, search.versions_of(snapshot)
        )  # fmt: skip
        if self._told.receipt.get("snapshot_digest") == seen:
            return True
        with self._engine.journal.store.view(self._call.scope) as view:
            return any(view.candidate_of(packet["record"]["record_id"]) for packet in self._told.packets)

    def _other_versions(self) -> str | None:
        """Return the versions of the projections that an answer was given from, where they are others than ours."""
        snapshot, ours = self._snapshot, search.versions_of(self._snapshot)
        for current in range(1, limits.PROJECTION_VERSIONS_TRIED + 1):
            for lexical in range(1, limits.PROJECTION_VERSIONS_TRIED + 1):
                versions = [("current", current), ("lexical", lexical)]
                seen = snapshot_digest(self._call.scope.ref, snapshot.cursor, snapshot.head_hash, versions)
                if versions != ours and self._told.receipt.get("snapshot_digest") == seen:
                    return ", ".join(f"{name} version {version}" for name, version in versions)
        return None


def _underivable(error: EngramError) -> str:
    return f"it cannot be derived here: {error.detail or error.message()} [{error.code}]"


def unreadable(error: NoAnswer) -> Checked:
    """Return the verdict of a document that is no answer."""
    return Checked(verdict=Verdict.UNVERIFIABLE, reason=str(error))
