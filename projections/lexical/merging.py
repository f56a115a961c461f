"""Merging: many segments into one, in token order, without the documents that are gone.

The same walk serves the merge of segments on disk and the digest of the whole content. Each piece it gives holds the
lists of a range of tokens and is small, so that memory does not grow with the segments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from journal import limits
from projections.lexical.postings import Ids, Impacts, Lists, Places, Segment, Words, group_starts, token_order


def merged(segments: Sequence[Segment], dead: Ids) -> Iterator[Lists]:
    """Give the lists of all segments in pieces, tokens ascending.

    Within a list the segments' postings follow in the order of the segments, which is that of the ordinals where the
    segments are neighbours. ``dead`` holds the ordinals to leave out, ascending.
    """
    entries = _Entries.of(segments)
    for first, last in entries.ranges():
        piece = _piece(segments, entries, first, last, dead)
        if piece.ids.size:
            yield piece


@dataclass(frozen=True, slots=True)
class _Entries:
    """Every dictionary entry of every segment, in token order, then in the order of the segments."""

    high: Words
    low: Words
    source: Places  # which segment
    place: Places  # and where in its dictionary
    count: Places

    @classmethod
    def of(cls, segments: Sequence[Segment]) -> _Entries:
        """Gather and order the entries."""
        if not segments:
            nothing = np.zeros(0, np.int64)
            return cls(np.zeros(0, np.uint64), np.zeros(0, np.uint64), nothing, nothing, nothing)
        high = np.concatenate([segment.high for segment in segments])
        low = np.concatenate([segment.entries["low"] for segment in segments])
        count = np.concatenate([segment.entries["count"] for segment in segments]).astype(np.int64)
        source = np.repeat(np.arange(len(segments)), [segment.high.size for segment in segments])
        place = np.concatenate([np.arange(segment.high.size) for segment in segments])
        order = token_order(high, low)
        return cls(high[order], low[order], source[order], place[order], count[order])

    def ranges(self) -> Iterator[tuple[int, int]]:
        """Cut the entries into ranges to work on; a token's entries stay together."""
        begins = np.append(group_starts(self.high, self.low), self.high.size)
        postings = np.append(0, np.cumsum(self.count))[begins]  # before each token, and after the last
        at, size = 0, begins.size - 1
        while at < size:
            bound = postings[at] + limits.LEXICAL_PIECE_POSTINGS
            end = min(size, max(at + 1, int(np.searchsorted(postings, bound))))
            yield int(begins[at]), int(begins[end])
            at = end


def _piece(segments: Sequence[Segment], entries: _Entries, first: int, last: int, dead: Ids) -> Lists:
    """Return the lists of a range of entries."""
    high, low = entries.high[first:last], entries.low[first:last]
    count = entries.count[first:last]
    ids, impacts = _gathered(segments, entries, first, last)
    begins = group_starts(high, low)
    if dead.size:
        kept = ~np.isin(ids, dead)
        count = np.add.reduceat(kept, np.append(0, np.cumsum(count[:-1])), dtype=np.int64)
        ids, impacts = ids[kept], impacts[kept]
    sizes = np.add.reduceat(count, begins)
    filled = sizes > 0
    begins = begins[filled]
    return Lists(high[begins], low[begins], np.append(0, np.cumsum(sizes[filled])), ids, impacts)


def _gathered(segments: Sequence[Segment], entries: _Entries, first: int, last: int) -> tuple[Ids, Impacts]:
    """Return the postings of a range of entries, in the order of the entries.

    A segment's own entries keep their order among all, so that what it gives to the range is one stretch of it.
    """
    source, place, count = entries.source[first:last], entries.place[first:last], entries.count[first:last]
    local = np.empty(last - first, np.int64)
    ids: list[Ids] = []
    impacts: list[Impacts] = []
    base = 0
    for number, segment in enumerate(segments):
        mine = np.flatnonzero(source == number)
        if mine.size == 0:
            continue
        stretch = segment.read(int(place[mine[0]]), int(place[mine[-1]]) + 1)
        ids.append(stretch[0])
        impacts.append(stretch[1])
        ends = np.cumsum(count[mine])
        local[mine] = ends - count[mine] + base
        base += stretch[0].size
    before = np.append(0, np.cumsum(count[:-1]))
    places = np.repeat(local - before, count) + np.arange(base)
    return np.concatenate(ids)[places], np.concatenate(impacts)[places]


@dataclass(frozen=True, slots=True)
class Size:
    """What a merge policy asks of a segment."""

    postings: int
    documents: int  # with the dead ones
    dead: int


def next_merge(sizes: Sequence[Size], *, inline: bool) -> tuple[int, int] | None:
    """Return the range of neighbouring segments, oldest first, to be merged next, or None.

    A segment of which a quarter is dead is written again. Else neighbours of a level are merged, with the smaller ones
    between and before them: two of a level, or four of the lowest. No merge makes a segment over the full size.
    ``inline`` leaves large merges to upkeep, as long as there are not too many segments that could still be merged.
    """
    mergeable = sum(2 * size.postings <= limits.LEXICAL_SEGMENT_POSTINGS for size in sizes)
    bound = limits.LEXICAL_SEGMENT_POSTINGS
    if inline and mergeable <= limits.LEXICAL_SEGMENTS_MAX:
        bound = limits.LEXICAL_INLINE_POSTINGS
    for at, size in enumerate(sizes):
        if size.dead and size.dead * 4 >= size.documents and size.postings <= bound:
            return at, at + 1
    levels = [_level(size.postings) for size in sizes]
    for level in sorted(set(levels)):
        if levels.count(level) < _least(level):
            continue
        for first, run_end in _runs(levels, level):
            last = run_end
            while sum(size.postings for size in sizes[first:last]) > bound:
                last -= 1
            if last - first > 1:
                return first, last
    return None


def _runs(levels: Sequence[int], level: int) -> Iterator[tuple[int, int]]:
    """Give every run of neighbours of a level that are enough to merge, oldest first.

    A run ends with the last of the level. Smaller ones between and before them belong to it, a larger one ends it.
    """
    first = last = count = 0
    for at, other in enumerate([*levels, level + 1]):
        if other == level:
            last, count = at + 1, count + 1
        elif other > level:
            if count >= _least(level):
                yield first, last
            first, count = at + 1, 0


def _least(level: int) -> int:
    """Return how many neighbours of a level are enough to be merged."""
    return 2 if level else limits.LEXICAL_LOWEST_MERGE


def _level(postings: int) -> int:
    """Return the level of a segment of this size; the smallest are of level 0."""
    level, bound = 0, limits.LEXICAL_LEVEL_POSTINGS
    while postings >= bound:
        level, bound = level + 1, bound * limits.LEXICAL_LEVEL_FACTOR
    return level
