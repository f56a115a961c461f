"""The formulas of the profile: impacts when a document is added, inverse document frequencies when a query is asked.

A score is the sum over the query's terms of weight x impact. Both are integers, so that the sum is the same in any
order; the impact holds all that the document says, the weight all that the collection says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from projections.lexical.profile import IMPACT_GREATEST, K1_THOUSANDTHS, OWN_UNIT, Field

_K1: Final = K1_THOUSANDTHS / 1000


def field_factor(field: Field, length_terms: int) -> float:
    """Return what one occurrence in a field of this length counts: its weight over the length's norm."""
    b = field.length_thousandths / 1000
    return field.weight_thousandths / 1000 / (1 - b + b * length_terms / field.pivot_terms)


def field_factors(
    fields: Sequence[Field], places: npt.NDArray[np.int64], lengths_terms: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return what ``field_factor`` gives the fields at these places of the profile, to the last bit."""
    weight = np.array([field.weight_thousandths / 1000 for field in fields])[places]
    b = np.array([field.length_thousandths / 1000 for field in fields])[places]
    pivot = np.array([field.pivot_terms for field in fields])[places]
    factors: npt.NDArray[np.float64] = weight / (1 - b + b * lengths_terms / pivot)
    return factors


def impacts(frequencies: npt.NDArray[np.float64]) -> npt.NDArray[np.uint8]:
    """Return the u8 impacts of weighted term frequencies: saturated, rounded half to even, at least 1."""
    saturated = np.rint(IMPACT_GREATEST * frequencies / (_K1 + frequencies))
    return np.maximum(saturated, 1).astype(np.uint8)


def impact(frequency: float) -> int:
    """Return what ``impacts`` gives one weighted term frequency."""
    return max(1, round(IMPACT_GREATEST * frequency / (_K1 + frequency)))


def term_weight(documents: int, containing: int, times: int = 1) -> int:
    """Return a term's weight, so that weight x impact is in hundred-thousandths of idf; at least 1.

    ``documents`` and ``containing`` count what is in force now; ``times`` is how often the query says the term.
    """
    idf = math.log((documents + 1) / (containing + 0.5))
    return max(1, times * round(idf * OWN_UNIT / IMPACT_GREATEST))
