"""Filling a generation with a copy of the one in force, in place of folding the journal anew: for an erasure's sake.

A fold that is past a forgetting leaves nothing of it in the projection's rows, once ``purge`` (``projections.port``)
has dropped what the projection keeps of the dead for later. But LMDB keeps deleted bytes: in free pages, in the gaps of
pages, behind a value that became shorter. Its own compacting copy leaves out the first two and keeps the third. So the
rows are read one after the other and put into a fresh environment: that holds rows, and nothing that was one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from journal import limits
from projections.catchup import check_deadline
from projections.environment import Unusable
from projections.snapshot import Condemned, advance, blaming
from projections.tail import Tail

if TYPE_CHECKING:
    from projections.catchup import Projections
    from projections.generation import Generation, Meta
    from projections.generations import Generations

Progress = Callable[[int, int], None]


def copy_forward(
    projections: Projections, generations: Generations, building: Generation, progress: Progress,
    deadline: float | None,
) -> bool:  # fmt: skip
    """Fill an empty generation from the one in force, brought to the journal's head; return whether that could be done.

    Where it could not, because there is none in force, it must not be served, or another process keeps its claim, the
    generation is as empty as before.

    Raises:
        Condemned, Unusable: the copy broke off; the generation must be given up. ProjectionStale: the deadline passed,
            likewise. EngramError: the journal or a fold failed.
    """
    with ExitStack() as stack:
        try:
            source = generations.open(deadline)
            if source is None:
                return False
            stack.callback(source.release)
            with ExitStack() as claims:
                if not source.environment.claim(time.monotonic() + limits.COPY_CLAIM_SECONDS):
                    return False
                claims.callback(source.environment.unclaim)
                _bring(projections, source, progress, deadline)
                _purge(source)
                txn = stack.enter_context(source.environment.reading())  # before anybody else can fold
        except (Condemned, Unusable):
            return False
        meta = source.meta(txn)
        if meta.cursor < building.floor:
            return False
        with blaming(source):
            _Copy(txn, source, building, meta, progress, deadline).run()
    return True


def _bring(projections: Projections, source: Generation, progress: Progress, deadline: float | None) -> None:
    store, scope = projections.journal.store, projections.scope
    head = store.head(scope)
    source.check_against(source.position(), head, store)

    def before_page(cursor: int) -> None:
        check_deadline(deadline)
        progress(cursor, head.cursor)

    advance(Tail(projections.journal, scope), [source], head.cursor, before_page)


def _purge(source: Generation) -> None:
    purge = getattr(source.projection, "purge", None)
    if purge is not None:
        with blaming(source), source.writing() as txn:
            purge(txn, source.tables)


@dataclass(frozen=True, slots=True)
class _Copy:
    """One copy: out of a read transaction, into a generation whose claim is held."""

    txn: Any
    source: Generation
    building: Generation
    meta: Meta
    progress: Progress
    deadline: float | None

    def run(self) -> None:
        """Copy every table in the order of its keys; what the content stands for comes last, so that no half counts."""
        self.building.disown()
        total = sum(self.txn.stat(db=table)["entries"] for table in self.source.tables.values())
        done = 0
        for name, table in self.source.tables.items():
            cursor = self.txn.cursor(db=table)
            more = cursor.first()
            while more:
                check_deadline(self.deadline)
                self.progress(self.meta.cursor * done // max(total, 1), self.meta.cursor)
                rows, more = self._batch(cursor, self.building.tables[name])
                done += rows
        self.building.inherit(self.meta)

    def _batch(self, cursor: Any, table: Any) -> tuple[int, bool]:
        """Copy some rows in one transaction; return how many, and whether more follow."""
        rows = size = 0
        more = True
        with self.building.writing() as out:
            while more and size < limits.COPY_BATCH_BYTES:
                key, value = cursor.item()
                out.put(bytes(key), value, append=True, db=table)
                rows, size = rows + 1, size + len(key) + len(value)
                more = cursor.next()
        return rows, more
