"""The joint dictionary: in which lists of which segments a token stands, of many segments at once.

To look a token up in ten segments takes ten times as long as in one, and segments never change once written. So a
process that goes on searching a generation takes the dictionaries of its large segments together, a segment a search,
oldest first. What it keeps is a copy, without any postings; it belongs to the open generation and goes with it.

    high      high halves of the tokens u64, ascending
    rest      low half u64 | in one u64: its first entry u32, how many it has u24, greatest impact of all its lists u8
    entries   chunk | start | end u32 each: a list's place in its chunk, in postings; of one token in the order of the
              segments, so that the lists follow each other as their ordinals do
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import numpy.typing as npt

from journal import limits
from projections.lexical.postings import (
    Buffer,
    Impacts,
    Places,
    Segment,
    Words,
    chunk_key,
    segment_of,
)  # fmt: skip
from projections.lexical.remembered import JoinedLists, RememberedLists

if TYPE_CHECKING:
    from projections.lexical.tables import SegmentRow

Numbers = tuple[int, ...]
"""Segments by number, in the order of their ordinals."""
Entries = npt.NDArray[np.uint32]

_NO_LISTS: Final = JoinedLists()
_HALVES: Final = struct.Struct(">QQ")
_COUNT_MAX: Final = 2**24 - 1


@dataclass(frozen=True, slots=True, eq=False)
class JointDictionary:
    """The dictionaries of the first segments of a generation. It never changes; a further segment makes another."""

    numbers: Numbers
    chunks: tuple[bytes, ...]  # their keys
    sizes: tuple[int, ...]  # and postings
    high: Words
    rest: Words  # (tokens, 2)
    entries: Entries
    impacts: Impacts  # the greatest of each entry
    remembered: RememberedLists = field(default_factory=RememberedLists)

    @classmethod
    def of_nothing(cls) -> Self:
        """Return that of no segment."""
        words, rest = np.zeros(0, np.uint64), np.zeros((0, 2), np.uint64)
        return cls((), (), (), words, rest, np.zeros((0, 3), np.uint32), np.zeros(0, np.uint8))

    @property
    def low(self) -> Words:
        """The low halves of the tokens."""
        return self.rest[:, 0]

    @property
    def counts(self) -> Places:
        """How many entries each token has."""
        return (self.rest[:, 1] >> np.uint64(8) & np.uint64(_COUNT_MAX)).astype(np.int64)

    def lists(self, tokens: Sequence[bytes], chunk: Callable[[bytes], Buffer]) -> list[JoinedLists]:
        """Return the lists of distinct tokens, in their order. ``chunk`` gives the value of a chunk's key."""
        found = self.remembered.of(tokens)
        missing = [token for token, lists in zip(tokens, found, strict=True) if lists is None]
        if not missing:
            return [lists for lists in found if lists is not None]
        fresh = dict(zip(missing, self._found(missing, chunk), strict=True))
        self.remembered.remember(fresh)
        return [fresh[token] if lists is None else lists for token, lists in zip(tokens, found, strict=True)]

    def _found(self, tokens: Sequence[bytes], chunk: Callable[[bytes], Buffer]) -> Iterator[JoinedLists]:
        """Yield the lists of tokens, in their order."""
        if not self.high.size:
            yield from [_NO_LISTS] * len(tokens)
            return
        pairs = list(_HALVES.iter_unpack(b"".join(tokens)))
        places = self.high.searchsorted(np.array([high for high, _ in pairs], np.uint64))
        highs, rests = self.high.take(places, mode="clip"), self.rest.take(places, 0, mode="clip")
        values: dict[int, Buffer] = {}
        known, keys, sizes = values.get, self.chunks, self.sizes
        for pair, high, (low, packed) in zip(pairs, highs.tolist(), rests.tolist(), strict=True):
            if pair != (high, low):
                yield _NO_LISTS
                continue
            ids: list[Buffer] = []
            impacts: list[Buffer] = []
            count, first = 0, packed >> 32
            for at, start, end in self.entries[first : first + (packed >> 8 & _COUNT_MAX)].tolist():
                value = known(at)
                if value is None:
                    value = values[at] = chunk(keys[at])
                behind = 4 * sizes[at]
                ids.append(value[4 * start : 4 * end])
                impacts.append(value[behind + start : behind + end])
                count += end - start
            yield JoinedLists.of(count, packed & 0xFF, ids, impacts)

    def joined(self, number: int, segment: Segment) -> Self | None:
        """Return it with the segment that comes next; None where two tokens share their high half, which never is."""
        high, here = segment.high, segment.entries
        low = here["low"].astype(np.uint64)
        places = self.high.searchsorted(high)
        is_known = self.high.take(places, mode="clip") == high if self.high.size else np.zeros(high.size, bool)
        if (high[1:] == high[:-1]).any() or (self.low[places[is_known]] != low[is_known]).any():
            return None
        before = places[~is_known]
        counts = self.counts
        starts = np.append(0, counts.cumsum())
        counts[places[is_known]] += 1
        counts = np.insert(counts, before, 1)
        # A token's new list comes after those that it has; that of a new token before the next token's first.
        at = starts[places + is_known] + np.arange(high.size)
        rows = np.stack((here["chunk"] + np.uint32(len(self.chunks)), here["start"], here["start"] + here["count"]), 1)
        impacts = _inserted(self.impacts, at, here["greatest"].astype(np.uint8))
        return type(self)(
            (*self.numbers, number),
            (*self.chunks, *(chunk_key(number, chunk) for chunk in range(segment.chunk_count))),
            (*self.sizes, *np.bincount(here["chunk"], here["count"]).astype(np.int64).tolist()),
            np.insert(self.high, before, high[~is_known]),
            _rest(np.insert(self.low, before, low[~is_known]), counts, impacts),
            _inserted(self.entries, at, rows),
            impacts,
        )

    def cut(self, size: int) -> Self:
        """Return what is left of it when only so many segments stay, the first."""
        numbers = self.numbers[:size]
        chunks = tuple(key for key in self.chunks if segment_of(key) in numbers)
        kept = self.entries[:, 0] < len(chunks)
        if not kept.any():
            return self.of_nothing()
        counts = np.add.reduceat(kept, np.append(0, self.counts[:-1].cumsum()), dtype=np.int64)
        held, impacts = counts > 0, self.impacts[kept]
        rest = _rest(self.low[held], counts[held], impacts)
        return type(self)(
            numbers, chunks, self.sizes[: len(chunks)], self.high[held], rest, self.entries[kept], impacts
        )


