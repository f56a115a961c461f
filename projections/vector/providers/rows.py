"""What a model gave, checked and brought to length 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projections.vector.providers.port import EmbeddingFailed, Vectors


def unit_rows(rows: NDArray[Any] | Sequence[Sequence[float]], count: int, dimension: int) -> Vectors:
    """Return float32 (count, dimension), every row of length 1.

    Raises:
        EmbeddingFailed: the shape is another, a number is not finite, or a row is of no length.
    """
    if len(rows) != count:
        raise EmbeddingFailed(f"{count} texts were sent, {len(rows)} vectors came back")
    widths = {len(row) for row in rows} - {dimension}
    if widths:
        raise EmbeddingFailed(f"a vector has {min(widths)} numbers; the dimension is said to be {dimension}")
    wide = np.asarray(rows, dtype=np.float64).reshape(count, dimension)
    if not np.isfinite(wide).all():
        raise EmbeddingFailed("a vector holds what is no finite number")
    # Divided by its greatest number first: the squares of very great and very small ones leave the range.
    greatest = np.abs(wide).max(axis=1, keepdims=True)
    if not greatest.all():
        raise EmbeddingFailed("a vector is of no length")
    scaled = wide / greatest
    unit: Vectors = (scaled / np.linalg.norm(scaled, axis=1, keepdims=True)).astype(np.float32)
    return unit
