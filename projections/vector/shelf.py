"""The vectors of an index as they stand in memory: float16, a row a subject, found by cursor.

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

_NONE = -1
_LEAST_ROWS = 256


class Shelf:
    """Vectors by cursor. ``texts`` stand in the order of ``cursors``, which ascend."""

    def __init__(self, dimension: int) -> None:
        self.cursors: Cursors = np.zeros(0, np.uint64)
        self.texts: Cursors = np.zeros(0, np.uint64)  # the cursor of the text that each vector is of
        self._slots = np.zeros(0, np.intp)
        self._rows = np.zeros((0, dimension), np.float16)
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self.cursors)

    def places(self, cursors: Cursors) -> tuple[Places, NDArray[np.bool_]]:
        """Return for each cursor its place, and whether it is there."""
        places = np.searchsorted(self.cursors, cursors)
        inside = places < len(self.cursors)
        there = inside.copy()
        there[inside] = self.cursors[places[inside]] == cursors[inside]
        return places, there

    def remove(self, gone: NDArray[np.bool_]) -> None:
        """Remove what stands at the places of a mask."""
        slots = self._slots[gone]
        self._rows[slots] = 0
        self._free.extend(slots.tolist())
        stay = ~gone
        self.cursors, self.texts, self._slots = self.cursors[stay], self.texts[stay], self._slots[stay]

    def add(self, cursors: Cursors, texts: Cursors, vectors: NDArray[np.float16]) -> None:
        """Add vectors of cursors that are not there."""
        slots = self._take(len(cursors))
        self._rows[slots] = vectors
        joined = np.concatenate((self.cursors, cursors))
        order = np.argsort(joined, kind="stable")
        self.cursors = joined[order]
        self.texts = np.concatenate((self.texts, texts))[order]
        self._slots = np.concatenate((self._slots, slots))[order]

    def _take(self, count: int) -> Places:
        reused = [self._free.pop() for _ in range(min(count, len(self._free)))]
        used = len(self._slots) + len(reused) + len(self._free)
        size = used + count - len(reused)
        if size > len(self._rows):
            rows = np.zeros((max(_LEAST_ROWS, size + size // 8), self._rows.shape[1]), np.float16)
            rows[:used] = self._rows[:used]
            self._rows = rows
        return np.array([*reused, *range(used, size)], np.intp)

    def vectors(self, places: Places | slice, number: type[np.float64 | np.float32]) -> NDArray[np.floating]:
        """Return the vectors of some places, each of length 1."""
        return unit(self._rows[self._slots[places]].astype(number))