def _rest(low: Words, counts: Places, impacts: Impacts) -> Words:
    """Return what is kept of tokens beside their high halves."""
    rest = np.empty((low.size, 2), np.uint64)
    rest[:, 0] = low
    if low.size:
        firsts = np.append(0, counts[:-1].cumsum())
        rest[:, 1] = firsts << 32 | counts << 8 | np.maximum.reduceat(impacts, firsts)
    return rest


def _inserted(array: npt.NDArray[Any], at: Places, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the array with rows at these places of what comes out, ascending."""
    out = np.empty((len(array) + len(rows), *array.shape[1:]), array.dtype)
    old = np.ones(len(out), bool)
    old[at] = False
    out[at] = rows
    out[old] = array
    return out


class Joining:
    """Joins the segments of an open generation while it is searched. Safe for several threads."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._dictionary = JointDictionary.of_nothing()
        self._age = 0  # the next segment's number in the newest state that was searched
        self._searches = 0
        self._first_searched: dict[int, int] = {}  # segment -> the search that met it first
        self._refused = -1
        self._at_rest: tuple[bytes, list[SegmentRow], JointDictionary | None] | None = None

    def at_rest(self, value: bytes) -> tuple[list[SegmentRow], JointDictionary | None] | None:
        """Return the segments of a persisted state, given by its value, where nothing of it is left to join."""
        known = self._at_rest
        return known[1:] if known is not None and known[0] == value else None

    def dictionary(
        self, value: bytes, rows: list[SegmentRow], age: int, segment: Callable[[int], Segment]
    ) -> JointDictionary | None:
        """Return the joint dictionary of the first segments of a state that is persisted; None where there is none.

        The segments come in the order of their ordinals; ``age`` is the number of the next one. Where this is the
        newest state that was searched, another segment may be joined.
        """
        if self._mutex.acquire(blocking=False):
            try:
                if age >= self._age:
                    self._age = age
                    self._bring(rows, segment)
                    if not self._left(rows):
                        self._at_rest = value, rows, self.known(rows)
            finally:
                self._mutex.release()
        return self.known(rows)

    def known(self, rows: list[SegmentRow]) -> JointDictionary | None:
        """Return the joint dictionary where it is of the first of these segments; None where there is none."""
        found = self._dictionary
        size = len(found.numbers)
        return found if size and found.numbers == tuple([row.number for row in rows[:size]]) else None

    def _bring(self, rows: list[SegmentRow], segment: Callable[[int], Segment]) -> None:
        """Leave out what was merged away, and join the next segment if it was searched often enough to be worth it."""
        self._searches += 1
        first, now = self._first_searched, self._searches
        self._first_searched = {row.number: first.get(row.number, now) for row in rows}
        if self.known(rows) is None and self._dictionary.numbers:
            same = 0
            for row, number in zip(rows, self._dictionary.numbers, strict=False):
                if row.number != number:
                    break
                same += 1
            self._dictionary = self._dictionary.cut(same)
            return
        left = self._left(rows)
        if left and now - self._first_searched[left[0].number] >= limits.LEXICAL_JOINT_SEARCHES:
            self._join(left[0].number, segment(left[0].number))

    def _join(self, number: int, segment: Segment) -> None:
        fits = self._dictionary.impacts.size + segment.high.size <= limits.LEXICAL_JOINT_ENTRIES
        joined = self._dictionary.joined(number, segment) if fits else None
        if joined is None:
            self._refused = number
        else:
            self._dictionary = joined

    def _left(self, rows: list[SegmentRow]) -> list[SegmentRow]:
        """Return the segments that are not joined yet and will be. Small ones at the end are not: they soon merge."""
        left = rows[len(self._dictionary.numbers) :]
        is_large = any(row.postings >= limits.LEXICAL_LEVEL_POSTINGS for row in left)
        return left if is_large and left[0].number != self._refused else []
