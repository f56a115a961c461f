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
NO_DIRECTION: Final = 1e-3  # a difference that is shorter is mostly the rounding of float16

Rows = NDArray[Any]
Lengths = NDArray[np.float64]


def unit(rows: Rows) -> Rows:
    """Return each row brought to length 1; one without a direction is all zeros."""
    lengths = np.sqrt(np.sum(rows * rows, axis=1, keepdims=True))
    scale = np.where(lengths < NO_DIRECTION, 0, 1 / np.maximum(lengths, NO_DIRECTION))
    return (rows * scale).astype(rows.dtype, copy=False)


def centred(rows: Rows, mean: NDArray[np.float64]) -> Rows:
    """Return rows without the mean, each of length 1."""
    return unit(rows - mean.astype(rows.dtype))


def centred_query(query: NDArray[np.float64], mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return one vector as ``centred`` does, in fewer steps: who asks waits for it."""
    apart: NDArray[np.float64] = query - mean
    length = float(np.sqrt(np.sum(apart * apart)))
    return apart * (0.0 if length < NO_DIRECTION else 1 / length)


def mean_of(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean of rows, zeros of none."""
    return rows.mean(axis=0) if len(rows) else np.zeros(rows.shape[1])


def lengths(rows: NDArray[np.float64], mean: NDArray[np.float64]) -> tuple[Lengths, Lengths]:
    """Return how long rows are, and how far from the mean each is once it is brought to length 1.

    Infinite stands for what is so short that it has no direction. The distance follows from u . u and u . mean.
    """
    long = np.sqrt(_products(rows, rows))
    long[long < NO_DIRECTION] = np.inf
    has_direction = long < np.inf
    apart = np.sqrt(np.maximum(has_direction - 2 * _dots(rows, mean) / long + np.sum(mean * mean), 0))
    apart[apart < NO_DIRECTION] = np.inf
    return long, apart


def millionths(
    rows: NDArray[np.float64], long: Lengths, apart: Lengths, mean: NDArray[np.float64], asked: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return the similarities of rows with a centred query of length 1, in whole millionths.

    The product of u / |u| - mean with the query is (u . query) / |u| - mean . query; ``long`` and ``apart`` are as
    ``lengths`` gives them.
    """
    similar = (_dots(rows, asked) / long - np.sum(mean * asked)) / apart
    whole: NDArray[np.int64] = np.rint(similar * MILLION).astype(np.int64)
    return whole


def _dots(rows: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the product of each row with one vector; a matrix product sums otherwise where more rows come."""
    found: NDArray[np.float64] = np.vecdot(rows, other)
    return found


def _products(rows: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the product of each row with the one beside it."""
    found: NDArray[np.float64] = np.einsum("ij,ij->i", rows, others)
    return found
