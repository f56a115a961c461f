"""One scope's past, gone through in the order of its cursors: what answers were given from, each at its own head.

Journal and projections go forward in step, so that a thousand answers over one store cost one fold. An earlier cursor
than the last begins anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from journal.lifecycle import State
from projections.aside import Aside
from projections.serving import make_chosen
from replay.asof import PastJournal

if TYPE_CHECKING:
    from journal.log import Journal
    from journal.scope import Scope
    from projections.current_reader import Row
    from projections.snapshot import Snapshot


class AdvancingPast:
    """A scope's journal and some of its projections, brought from one cursor to the next."""

    def __init__(self, journal: Journal, scope: Scope, names: Collection[str], projections_path: Path | None) -> None:
        """Begin before the first event.

        Args:
            journal: the store, open for reading or more.
            scope: the scope whose past is asked.
            names: the projections that are folded.
            projections_path: the store's ``projections`` directory, through which an erasure elsewhere waits for this.
        """
        self._journal = journal
        self._scope = scope
        self._names = names
        self._projections_path = projections_path
        self._begin()

    def _begin(self) -> None:
        # What invalidates a projection counts only beyond the head of its beginning.
        self._reach = self._journal.store.head(self._scope).cursor
        self.journal = PastJournal(self._journal, self._scope, 0, 0)
        projections = make_chosen(self._journal, self._scope, self._names)
        self._aside = Aside(self._journal, self._scope, projections, self._projections_path)
        self._cursor = 0

    @contextmanager
    def at(self, cursor: int, now: int) -> Iterator[Snapshot]:
        """Bring ``journal`` to a cursor and an instant (epoch ms), and yield the projections there.

        Raises:
            InvalidSchema: the journal does not reach so far. CursorGap, JournalCorrupt, BlobMissing: it is broken.
        """
        if not self._cursor <= cursor <= self._reach:
            self._aside.close()
            self._begin()
        self.journal.advance(cursor, now)
        self._cursor = cursor
        self._aside.fold_to(cursor)
        with self._aside.snapshot() as snapshot:
            yield snapshot

    def close(self) -> None:
        """Throw everything away."""
        self._aside.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def counted_then(snapshot: Snapshot) -> list[Row]:
    """Return the records that counted in every ranking at a snapshot and whose content has been erased since.

    A ranking weighs a word by how many records in force hold it, so that each of these moved every score.
    """
    erased: list[Row] = snapshot.current.erased()
    return [row for row in erased if row.state == State.ACCEPTED_CURRENT]
