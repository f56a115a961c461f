"""What faiss searches: float16 copies of an index's vectors, centred, in float16 scalar quantization behind cursors.

Copies pick candidates and order nothing. A product with a copy is off by what float16 rounds away, and by how far the
centre moved since the copies were made; both are bounded, so that whoever asks can tell when no other subject can be
among the best. The centre of a small index moves with every subject that comes or goes, and so the copies need not be
made anew each time. A copy is named by its subject's cursor and the number of its part: cursor x PARTS_MAX + part.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from projections.vector.centring import centred
from projections.vector.parts import PARTS_MAX
from projections.vector.standing import Cursors

_ROUNDING: Final = 1e-3
"""How far a product may be off by itself: float16 rounds by 2^-11 of a vector's length, float32 sums by much less."""
_DRIFT_MAX: Final = 5e-3
"""How far it may be off more, for the centre has moved; further, and too many candidates would have to be looked at."""
_FEW: Final = 8
"""Where no more than one in so many is allowed, faiss is told which; else it is asked for more, which is faster."""


class Allowed(NamedTuple):
    """Which subjects may be picked."""

    cursors: Cursors  # ascending
    rows: int  # how many copies they have together


class Copies:
    """Centred copies by cursor. Belongs to who holds the index's lock."""

    def __init__(self, dimension: int, mean: NDArray[np.float64], expected: int) -> None:
        """Begin with none, for a centre; ``expected`` are to come soon."""
        import faiss

        self._faiss: Any = faiss  # its stubs know nothing of what it adds to its classes in Python
        quantized = faiss.IndexScalarQuantizer(dimension, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)
        quantized.codes.resize(expected * quantized.code_size)  # once: growing step by step leaves holes in memory
        quantized.codes.resize(0)
        self._codes: Any = quantized.codes
        self._index: Any = faiss.IndexIDMap2(quantized)
        self._mean = mean
        self._nearest = np.inf  # the least distance of a copied vector from the centre

    def add(self, cursors: Cursors, starts: NDArray[np.intp], rows: NDArray[np.float32]) -> None:
        """Copy vectors, not centred yet, of cursors that are not there; ``starts``: where each one's rows begin."""
        if not len(cursors):
            return
        apart = rows - self._mean.astype(np.float32)
        self._nearest = min(self._nearest, float(np.sqrt(np.min(np.einsum("ij,ij->i", apart, apart)))))
        counts = np.diff(np.append(starts, len(rows)))
        parts = np.arange(len(rows)) - np.repeat(starts, counts)
        names = np.repeat(cursors, counts).astype(np.int64) * PARTS_MAX + parts
        self._index.add_with_ids(np.ascontiguousarray(centred(rows, self._mean)), names)

    def remove(self, cursors: Cursors) -> None:
        """Remove the copies of cursors, of which some may not be there."""
        if len(cursors):
            before = self._codes.size()
            self._index.remove_ids(_names(cursors))
            after = self._codes.size()
            self._codes.resize(before)  # what is behind the end now, copies that were moved up, becomes zeros
            self._codes.resize(after)

    def drift(self, mean: NDArray[np.float64]) -> float:
        """Return by how much a product can be off, for the centre is elsewhere now.

        Two vectors at a distance d have directions that differ by no more than 2 d / the length of either.
        """
        moved = float(np.sqrt(np.sum((mean - self._mean) ** 2)))
        if not moved:
            return 0.0
        return 2 * moved / self._nearest if self._nearest else np.inf

    def serve(self, mean: NDArray[np.float64]) -> bool:
        """Whether the copies still serve for a centre."""
        return self.drift(mean) <= _DRIFT_MAX

    def pick(
        self, asked: NDArray[np.float64], wanted: int, allowed: Allowed | None, mean: NDArray[np.float64]
    ) -> tuple[Cursors, float]:
        """Return the candidates for a centred query, and the greatest similarity that any other subject can have.

        Args:
            asked: the query, centred by ``mean``, of length 1.
            wanted: how many copies to pick; in all, where all are allowed; else about so many of those that are.
            allowed: what is wanted; None for all.
            mean: the centre now.
        """
        size = self._index.ntotal
        parameters, among = None, size
        if allowed is not None and _FEW * allowed.rows <= size:
            packed = np.zeros((int(allowed.cursors[-1]) + 1, PARTS_MAX // 8), np.uint8)  # a bit a name
            packed[allowed.cursors] = 0xFF
            parameters = self._faiss.SearchParameters(sel=self._faiss.IDSelectorBitmap(packed.ravel()))
            among = allowed.rows
        elif allowed is not None:
            wanted = wanted * size // allowed.rows
        wanted = min(wanted, among)
        # OpenMP keeps the number a thread, and for one query two threads are slower than one.
        self._faiss.omp_set_num_threads(1)
        row = np.ascontiguousarray(asked.astype(np.float32).reshape(1, -1))
        products, ids = self._index.search(row, wanted, params=parameters)
        others = -np.inf if wanted == among else float(products[0, -1]) + _ROUNDING + self.drift(mean)
        return np.unique(ids[0].astype(np.uint64) // np.uint64(PARTS_MAX)), others


def _names(cursors: Cursors) -> NDArray[np.int64]:
    """Return the names that the copies of cursors may have."""
    return (cursors.astype(np.int64)[:, None] * PARTS_MAX + np.arange(PARTS_MAX)).ravel()
