"""What faiss searches: float16 copies of an index's vectors, centred, in float16 scalar quantization behind cursors.

Copies pick candidates and order nothing. A product with a copy is off by what float16 rounds away, and by how far the
centre moved since the copies were made; both are bounded, so that whoever asks can tell when no other subject can be
among the best. The centre of a small index moves with every subject that comes or goes, and so the copies need not be
made anew each time.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projections.vector.centring import centred
from projections.vector.standing import Cursors

_ROUNDING: Final = 1e-3
"""How far a product may be off by itself: float16 rounds by 2^-11 of a vector's length, float32 sums by much less."""
_DRIFT_MAX: Final = 5e-3
"""How far it may be off more, for the centre has moved; further, and too many candidates would have to be looked at."""
_FEW: Final = 8
"""Where no more than one in so many is allowed, faiss is told which; else it is asked for more, which is faster."""


class Copies:
    """Centred copies by cursor. Belongs to who holds the index's lock."""

    def __init__(self, dimension: int, mean: NDArray[np.float64], expected: int) -> None:
        """Begin with none, for a centre; ``expected`` are to come soon."""
        import faiss

        self._faiss: Any = faiss  # its stubs know nothing of what it adds to its classes in Python
        quantized = faiss.IndexScalarQuantizer(dimension, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)
        quantized.codes.resize(expected * quantized.code_size)  # once: growing step by step leaves holes in memory
        quantized.codes.resize(0)
        self._index: Any = faiss.IndexIDMap2(quantized)
        self._mean = mean
        self._nearest = np.inf  # the least distance of a copied vector from the centre

    def add(self, cursors: Cursors, rows: NDArray[np.float32]) -> None:
        """Copy vectors, not centred yet, of cursors that are not there."""
        if not len(cursors):
            return
        apart = rows - self._mean.astype(np.float32)
        self._nearest = min(self._nearest, float(np.sqrt(np.min(np.einsum("ij,ij->i", apart, apart)))))
        self._index.add_with_ids(np.ascontiguousarray(centred(rows, self._mean)), cursors.astype(np.int64))

    def remove(self, cursors: Cursors) -> None:
        """Remove the copies of cursors, of which some may not be there."""
        if len(cursors):
            self._index.remove_ids(cursors.astype(np.int64))

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
        self, asked: NDArray[np.float64], wanted: int, allowed: Cursors | None, mean: NDArray[np.float64]
    ) -> tuple[Cursors, float]:
        """Return the candidates for a centred query, and the greatest similarity that any other subject can have.

        Args:
            asked: the query, centred by ``mean``, of length 1.
            wanted: how many to pick; in all, where all are allowed; else about so many of those that are.
            allowed: the cursors that are wanted; None for all.
            mean: the centre now.
        """
        size = self._index.ntotal
        parameters, among = None, size
        if allowed is not None and _FEW * len(allowed) <= size:
            bits = np.zeros(int(allowed[-1]) + 1, np.bool_)
            bits[allowed] = True
            packed = np.packbits(bits, bitorder="little")
            parameters = self._faiss.SearchParameters(sel=self._faiss.IDSelectorBitmap(packed))
            among = len(allowed)
        elif allowed is not None and len(allowed) < size:
            wanted = wanted * size // len(allowed)
        wanted = min(wanted, among)
        # OpenMP keeps the number a thread, and for one query two threads are slower than one.
        self._faiss.omp_set_num_threads(1)
        row = np.ascontiguousarray(asked.astype(np.float32).reshape(1, -1))
        products, ids = self._index.search(row, wanted, params=parameters)
        others = -np.inf if wanted == among else float(products[0, -1]) + _ROUNDING + self.drift(mean)
        return ids[0].astype(np.uint64), others
