"""The tokens of pairs of Hangul syllables, many at once.

More than half of what Korean text gives are such pairs, and each of them as a string of its own, hashed and looked up,
costs more than all else that is done with it. Here a pair is a number, and the tokens that were found before stand in
a table at a place that follows from it; whoever comes to a place takes it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from journal import limits
from projections.lexical.keyed import TokenKey
from projections.lexical.postings import Words, halves

_FIRST: Final = 0xAC00  # the syllables are one block of Unicode
_SYLLABLES: Final = 11_172
_SPREAD: Final = 0x9E3779B1  # odd: neighbours come to stand far apart
_NOBODY: Final = -1


class PairTokens:
    """Tokens of pairs under a scope's key, those met last remembered. Safe to share between threads."""

    def __init__(self, key: TokenKey) -> None:
        self._key = key
        self._mutex = threading.Lock()
        self._pairs = np.zeros(0, np.int64)  # what pair is at a place
        self._high: Words = np.zeros(0, np.uint64)
        self._low: Words = np.zeros(0, np.uint64)

    def of(self, runs: Sequence[str]) -> tuple[Words, Words]:
        """Return the tokens' halves of all neighbours in runs of Hangul syllables, one run after the other."""
        numbers = np.frombuffer("\0".join(runs).encode("utf-32-le"), "<u4").astype(np.int64) - _FIRST
        left, right = numbers[:-1], numbers[1:]
        pairs = (left * _SYLLABLES + right)[(left >= 0) & (right >= 0)]
        with self._mutex:
            return self._looked_up(pairs)

    def _looked_up(self, pairs: npt.NDArray[np.int64]) -> tuple[Words, Words]:
        if not self._pairs.size:
            size = limits.LEXICAL_PAIRS
            self._pairs = np.full(size, _NOBODY, np.int64)
            self._high, self._low = np.zeros(size, np.uint64), np.zeros(size, np.uint64)
        places = self._places(pairs)
        high, low = self._high[places], self._low[places]
        unknown = np.flatnonzero(self._pairs[places] != pairs)
        if unknown.size:
            learnt, which = np.unique(pairs[unknown], return_inverse=True)
            found = halves(b"".join(self._key.tokens([_text(pair) for pair in learnt.tolist()])))
            high[unknown], low[unknown] = found[0][which], found[1][which]
            taken, of = np.unique(self._places(learnt), return_index=True)  # one each, where several came to a place
            self._pairs[taken], self._high[taken], self._low[taken] = learnt[of], found[0][of], found[1][of]
        return high, low

    def _places(self, pairs: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return ((pairs * _SPREAD) >> 11) % self._pairs.size


def _text(pair: int) -> str:
    left, right = divmod(pair, _SYLLABLES)
    return chr(_FIRST + left) + chr(_FIRST + right)
