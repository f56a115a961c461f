"""The joint segment: a copy in memory of the lists of many segments, merged.

To look a token up in ten segments takes ten times as long as in one, and segments never change once written. So a
process that goes on searching a generation merges the newest of them in memory, as many as fit, a segment a search,
oldest first. Nothing is written. What it keeps belongs to the open generation and goes with it.

    high      high halves of the tokens u64, ascending
    rest      low half u64 | the list's first posting u64 | in one u64: its postings, greatest impact u8
    postings  ids u32, impacts u8; a token's lists follow each other in the order of the segments
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from journal import limits
from projections.lexical.postings import Found, Ids, Impacts, Places, Segment, Words

if TYPE_CHECKING:
    from projections.lexical.tables import SegmentRow

_IMPACT_BITS = 8
_SMALL = 16  # a segment is small beside others that are so many times larger
_POSTINGS_A_SEARCH = 1_024  # that can be copied while one token is looked up in one segment more
_NEVER = sys.maxsize


@dataclass(frozen=True, slots=True, eq=False)
class JointSegment:
    """Segments that follow each other, merged. It never changes; a further segment makes another."""

    numbers: tuple[int, ...]  # of the segments, in the order of their ordinals
    firsts: tuple[int, ...]  # ordinals
    high: Words
    rest: Words  # (tokens, 3)
    ids: Ids
    impacts: Impacts

    @classmethod
    def of_nothing(cls) -> Self:
        """Return that of no segment."""
        nothing = np.zeros(0, np.uint64)
        return cls((), (), nothing, nothing.reshape(0, 3), np.zeros(0, np.uint32), np.zeros(0, np.uint8))

    @property
    def low(self) -> Words:
        """The low halves of the tokens."""
        return self.rest[:, 0]

    @property
    def counts(self) -> Places:
        """How many postings each token has."""
        return (self.rest[:, 2] >> np.uint64(_IMPACT_BITS)).astype(np.int64)

    def find(self, high: Words, low: Sequence[int]) -> list[Found]:
        """Return the lists of those tokens, given by their halves, that are here (as ``Segment.find`` does)."""
        if not self.high.size:
            return []
        places = self.high.searchsorted(high)
        is_here = (self.high.take(places, mode="clip") == high).tolist()
        ids, impacts = self.ids.data.cast("B"), self.impacts.data
        found: list[Found] = []
        for number, (own, first, packed) in enumerate(self.rest.take(places, 0, mode="clip").tolist()):
            if is_here[number] and own == low[number]:
                count = packed >> _IMPACT_BITS
                end = first + count
                found.append((number, count, packed & 255, ids[4 * first : 4 * end], impacts[first:end]))
        return found

    def joined(self, row: SegmentRow, segment: Segment) -> Self | None:
        """Return it with the segment that comes next; None where two tokens share their high half, which never is."""
        if not segment.high.size:
            return type(self)(
                (*self.numbers, row.number), (*self.firsts, row.first_ordinal),
                self.high, self.rest, self.ids, self.impacts,
            )  # fmt: skip
        high, here = segment.high, segment.entries
        low, sizes = here["low"].astype(np.uint64), here["count"].astype(np.int64)
        places = self.high.searchsorted(high)
        is_known = self.high.take(places, mode="clip") == high if self.high.size else np.zeros(high.size, bool)
        if (high[1:] == high[:-1]).any() or (self.low[places[is_known]] != low[is_known]).any():
            return None
        before, counts = places[~is_known], self.counts
        starts = np.append(0, counts.cumsum())
        counts[places[is_known]] += sizes[is_known]
        # A token's new list comes after those that it has; that of a new token before the next token's first.
        at = np.repeat(starts[places + is_known], sizes) + np.arange(sizes.sum())
        ids, impacts = segment.read(0, high.size)
        impacts = _inserted(self.impacts, at, impacts)
        counts = np.insert(counts, before, sizes[~is_known])
        return type(self)(
            (*self.numbers, row.number),
            (*self.firsts, row.first_ordinal),
            np.insert(self.high, before, high[~is_known]),
            _rest(np.insert(self.low, before, low[~is_known]), counts, impacts),
            _inserted(self.ids, at, ids),
            impacts,
        )

    def cut(self, size: int) -> Self:
        """Return what is left of it when only so many segments stay, the first."""
        if size == len(self.numbers):
            return self
        kept = self.ids < self.firsts[size]
        if not size or not kept.any():
            return self.of_nothing()
        counts = np.add.reduceat(kept, self.rest[:, 1].astype(np.int64), dtype=np.int64)
        held, impacts = counts > 0, self.impacts[kept]
        rest = _rest(self.low[held], counts[held], impacts)
        return type(self)(self.numbers[:size], self.firsts[:size], self.high[held], rest, self.ids[kept], impacts)


def _rest(low: Words, counts: Places, impacts: Impacts) -> Words:
    """Return what is kept of tokens beside their high halves."""
    firsts = np.append(0, counts[:-1].cumsum())
    rest = np.empty((low.size, 3), np.uint64)
    rest[:, 0], rest[:, 1] = low, firsts
    rest[:, 2] = counts << _IMPACT_BITS | np.maximum.reduceat(impacts, firsts)
    return rest


def _inserted(array: npt.NDArray[Any], at: Places, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the array with rows at these places of what comes out, ascending."""
    out = np.empty((len(array) + len(rows), *array.shape[1:]), array.dtype)
    old = np.ones(len(out), bool)
    old[at] = False
    out[at] = rows
    out[old] = array
    return out


