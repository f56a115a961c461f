"""The joint dictionary: in which lists of which segments a token stands, of many segments at once.

To look a token up in ten segments takes ten times as long as in one, and segments never change once written. So a
process that goes on searching a generation takes the dictionaries of its large segments together, a segment a search,
oldest first. What it keeps is a copy, without any postings; it belongs to the open generation and goes with it.

    tokens    high, low u64, ascending; starts: the token's first entry; greatest: impact of all its lists
    entries   chunk | start | end u32 each: a list's place in its chunk, in postings; of one token in the order of the
              segments, so that the lists follow each other as their ordinals do
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from journal import limits
from projections.lexical.postings import POSTING_BYTES, Buffer, Impacts, Places, Segment, Words

Numbers = tuple[int, ...]
"""Segments by number, in the order of their ordinals."""
Entries = npt.NDArray[np.uint32]
Found = tuple[int, int, list[Buffer], list[Buffer]]
"""A token's lists: which of the tokens asked for, its greatest impact, the lists' ids (u32) and their impacts."""


@dataclass(frozen=True, slots=True, eq=False)
class JointDictionary:
    """The dictionaries of the first segments of a generation. It never changes; a further segment makes another."""

    numbers: Numbers
    chunks: tuple[tuple[int, int], ...]  # segment and chunk
    high: Words
    low: Words
    starts: Places  # and the end of the last
    entries: Entries
    impacts: Impacts  # the greatest of each entry
    greatest: Impacts  # and of each token

    @classmethod
    def of_nothing(cls) -> Self:
        """Return that of no segment."""
        words, impacts = np.zeros(0, np.uint64), np.zeros(0, np.uint8)
        return cls((), (), words, words, np.zeros(1, np.int64), np.zeros((0, 3), np.uint32), impacts, impacts)

    def find(self, high: Words, low: Words, chunk: Callable[[int, int], Buffer]) -> list[Found]:
        """Return the lists of those tokens, given by their halves, that are here.

        ``chunk`` gives the value of a segment's chunk; views last as long as what it returns.
        """
        places = self.high.searchsorted(high)
        is_here = (self.high.take(places, mode="clip") == high) & (self.low.take(places, mode="clip") == low)
        asked = is_here.nonzero()[0]
        places = places[asked]
        values: dict[int, tuple[Buffer, int]] = {}
        found: list[Found] = []
        for number, first, last, greatest in zip(
            asked.tolist(), self.starts[places].tolist(), self.starts[places + 1].tolist(),
            self.greatest[places].tolist(), strict=True,
        ):  # fmt: skip
            ids: list[Buffer] = []
            impacts: list[Buffer] = []
            for at, start, end in self.entries[first:last].tolist():
                if at not in values:
                    value = chunk(*self.chunks[at])
                    values[at] = value, len(value) // POSTING_BYTES * 4
                value, behind = values[at]
                ids.append(value[4 * start : 4 * end])
                impacts.append(value[behind + start : behind + end])
            found.append((number, greatest, ids, impacts))
        return found

    def joined(self, number: int, segment: Segment) -> Self | None:
        """Return it with the segment that comes next; None where two tokens share their high half, which never is."""
        high, here = segment.high, segment.entries
        low = here["low"].astype(np.uint64)
        places = self.high.searchsorted(high)
        is_known = self.high.take(places, mode="clip") == high if self.high.size else np.zeros(high.size, bool)
        if (high[1:] == high[:-1]).any() or (self.low[places[is_known]] != low[is_known]).any():
            return None
        before = places[~is_known]
        counts = np.diff(self.starts)
        counts[places[is_known]] += 1
        starts = np.append(0, np.insert(counts, before, 1).cumsum())
        # A token's new list comes after those that it has; that of a new token before the next token's first.
        at = self.starts[places + is_known] + np.arange(high.size)
        rows = np.stack((here["chunk"] + np.uint32(len(self.chunks)), here["start"], here["start"] + here["count"]), 1)
        impacts = _inserted(self.impacts, at, here["greatest"].astype(np.uint8))
        return type(self)(
            (*self.numbers, number),
            (*self.chunks, *((number, chunk) for chunk in range(segment.chunk_count))),
            np.insert(self.high, before, high[~is_known]),
            np.insert(self.low, before, low[~is_known]),
            starts,
            _inserted(self.entries, at, rows),
            impacts,
            np.maximum.reduceat(impacts, starts[:-1]),
        )

    def cut(self, size: int) -> Self:
        """Return what is left of it when only so many segments stay, the first."""
        numbers = self.numbers[:size]
        chunks = tuple(chunk for chunk in self.chunks if chunk[0] in numbers)
        kept = self.entries[:, 0] < len(chunks)
        if not kept.any():
            return self.of_nothing()
        counts = np.add.reduceat(kept, self.starts[:-1], dtype=np.int64)
        held = counts > 0
        starts, impacts = np.append(0, counts[held].cumsum()), self.impacts[kept]
        greatest = np.maximum.reduceat(impacts, starts[:-1])
        return type(self)(
            numbers, chunks, self.high[held], self.low[held], starts, self.entries[kept], impacts, greatest
        )


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

    def dictionary(
        self, segments: Sequence[tuple[int, int]], age: int, segment: Callable[[int], Segment]
    ) -> JointDictionary | None:
        """Return the joint dictionary of the first segments of a state that is persisted; None where there is none.

        A state's segments are given by number and postings, in the order of their ordinals; ``age`` is the number of
        its next segment. Where this is the newest state that was searched, another segment may be joined.
        """
        if self._mutex.acquire(blocking=False):
            try:
                if age >= self._age:
                    self._age = age
                    self._bring(segments, segment)
            finally:
                self._mutex.release()
        return self.known([number for number, _ in segments])

    def known(self, numbers: Sequence[int]) -> JointDictionary | None:
        """Return the joint dictionary where it is of the first of these segments; None where there is none."""
        found = self._dictionary
        size = len(found.numbers)
        return found if size and found.numbers == tuple(numbers[:size]) else None

    def _bring(self, segments: Sequence[tuple[int, int]], segment: Callable[[int], Segment]) -> None:
        """Leave out what was merged away, and join the next segment if it is worth it."""
        self._searches += 1
        first = self._first_searched
        if len(first) != len(segments) or any(number not in first for number, _ in segments):
            first = self._first_searched = {number: first.get(number, self._searches) for number, _ in segments}
        now = self._dictionary
        size = len(now.numbers)
        same = 0
        while same < min(size, len(segments)) and segments[same][0] == now.numbers[same]:
            same += 1
        if same < size:
            self._dictionary = now.cut(same)
        elif size < len(segments) and self._is_due(segments[size:]):
            number, wanted = segments[size][0], segment(segments[size][0])
            fits = now.impacts.size + wanted.high.size <= limits.LEXICAL_JOINT_ENTRIES
            joined = now.joined(number, wanted) if fits else None
            if joined is None:
                self._refused = number
            else:
                self._dictionary = joined

    def _is_due(self, segments: Sequence[tuple[int, int]]) -> bool:
        """Whether the first of these segments, none of which is joined, has been searched often enough to be."""
        number = segments[0][0]
        if number == self._refused or self._searches - self._first_searched[number] < limits.LEXICAL_JOINT_SEARCHES:
            return False
        return max(postings for _, postings in segments) >= limits.LEXICAL_LEVEL_POSTINGS  # smaller ones soon merge
