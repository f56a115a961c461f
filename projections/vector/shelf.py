"""The vectors of an index as they stand in memory: float16, one or more rows a subject, found by cursor.

Rows have slots; a slot that becomes free is overwritten with zeros and used again, so that nothing is moved when a
subject comes or goes, and nothing of one that was forgotten stays.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from projections.vector.cache import Cursors
from projections.vector.centring import unit

Places = NDArray[np.intp]
"""Places in the ascending order of cursors."""
Rows = NDArray[np.intp]
"""Numbers of rows, in the order of cursors and of each one's parts."""

Slots = NDArray[np.intp]
"""Where vectors stand in memory."""

_LEAST_ROWS = 256


class Shelf:
    """Vectors by cursor. ``texts`` and ``starts`` stand in the order of ``cursors``, which ascend."""

    def __init__(self, dimension: int) -> None:
        self.cursors: Cursors = np.zeros(0, np.uint64)
        self.texts: Cursors = np.zeros(0, np.uint64)  # the cursor of the text that each one's vectors are of
        self.starts: Rows = np.zeros(1, np.intp)  # where each one's rows begin, and where the last one's end
        self._slots = np.zeros(0, np.intp)  # of each row
        self._standing: Places | None = None  # whose slot each is, -1 of a free one; made when it is first asked for
        self._vectors = np.zeros((0, dimension), np.float16)
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self.cursors)

    @property
    def row_count(self) -> int:
        """How many vectors there are."""
        return len(self._slots)

    def places(self, cursors: Cursors) -> tuple[Places, NDArray[np.bool_]]:
        """Return for each cursor its place, and whether it is there."""
        places = np.searchsorted(self.cursors, cursors)
        inside = places < len(self.cursors)
        there = inside.copy()
        there[inside] = self.cursors[places[inside]] == cursors[inside]
        return places, there

    @property
    def _has_one_each(self) -> bool:
        """Whether each cursor has one vector, as in most scopes of records."""
        return self.row_count == len(self)

    def rows(self, places: Places) -> tuple[Rows, Rows | None]:
        """Return the rows of some places, one place after the other, and where each one's begin among them.

        None in place of that: each has one.
        """
        if self._has_one_each:
            return places, None
        begins = self.starts[places]
        counts = self.starts[places + 1] - begins
        starts = np.cumsum(counts) - counts
        return np.arange(counts.sum()) + np.repeat(begins - starts, counts), starts

    def place_of_rows(self, rows: Rows) -> Places:
        """Return the place to which each row belongs."""
        places: Places = np.searchsorted(self.starts, rows, side="right") - 1
        return places

    def slots(self, rows: Rows | slice) -> Slots:
        """Return the slots of some rows."""
        return self._slots[rows]

    def places_of_slots(self, slots: Slots) -> Places:
        """Return the distinct places whose vectors stand in these distinct slots; free ones are left out."""
        places = self.standing(slots)
        places = places[places >= 0]
        return places if self._has_one_each else np.unique(places)

    def standing(self, slots: Slots) -> Places:
        """Return the place whose vector stands in each slot, -1 of a free one."""
        if self._standing is None:
            self._standing = np.full(len(self._vectors), -1, np.intp)
            self._standing[self._slots] = np.repeat(np.arange(len(self)), np.diff(self.starts))
        return self._standing[slots]

    def remove(self, gone: NDArray[np.bool_]) -> Slots:
        """Remove what stands at the places of a mask; return the slots that became free."""
        counts = np.diff(self.starts)
        rows_gone = np.repeat(gone, counts)
        slots = self._slots[rows_gone]
        self._vectors[slots] = 0
        self._free.extend(slots.tolist())
        stay = ~gone
        self.cursors, self.texts, self._slots = self.cursors[stay], self.texts[stay], self._slots[~rows_gone]
        self.starts = _starts(counts[stay])
        self._standing = None
        return slots

    def add(self, cursors: Cursors, texts: Cursors, counts: Rows, vectors: NDArray[np.float16]) -> Slots:
        """Add the vectors of cursors that are not there, so many each; return their slots."""
        slots = self._take(len(vectors))
        self._vectors[slots] = vectors
        joined = np.concatenate((self.cursors, cursors))
        order = np.argsort(joined, kind="stable")
        all_counts = np.concatenate((np.diff(self.starts), counts))
        of_rows = np.argsort(np.repeat(joined, all_counts), kind="stable")
        self.cursors = joined[order]
        self.texts = np.concatenate((self.texts, texts))[order]
        self._slots = np.concatenate((self._slots, slots))[of_rows]
        self.starts = _starts(all_counts[order])
        self._standing = None
        return slots

    def _take(self, count: int) -> Rows:
        reused = [self._free.pop() for _ in range(min(count, len(self._free)))]
        used = len(self._slots) + len(reused) + len(self._free)
        size = used + count - len(reused)
        if size > len(self._vectors):
            vectors = np.zeros((max(_LEAST_ROWS, size + size // 8), self._vectors.shape[1]), np.float16)
            vectors[:used] = self._vectors[:used]
            self._vectors = vectors
        return np.array([*reused, *range(used, size)], np.intp)

    @property
    def slot_count(self) -> int:
        """How many slots there are, free ones among them."""
        return len(self._vectors)

    def vectors(self, slots: Slots, number: type[np.float64 | np.float32]) -> NDArray[np.floating]:
        """Return the vectors in some slots, each of length 1."""
        return unit(self.stored(slots, number))

    def stored(self, slots: Slots, number: type[np.float64 | np.float32]) -> NDArray[np.floating]:
        """Return the vectors in some slots as they are stored: of length 1 but for the rounding of float16."""
        return self._vectors[slots].astype(number)


def _starts(counts: Rows) -> Rows:
    return np.concatenate((np.zeros(1, np.intp), np.cumsum(counts, dtype=np.intp)))
