"""What can still be said of an answer whose ranking cannot be derived any more, for some of its words are erased.

The receipts are derived under the order that the answer tells; each record that survives is opened again and must be
the one that the answer shows, readable at that instant; of one that is erased the journal still has the id, the digest
of the whole and the keyed digests of its texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from journal import identity
from journal.clock import instant
from journal.digests import payload_digest
from journal.limits import WINDOW_RECORDS, WINDOW_RECORDS_MAX
from projections import fusion
from projections.lexical.question import Question
from tools.memory import get, search
from tools.memory.arguments import search_arguments
from tools.memory.reading import is_eligible, readable_record, revalidate_read
from tools.memory.records import redacted
from tools.memory.search_answer import (
    BY_WORDS,
    Ranking,
    SearchAnswer,
    by_meaning,
    candidate_ids_digest,
    profile_told,
)

if TYPE_CHECKING:
    from projections.current_reader import Row
    from projections.snapshot import Snapshot
    from tools.memory.call import Call
    from tools.memory.past import PastEngine
    from tools.memory.told import Told

_DERIVED = ("payload_digest", "recorded_at", "recorded_cursor", "trust", "record_digest", "record_id")


class OrderCheck:
    """One answer against one past, in which some records are erased by now."""

    def __init__(self, engine: PastEngine, call: Call, told: Told, snapshot: Snapshot, erased: list[Row]) -> None:
        self._engine = engine
        self._call = call
        self._told = told
        self._snapshot = snapshot
        self._erased = {row.record_id: row for row in erased}
        self._purpose_ref = told.request.get("purpose_ref", "")
        by_words = engine.semantic is None or told.receipt.get("profile") != fusion.PROFILE_NAME
        self._profile = BY_WORDS if by_words else by_meaning(search.channel_of(engine).provider.digest)

    def got(self) -> dict[str, Any]:
        """Return the value of a get whose record is erased, as far as it can be derived."""
        asked = get.asked_of(self._engine, self._call, self._told.request)
        packet = self._erased_packet(self._told.value["record"], self._erased[asked.arguments.record_id])
        return get.answer_of(self._engine, self._call, asked, packet, self._snapshot.cursor)

    def searched(self) -> dict[str, Any]:
        """Return the value of a search under the order that the answer tells."""
        engine, call, told, snapshot = self._engine, self._call, self._told, self._snapshot
        asked = search.asked_of(engine, call, told.request)
        page = search.page_of(engine, call, asked.arguments, snapshot.cursor, profile_told(told.receipt))
        ids = [packet["record"]["record_id"] for packet in told.packets]
        more = "next_page_cursor" in told.value
        count: Any
        digest: Any
        count, digest = told.receipt.get("candidate_count"), told.receipt.get("candidate_ids_digest")
        if page.position == 0 and not more and len(ids) <= WINDOW_RECORDS:  # then the page is the whole window
            count, digest = len(ids), candidate_ids_digest(ids)
        ranking = Ranking(
            snapshot.cursor, snapshot.head_hash, search.versions_of(snapshot), [], count, digest, page, self._profile
        )  # fmt: skip
        packets = [self._packet(number, page.position) for number in range(len(ids))]
        revalidated = revalidate_read(engine, call, asked.authorization)
        return SearchAnswer(engine, call, asked, ranking, revalidated).of(packets, more=more)

    def _packet(self, number: int, begin: int) -> dict[str, Any]:
        """Return the packet that stands at a place; a score is taken as told."""
        packet = self._told.packets[number]
        record_id = packet["record"]["record_id"]
        row = self._erased.get(record_id)
        if row is not None:
            found = self._erased_packet(packet["record"], row)
        else:
            with self._engine.journal.store.view(self._call.scope) as view:
                candidate_id = view.candidate_of(record_id)
                record = readable_record(self._engine.journal, view, candidate_id, self._call, self._purpose_ref)
            found = _none_of(record_id) if record is None else redacted(record)
        return {**found, "score": packet.get("score"), "rank": begin + number + 1}

    def _erased_packet(self, shown: dict[str, Any], row: Row) -> dict[str, Any]:
        """Return the packet of an erased record: what the journal still says, and the rest as the answer shows it.

        It holds nothing where the texts shown are not those that were captured, or were not to be read then.
        """
        with self._engine.journal.store.view(self._call.scope) as view:
            capture = view.event(row.cursor)
        payload = {name: value for name, value in shown.items() if name not in _DERIVED}
        payload["scope_ref"] = self._call.scope.ref
        key = self._engine.journal.keyring.identity_key(self._call.scope)
        try:
            are_its_texts = capture is not None and identity.guards(key, payload) == tuple(capture.header.guards)
            if capture is None or not are_its_texts or not is_eligible(payload, self._call, self._purpose_ref):
                return _none_of(row.record_id)
            record = {
                **payload,
                "payload_digest": payload_digest(payload),
                "recorded_at": instant(capture.header.recorded_at),
                "recorded_cursor": str(row.cursor),
                "trust": shown["trust"],
                "record_digest": shown["record_digest"],  # which its record_id spells
                "record_id": row.record_id,
            }
        except (KeyError, TypeError, ValueError, AttributeError):
            return _none_of(row.record_id)
        return redacted(record)

    def disorder(self) -> list[str]:
        """Return the places at which the order that is told cannot have been a ranking."""
        return [*self._unordered(), *self._missing()]

    def _unordered(self) -> list[str]:
        """A score never rises, equal ones stand in the order of their digests, and no page exceeds its limits."""
        arguments, told = search_arguments(self._told.request), self._told
        places, before = [], None
        for number, packet in enumerate(told.packets):
            score, digest = packet.get("score"), packet["record"].get("record_digest")
            if type(score) is not int or score < 0 or not isinstance(digest, str):
                places.append(f"{told.place(number)}.score")
                continue
            if before is not None and before >= (-score, digest):
                places.append(f"{told.place(number)}.score")
            before = (-score, digest)
        count = told.receipt.get("candidate_count")
        if type(count) is not int or not 0 <= count <= 2 * WINDOW_RECORDS_MAX:  # by words, and by phrases
            places.append("answer.output.value.rank_receipt.candidate_count")
        return places if len(told.packets) <= arguments.limit else [*places, "answer.output.value.records"]

    def _missing(self) -> list[str]:
        """Which records a query finds does not depend on what is erased, but for the erased themselves.

        By meaning any record may be found; those that hold a word of the query always are.
        """
        told, current = self._told, self._snapshot.current
        arguments = search_arguments(told.request)
        purposes = self._call.binding.readable(self._purpose_ref)
        found = self._snapshot.lexical.matching(
            Question.of(arguments.query), lambda cursors: current.eligible(cursors, self._call.now, purposes)
        )
        matching = set(current.record_ids(found))
        shown = [packet["record"]["record_id"] for packet in told.packets]
        begin = search.page_of(
            self._engine, self._call, arguments, self._snapshot.cursor, profile_told(told.receipt)
        ).position
        surplus = [
            f"{told.place(number)}.record.record_id"
            for number, record_id in enumerate(shown)
            if self._profile is BY_WORDS and record_id not in matching and record_id not in self._erased
        ]
        is_last = "next_page_cursor" not in told.value
        short = is_last and (matching - set(shown) if begin == 0 else len(matching) > begin + len(shown))
        return [*surplus, "answer.output.value.records"] if short else surplus


def _none_of(record_id: str | None) -> dict[str, Any]:
    """Return the packet that stands for one which the answer cannot have shown."""
    return {"record": {"record_id": record_id, "record_digest": None}}
