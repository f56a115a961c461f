"""Asking the past as an agent would have asked it then: the same search and get, over states and clock of then."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from journal import layout, limits
from journal.clock import instant
from journal.events import Actor
from projections.aside import as_of
from projections.serving import RECORDS, make_projections
from replay.asof import PastJournal
from tools.host.capabilities import ALL_TOOLS
from tools.memory.call import Call
from tools.memory.engine import Engine
from tools.memory.get import get
from tools.memory.search import search

if TYPE_CHECKING:
    from journal.log import Journal
    from journal.scope import Scope
    from projections.catchup import Projections
    from projections.snapshot import Snapshot
    from tools.host.binding import Binding


class _PastProjections:
    """Projections that always show one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    @contextmanager
    def snapshot(self, deadline: float | None = None, names: Collection[str] | None = None) -> Iterator[Snapshot]:
        """Yield the snapshot (``projections.catchup.Projections.snapshot``)."""
        del deadline, names
        yield self._snapshot


class _PastEngine(Engine):
    """The engine of the tools, over a past."""

    def __init__(self, journal: PastJournal, binding: Binding, snapshot: Snapshot) -> None:
        super().__init__(journal, binding)
        self._past = cast("Projections", _PastProjections(snapshot))

    def projections(self, scope: Scope) -> Projections:
        """Return the projections of then."""
        del scope
        return self._past


class Past:
    """One scope at a cursor and an instant."""

    def __init__(self, engine: Engine, snapshot: Snapshot, call: Call) -> None:
        self._engine = engine
        self._snapshot = snapshot
        self._call = call

    def search(self, query: str, purpose_ref: str) -> dict[str, Any]:
        """Return what engram_memory_search would have answered, and which records of then are erased by now."""
        return self._told(search(self._engine, self._call, {"query": query, "purpose_ref": purpose_ref}))

    def get(self, record_id: str, purpose_ref: str) -> dict[str, Any]:
        """Return what engram_memory_get would have answered; NotFound where it would have said so."""
        packet = {"record_id": record_id, "purpose_ref": purpose_ref, "max_packet_bytes": limits.PACKET_MAX_BYTES}
        return self._told(get(self._engine, self._call, packet))

    def erased_since(self) -> list[str]:
        """Return the records that were there then and whose content is erased by now."""
        return [row.record_id for row in self._snapshot.current.erased() if row.record_id is not None]

    def _told(self, value: dict[str, Any]) -> dict[str, Any]:
        return {
            "system_as_of": str(self._snapshot.cursor),
            "valid_as_of": instant(self._call.now),
            **value,
            "erased_since": self.erased_since(),
        }


@contextmanager
def opened_past(journal: Journal, binding: Binding, operator: str, cursor: int, now: int) -> Iterator[Past]:
    """Yield a binding's scope as it stood at a cursor, at an instant (epoch milliseconds).

    Raises:
        InvalidSchema: the journal does not reach so far. CursorGap, JournalCorrupt, BlobMissing: it is broken.
    """
    scope = binding.scope
    everything = replace(binding, enabled=True, granted=frozenset(ALL_TOOLS))  # a person asks, not the agent
    past = PastJournal(journal, scope, cursor, now)
    held = journal.path / layout.PROJECTIONS  # an erasure waits for what is folded aside
    asked = [each for each in make_projections(journal, scope) if each.name in RECORDS]
    with as_of(journal, scope, asked, cursor, held) as snapshot:
        deadline = time.monotonic() + limits.CALL_DEADLINE_SECONDS
        call = Call(binding=everything, actor=Actor(f"operator:{operator}"), now=now, deadline=deadline)
        yield Past(_PastEngine(past, everything, snapshot), snapshot, call)