class _AtRest(NamedTuple):
    """A persisted state of which nothing is to be joined before some search."""

    value: bytes
    rows: list[SegmentRow]
    joint: JointSegment | None
    until: int


class Joining:
    """Merges the segments of an open generation in memory while it is searched. Safe for several threads."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._joint = JointSegment.of_nothing()
        self._age = 0  # the next segment's number in the newest state that was searched
        self._searches = 0
        self._first_searched: dict[int, int] = {}  # segment -> the search that met it first
        self._refused = -1
        self._at_rest: _AtRest | None = None

    def at_rest(self, value: bytes) -> tuple[list[SegmentRow], JointSegment | None] | None:
        """Return the segments of a persisted state, given by its value, where nothing of it is to be joined now."""
        known = self._at_rest
        if known is None or known.value != value or self._searches + 1 >= known.until:
            return None
        self._searches += 1  # two threads may count one search; nothing but patience depends on it
        return known.rows, known.joint

    def joint(
        self, value: bytes, rows: list[SegmentRow], age: int, segment: Callable[[int], Segment]
    ) -> JointSegment | None:
        """Return the joint segment of segments of a state that is persisted; None where there is none.

        The segments come in the order of their ordinals; ``age`` is the number of the next one. Where this is the
        newest state that was searched, another segment may be joined.
        """
        if self._mutex.acquire(blocking=False):
            try:
                if age >= self._age:
                    self._age = age
                    self._bring(rows, segment)
                    self._at_rest = _AtRest(value, rows, self.known(rows), self._due(rows))
            finally:
                self._mutex.release()
        return self.known(rows)

    def known(self, rows: list[SegmentRow]) -> JointSegment | None:
        """Return the joint segment where all that it has joined is among these segments; None where there is none."""
        joint = self._joint
        if not joint.numbers:
            return None
        numbers = [row.number for row in rows]
        if joint.numbers[0] not in numbers:
            return None
        at = numbers.index(joint.numbers[0])
        return joint if joint.numbers == tuple(numbers[at : at + len(joint.numbers)]) else None

    def _bring(self, rows: list[SegmentRow], segment: Callable[[int], Segment]) -> None:
        """Leave out what was merged away, and join the next segment if it was searched often enough to be worth it."""
        self._searches += 1
        first, now = self._first_searched, self._searches
        self._first_searched = {row.number: first.get(row.number, now) for row in rows}
        that_fit = _that_fit(rows)
        same = 0
        for row, number in zip(that_fit, self._joint.numbers, strict=False):
            if row.number != number:
                break
            same += 1
        if same < len(self._joint.numbers):
            self._joint = self._joint.cut(same)
            return
        left = self._left(rows)
        if left and now >= self._due(rows):
            joined = self._joint.joined(left[0], segment(left[0].number))
            if joined is None:
                self._refused = left[0].number
            else:
                self._joint = joined

    def _due(self, rows: list[SegmentRow]) -> int:
        """Return at which search the next segment is to be joined.

        To join takes as long as what is joined already is large, so that a small one waits until it has cost as much;
        most are merged before.
        """
        left = self._left(rows)
        if not left:
            return _NEVER
        patience, postings = limits.LEXICAL_JOINT_SEARCHES, self._joint.ids.size
        if left[0].postings * _SMALL < postings:
            patience = max(patience, postings // _POSTINGS_A_SEARCH)
        return self._first_searched[left[0].number] + patience

    def _left(self, rows: list[SegmentRow]) -> list[SegmentRow]:
        """Return the segments that are not joined yet and will be."""
        left = _that_fit(rows)[len(self._joint.numbers) :]
        return left if left and left[0].number != self._refused else []


def _that_fit(rows: list[SegmentRow]) -> list[SegmentRow]:
    """Return the newest segments, as many as may be held in memory. The oldest are the largest."""
    postings = 0
    for at in range(len(rows) - 1, -1, -1):
        postings += rows[at].postings
        if postings > limits.LEXICAL_JOINT_POSTINGS:
            return rows[at + 1 :]
    return rows
