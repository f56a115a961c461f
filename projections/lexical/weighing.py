"""Weighing many documents at once: the terms of all are one array, which is ordered, counted and weighted as a whole.

To count, key and order the terms of one document by itself takes ten times as long. The impacts are to the last bit
those of ``documents.Weigher.weigh``: the same operations on the same floats, fields in the order of the profile.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from journal import limits
from projections.lexical.documents import Document, Weighed, Weigher
from projections.lexical.keyed import TOKEN_BYTES
from projections.lexical.pairs import PairTokens
from projections.lexical.postings import Impacts, Places, Words, halves, token_order, token_rows
from projections.lexical.profile import Field
from projections.lexical.scoring import field_factors, impacts
from projections.lexical.standing import Standing
from projections.lexical.tokens import Reading

_COUNTED_BELOW: Final = 1 << 16  # numbers of 16 bits are ordered by counting them


class Together:
    """Weighs many documents of one scope at once. Safe to share between threads."""

    def __init__(self, weigher: Weigher) -> None:
        """Take what weighs one."""
        self._weigher = weigher
        self._pairs = PairTokens(weigher.key)

    def arriving(self, documents: Sequence[tuple[Document, int]]) -> list[tuple[Weighed, Standing]]:
        """Return what ``Weigher.arriving`` does of each document and its place in its source.

        Raises:
            ValueError: a field that the profile does not know.
        """
        weigher = self._weigher
        if len(documents) < limits.LEXICAL_TOGETHER_MIN_DOCUMENTS:
            return [weigher.arriving(document, order) for document, order in documents]
        readings: dict[str, Reading] = {}
        for document, _ in documents:
            weigher.read_apart(document, readings)
        weighed = self._weighed([document for document, _ in documents], readings)
        standings = [weigher.stands(document, order, readings) for document, order in documents]
        return list(zip(weighed, standings, strict=True))

    def _weighed(self, documents: Sequence[Document], readings: dict[str, Reading]) -> list[Weighed]:
        """Return the documents weighed, whose texts were read."""
        fields = self._weigher.fields
        slots, texts = _laid_out(fields, documents, readings)
        lengths = np.zeros(len(documents) * len(fields))
        np.add.at(lengths, slots, [text.length for text in texts])
        slot, high, low = self._tokens(slots, texts, lengths.size)
        order = token_order(high, low)  # stable: of a token the documents ascend, and of a document the fields
        high, low, slot = high[order], low[order], slot[order]
        new_token = _changes(high) | _changes(low)
        counted = np.flatnonzero(new_token | _changes(slot))
        counts = np.diff(counted, append=slot.size)
        slot, new_token = slot[counted], new_token[counted]
        factors = field_factors(fields, np.arange(lengths.size) % len(fields), lengths)
        number = slot // len(fields)
        entries = np.flatnonzero(new_token | _changes(number))
        frequencies = _sums(factors[slot] * counts, entries)
        held = counted[entries]
        return _by_document(number[entries], high[held], low[held], impacts(frequencies), len(documents))

    def _tokens(self, slots: Places, texts: Sequence[Reading], bound: int) -> tuple[Places, Words, Words]:
        """Return the tokens of all terms, as often as they occur, and the slot of each, ascending."""
        high, low = halves(b"".join(self._weigher.key.tokens(chain.from_iterable([text.terms for text in texts]))))
        pair_high, pair_low = self._pairs.of(list(chain.from_iterable([text.runs for text in texts])))
        of_terms = np.repeat(slots, [len(text.terms) for text in texts])
        slot = np.concatenate((of_terms, np.repeat(slots, [text.pairs for text in texts])))
        order = _ordered(slot, bound)
        return slot[order], np.concatenate((high, pair_high))[order], np.concatenate((low, pair_low))[order]


def _laid_out(
    fields: Sequence[Field], documents: Sequence[Document], readings: dict[str, Reading]
) -> tuple[Places, list[Reading]]:
    """Return all texts and their slots, ascending: one for each field of each document."""
    places = {field.name: place for place, field in enumerate(fields)}
    slots: list[int] = []
    texts: list[Reading] = []
    first = 0
    try:
        for document in documents:
            for slot, text in sorted([(places[name] + first, text) for name, text in document.fields]):
                slots.append(slot)
                texts.append(readings[text])
            first += len(places)
    except KeyError as error:
        raise ValueError("a field that the profile does not know") from error
    return np.array(slots, np.int64), texts


def _ordered(numbers: Places, bound: int) -> Places:
    """Return the stable order of numbers under a bound."""
    return np.argsort(numbers.astype(np.uint16) if bound <= _COUNTED_BELOW else numbers, kind="stable")


def _changes(values: npt.NDArray[np.generic]) -> npt.NDArray[np.bool_]:
    """Return where a value is another than the one before it; the first one is."""
    changes = np.ones(values.size, np.bool_)
    np.not_equal(values[1:], values[:-1], out=changes[1:])
    return changes


def _sums(weighted: npt.NDArray[np.float64], starts: Places) -> npt.NDArray[np.float64]:
    """Return the sums of stretches, from left to right: numpy's own add in another order, and floats tell."""
    sums = weighted[starts]
    sizes = np.diff(starts, append=weighted.size)
    for step in range(1, int(sizes.max(initial=0))):
        longer = np.flatnonzero(sizes > step)
        sums[longer] += weighted[starts[longer] + step]
    return sums


def _by_document(number: Places, high: Words, low: Words, weights: Impacts, count: int) -> list[Weighed]:
    """Return each document's entries, which are given by their tokens, ascending."""
    order = _ordered(number, count)
    tokens, greatest = token_rows(high[order], low[order]).tobytes(), weights[order].tobytes()
    bounds = [0, *np.cumsum(np.bincount(number, minlength=count)).tolist()]
    return [
        Weighed(tokens[begin * TOKEN_BYTES : end * TOKEN_BYTES], greatest[begin:end]) for begin, end in pairwise(bounds)
    ]
