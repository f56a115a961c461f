"""Whether a generation agrees with itself where a search or a fold relies on it and the digest does not tell."""

from __future__ import annotations

import struct
from collections import Counter
from typing import Final

import numpy as np

from projections.environment import Unusable
from projections.lexical.merging import merged
from projections.lexical.postings import Entries, Segment
from projections.lexical.tables import IndexTables, SegmentRow

UNREADABLE: Final = (Unusable, ValueError, IndexError, OverflowError, struct.error)
"""What reading a damaged table may raise."""


def is_consistent(tables: IndexTables) -> bool:
    """Return whether counts, numbers, bounds and the order of lists are what they must be.

    Raises:
        One of ``UNREADABLE``: a table is damaged.
    """
    rows = tables.segments()
    ends = [*(row.first_ordinal for row in rows[1:]), tables.state().next_ordinal]
    return (
        _counts_agree(tables, rows)
        and _numbers_agree(tables, rows)
        and _places_agree(tables)
        and all(_segment_agrees(tables, row, end) for row, end in zip(rows, ends, strict=False))
    )


def _counts_agree(tables: IndexTables, rows: list[SegmentRow]) -> bool:
    """Whether documents, in force and dead, are as many as the counts say, and the dead hold what is counted."""
    state, dead = tables.state(), tables.dead(rows)
    counts: Counter[bytes] = Counter()
    for ordinal in dead.tolist():
        counts.update(tables.forward(ordinal).token_list())
    in_force = list(tables.in_force())
    known = tables.rows(np.array([ordinal for _, ordinal in in_force], np.uint32))
    return (
        state.documents == len(in_force)
        and state.dead == dead.size == sum(row.dead for row in rows)
        and sum(row.documents for row in rows) == len(in_force) + dead.size
        and tables.dead_counts() == counts
        and known["cursor"].tolist() == [cursor for cursor, _ in in_force]
    )


def _numbers_agree(tables: IndexTables, rows: list[SegmentRow]) -> bool:
    """Whether the next numbers are those that follow what was given out."""
    state = tables.state()
    return state.next_ordinal == tables.row_count() and all(row.number < state.next_segment for row in rows)


def _places_agree(tables: IndexTables) -> bool:
    """Whether every document in force that does not stand alone stands in its group, and nothing else does."""
    places = {}
    for cursor, ordinal in tables.in_force():
        standing = tables.standing(ordinal)
        if not standing.is_alone:
            places[standing.group + struct.pack(">QQ", standing.order, cursor)] = ordinal
    return places == dict(tables.places())


def _segment_agrees(tables: IndexTables, row: SegmentRow, end: int) -> bool:
    """Whether a segment's entries are in order and its lists are what they say; its ordinals are below ``end``."""
    segment = tables.segment(row.number)
    return _entries_agree(tables, row, segment.entries) and _lists_agree(segment, row.first_ordinal, end)


def _entries_agree(tables: IndexTables, row: SegmentRow, entries: Entries) -> bool:
    """Whether the lists of each chunk fill it without a gap, and all of them are the segment's postings."""
    sizes = tables.chunk_sizes(row.number)
    starts, counts = entries["start"].astype(np.int64), entries["count"].astype(np.int64)
    chunks = entries["chunk"].astype(np.int64)
    before = np.cumsum([0, *sizes])
    ends = np.cumsum(counts)
    return bool(
        sum(sizes) == counts.sum() == row.postings
        and (chunks < len(sizes)).all()
        and (starts + before[chunks] == ends - counts).all()
        and (starts < np.array(sizes, np.int64)[chunks]).all()
    )


def _lists_agree(segment: Segment, first: int, end: int) -> bool:
    """Whether every list ascends within the segment's ordinals, and has the greatest impact that its entry says."""
    greatest = segment.entries["greatest"]
    at = 0
    for piece in merged([segment], np.zeros(0, np.uint32)):
        most = np.maximum.reduceat(piece.impacts, piece.starts[:-1])
        steps = np.diff(piece.ids.astype(np.int64))
        steps[piece.starts[1:-1] - 1] = 1  # from one list to the next
        if not (
            np.array_equal(most, greatest[at : at + most.size])
            and (steps > 0).all()
            and first <= piece.ids.min() <= piece.ids.max() < end
        ):
            return False
        at += most.size
    return at == segment.high.size
