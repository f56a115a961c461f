"""The engine of the tools over a past: the same search and get, over the states and the clock of then."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from tools.host.authority import Authority, Standing
from tools.host.capabilities import ALL_TOOLS
from tools.memory.engine import Engine

if TYPE_CHECKING:
    from journal.scope import Scope
    from journal.store.port import View
    from projections.catchup import Projections
    from projections.snapshot import Snapshot
    from replay.asof import PastJournal
    from tools.host.binding import Binding
    from tools.memory.semantic import Semantic


def everything_granted(binding: Binding) -> Binding:
    """Return a binding under which a person looks at the past, not the agent: whatever is granted today."""
    return replace(binding, enabled=True, granted=frozenset(ALL_TOOLS), by_events=False)


class _PastProjections:
    """Projections that always show one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    @contextmanager
    def snapshot(self, deadline: float | None = None, names: Collection[str] | None = None) -> Iterator[Snapshot]:
        """Yield the snapshot (``projections.catchup.Projections.snapshot``)."""
        assert names is None or set(names) <= set(self._snapshot.names)
        del deadline
        yield self._snapshot


class _PastAuthority(Authority):
    """Everything is granted, whatever was or is revoked; the epoch is that of then, for receipts name it."""

    def standing(self, scope: Scope, principal: str, view: View | None = None) -> Standing:
        """Return that nothing was taken away."""
        return Standing(epoch=self.epoch(scope, view))


class PastEngine(Engine):
    """The engine of the tools, over a past."""

    def __init__(
        self, journal: PastJournal, binding: Binding, snapshot: Snapshot, semantic: Semantic | None = None
    ) -> None:
        super().__init__(journal, binding, semantic=semantic)
        self.authority = _PastAuthority(journal)
        self._past = cast("Projections", _PastProjections(snapshot))

    def projections(self, scope: Scope) -> Projections:
        """Return the projections of then."""
        del scope
        return self._past
