"""Centring: vectors are compared by what tells them apart from the rest of their scope.

Models differ in where their vectors lie (any two texts of some are alike to 0.8), so the mean of what is in force is
taken away before two are compared: v' = (v - mean) / |v - mean|.

What orders an answer is computed in float64 by sums over one row at a time, so that no result depends on which other
rows are computed with it; it is a whole number of millionths.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

MILLION: Final = 1_000_000
_NO_DIRECTION: Final = 1e-3  # a difference that is shorter is mostly the rounding of float16

Rows = NDArray[Any]


def unit(rows: Rows) -> Rows:
    """Return each row brought to length 1; one without a direction is all zeros."""
    lengths = np.sqrt(np.sum(rows * rows, axis=1, keepdims=True))
    scale = np.where(lengths < _NO_DIRECTION, 0, 1 / np.maximum(lengths, _NO_DIRECTION))
    return (rows * scale).astype(rows.dtype, copy=False)


def centred(rows: Rows, mean: NDArray[np.float64]) -> Rows:
    """Return rows without the mean, each of length 1."""
    return unit(rows - mean.astype(rows.dtype))


def mean_of(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean of rows, zeros of none."""
    return rows.mean(axis=0) if len(rows) else np.zeros(rows.shape[1])


def millionths(rows: NDArray[np.float64], query: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the products of rows with a query, in whole millionths."""
    whole: NDArray[np.int64] = np.rint(np.sum(rows * query, axis=1) * MILLION).astype(np.int64)
    return whole
