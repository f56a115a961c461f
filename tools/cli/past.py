"""Asking the past as an agent would have asked it then: the same searches and get, over states and clock of then."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from journal import layout, limits
from journal.clock import instant
from journal.events import Actor
from projections.serving import MESSAGES, RECORDS
from replay.receipts import AdvancingPast
from tools.memory.call import Call
from tools.memory.get import get
from tools.memory.past import PastEngine, everything_granted
from tools.memory.search import search

if TYPE_CHECKING:
    from journal.log import Journal
    from projections.snapshot import Snapshot
    from tools.host.binding import Binding


class Past:
    """One scope at a cursor and an instant."""

    def __init__(self, engine: PastEngine, snapshot: Snapshot, call: Call) -> None:
        self._engine = engine
        self._snapshot = snapshot
        self._call = call

    def search(self, query: str, purpose_ref: str) -> dict[str, Any]:
        """Return what engram_memory_search would have answered, and which records of then are erased by now."""
        value = search(self._engine, self._call, {"query": query, "purpose_ref": purpose_ref})
        return self._told(value, self.erased_since())

    def get(self, record_id: str, purpose_ref: str) -> dict[str, Any]:
        """Return what engram_memory_get would have answered; NotFound where it would have said so."""
        packet = {"record_id": record_id, "purpose_ref": purpose_ref, "max_packet_bytes": limits.PACKET_MAX_BYTES}
        return self._told(get(self._engine, self._call, packet), self.erased_since())

    def erased_since(self) -> list[str]:
        """Return the records that were there then and whose content is erased by now."""
        return [row.record_id for row in self._snapshot.current.erased() if row.record_id is not None]

    def search_messages(self, query: str) -> dict[str, Any]:
        """Return what search_memory would have answered, and which messages of then are erased by now."""
        from tools.conversation.arguments import search_memory_arguments
        from tools.conversation.dates import DateRange
        from tools.conversation.search_memory import find

        arguments = search_memory_arguments({"query": query})
        value = find(self._engine, self._call, self._snapshot, arguments, DateRange(None, None), None)  # by words
        erased = self._snapshot.reader("timeline").erased(self._call.binding.conversation.user)
        return self._told(value, [row.message_id for row in erased])

    def _told(self, value: dict[str, Any], erased_since: list[str]) -> dict[str, Any]:
        return {
            "system_as_of": str(self._snapshot.cursor),
            "valid_as_of": instant(self._call.now),
            **value,
            "erased_since": erased_since,
        }


@contextmanager
def opened_past(
    journal: Journal, binding: Binding, operator: str, cursor: int, now: int, *, messages: bool = False
) -> Iterator[Past]:
    """Yield a binding's scope, or that of its conversations, as it stood at a cursor, at an instant (epoch ms).

    Raises:
        InvalidSchema: the journal does not reach so far. CursorGap, JournalCorrupt, BlobMissing: it is broken.
    """
    scope = binding.conversation.scope if messages else binding.scope
    everything = replace(everything_granted(binding), scope=scope)  # a person asks, not the agent
    held = journal.path / layout.PROJECTIONS  # an erasure waits for what is folded aside
    with (
        AdvancingPast(journal, scope, MESSAGES if messages else RECORDS, held) as past,
        past.at(cursor, now) as snapshot,
    ):
        deadline = time.monotonic() + limits.CALL_DEADLINE_SECONDS
        call = Call(binding=everything, actor=Actor(f"operator:{operator}"), now=now, deadline=deadline)
        yield Past(PastEngine(past.journal, everything, snapshot), snapshot, call)
