"""Surroundings: what stands around documents in their sources, for a ranking that is not by words.

A short text is read with those around it; a passage, and what stands alone, by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from projections.lexical.collection import Collection
from projections.lexical.maxscore import Eligible
from projections.lexical.question import Question
from projections.lexical.tables import Rows
from projections.lexical.traits import SHORT

NOBODY: Final = 0  # no event has this cursor

Cursors = npt.NDArray[np.uint64]


class Surroundings(NamedTuple):
    """Documents in force, and what tells what is around some of them."""

    rows: Rows
    around: Callable[[Rows], Cursors]
    """Of some of the rows: (documents, 2 reach + 1), the document itself in the middle, NOBODY where none stands."""
    question: Question  # with its tokens


def surroundings(
    collection: Collection, cursors: Sequence[int], question: Question, reach: int, beside: Eligible | None
) -> Surroundings:
    """Return what stands around the documents of distinct cursors; ``beside`` tells which count as neighbours.

    They come in the order of the index, not in the one that was asked.

    Raises:
        Unusable: a document is not in the index.
    """
    rows = collection.rows(collection.ordinals(cursors))

    def around(chosen: Rows) -> Cursors:
        leans = ((chosen["traits"] & SHORT) != 0) & (chosen["group"] != np.zeros((), "V16"))
        there = np.full((len(chosen), 2 * reach + 1), NOBODY, np.uint64)
        there[:, reach] = chosen["cursor"]
        if leans.any():
            there[leans] = np.maximum(collection.cursors_around(chosen[leans], reach, beside), NOBODY)
        return there

    return Surroundings(rows, around, question)
