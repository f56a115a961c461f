"""Writing a delta into a generation, and merging its segments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from journal import limits
from projections.lexical.delta import Arrival, Delta
from projections.lexical.merging import Size, merged, next_merge
from projections.lexical.postings import Lists
from projections.lexical.tables import SegmentRow, State, WritableIndexTables, document_rows


def write_delta(tables: WritableIndexTables, delta: Delta) -> None:
    """Write the net effect of a batch, and merge what is small."""
    for subject, cursor in delta.captured.items():
        tables.put_subject(subject, cursor)
    for subject in delta.ended:
        tables.delete_subject(subject)
    if delta.removed:
        _remove(tables, delta.removed)
    for arrivals in _builds(delta.added):
        _add(tables, arrivals)
    if delta.removed or delta.added:
        while merge_once(tables, inline=True):
            pass


def _builds(arrivals: Sequence[Arrival]) -> Iterator[list[Arrival]]:
    """Cut the arrivals so that each build's work space is bounded."""
    build: list[Arrival] = []
    postings = 0
    for arrival in arrivals:
        size = len(arrival.document.impacts)
        if build and postings + size > limits.LEXICAL_BUILD_POSTINGS:
            yield build
            build, postings = [], 0
        build.append(arrival)
        postings += size
    if build:
        yield build


def _add(tables: WritableIndexTables, arrivals: Sequence[Arrival]) -> None:
    """Add documents as one new segment."""
    state = tables.state()
    first = state.next_ordinal
    sequence = tables.sequence
    for ordinal, arrival in enumerate(arrivals, first):
        tables.put_forward(ordinal, arrival.document)
        tables.put_ordinal(arrival.cursor, ordinal)
        sequence.put(arrival.cursor, arrival.standing, ordinal)
    tables.put_rows(first, document_rows((new.cursor, new.digest, new.standing) for new in arrivals))
    lists = Lists.of([(ordinal, arrival.document) for ordinal, arrival in enumerate(arrivals, first)])
    postings = tables.write_lists(state.next_segment, lists.pieces())
    row = SegmentRow(state.next_segment, first, len(arrivals), 0, postings)
    tables.put_segments([*tables.segments(), row])
    tables.put_state(
        State(
            documents=state.documents + len(arrivals),
            dead=state.dead,
            next_ordinal=first + len(arrivals),
            next_segment=state.next_segment + 1,
        )
    )


def _remove(tables: WritableIndexTables, removed: Sequence[tuple[int, int]]) -> None:
    """Mark documents dead in their segments, and count their tokens."""
    counts: Counter[bytes] = Counter()
    for cursor, ordinal in removed:
        counts.update(tables.forward(ordinal).token_list())
        tables.delete_ordinal(cursor)
        tables.sequence.delete(cursor, tables.standing(ordinal))
    for token, count in counts.items():
        tables.put_dead_count(token, tables.dead_count(token) + count)
    rows = tables.segments()
    dead = np.sort(np.array([ordinal for _, ordinal in removed], np.uint32))
    homes = np.searchsorted([row.first_ordinal for row in rows], dead, "right") - 1
    for home in np.unique(homes).tolist():
        row = rows[home]
        together = np.union1d(tables.dead([row]), dead[homes == home])
        tables.put_dead(row.number, together)
        rows[home] = row._replace(dead=together.size)
    tables.put_segments(rows)
    state = tables.state()
    tables.put_state(
        replace(state, documents=state.documents - len(removed), dead=state.dead + len(removed)),
    )


def merge_once(tables: WritableIndexTables, *, inline: bool) -> bool:
    """Do the next merge that is due; return whether there was one. The content stays what it was."""
    rows = tables.segments()
    due = next_merge([Size(row.postings, row.documents, row.dead) for row in rows], inline=inline)
    if due is None:
        return False
    first, last = due
    rows[first:last] = _merge(tables, rows[first:last])
    tables.put_segments(rows)
    return True


def purge(tables: WritableIndexTables) -> None:
    """Drop for good what dead documents left: postings, tokens, rows. The content stays what it was."""
    rows: list[SegmentRow] = []
    for row in tables.segments():
        rows += _merge(tables, [row]) if row.dead else [row]
    tables.put_segments(rows)
    tables.blank_rows(np.array([ordinal for _, ordinal in tables.in_force()], np.uint32))


def _merge(tables: WritableIndexTables, rows: Sequence[SegmentRow]) -> list[SegmentRow]:
    """Merge neighbouring segments into one, drop their dead for good, and return what is left: one row, or none."""
    dead = tables.dead(rows)
    documents = sum(row.documents for row in rows) - dead.size
    state = tables.state()
    left: list[SegmentRow] = []
    if documents:
        pieces = merged([tables.segment(row.number, copied=True) for row in rows], dead)
        postings = tables.write_lists(state.next_segment, pieces)
        left.append(SegmentRow(state.next_segment, rows[0].first_ordinal, documents, 0, postings))
    for row in rows:
        tables.drop_segment(row.number)
    counts: Counter[bytes] = Counter()
    for ordinal in dead.tolist():
        counts.update(tables.forward(ordinal).token_list())
        tables.delete_forward(ordinal)
    for token, count in counts.items():
        tables.put_dead_count(token, tables.dead_count(token) - count)
    tables.put_state(replace(state, dead=state.dead - dead.size, next_segment=state.next_segment + 1))
    return left
