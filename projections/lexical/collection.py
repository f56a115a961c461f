"""The collection that a query sees: a generation's segments and counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from projections.lexical.joint import JointSegment
from projections.lexical.postings import Buffer, Ids, Segment, halves
from projections.lexical.scoring import term_weight
from projections.lexical.tables import IndexTables, Rows

Cursors = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]
Beside = Callable[[Cursors], npt.NDArray[np.bool_]]


@dataclass(slots=True)
class TermLists:
    """A query term's lists over all segments, ids ascending from part to part, the dead still in them."""

    token: bytes
    count: int = 0
    greatest: int = 0  # impact
    weight: int = 0
    ids: list[Buffer] = field(default_factory=list)  # u32
    impacts: list[Buffer] = field(default_factory=list)  # u8

    def add(self, count: int, greatest: int, ids: Buffer, impacts: Buffer) -> None:
        """Add the list of the segments that come next."""
        self.count += count
        self.greatest = max(self.greatest, greatest)
        self.ids.append(ids)
        self.impacts.append(impacts)

    @property
    def bound(self) -> int:
        """The most that the term can add to a score."""
        return self.weight * self.greatest


class Collection:
    """One snapshot of what is in force."""

    def __init__(self, tables: IndexTables) -> None:
        state = tables.state()
        rows, joint = tables.searched(state.next_segment)
        self._tables = tables
        self._parts: list[Segment | JointSegment] = []  # what to look into, in the order of the ordinals
        joined = () if joint is None else joint.numbers
        for row in rows:
            if row.number not in joined:
                self._parts.append(tables.segment(row.number))
            elif joint is not None and row.number == joined[0]:
                self._parts.append(joint)
        self.dead: Ids = tables.dead(rows)
        self.documents = state.documents
        self.span = state.next_ordinal  # every ordinal is below

    def term_lists(self, tokens: Sequence[bytes]) -> list[TermLists]:
        """Return the lists of a query's distinct tokens that anything in force holds, rarest first.

        A token that the query repeats weighs as often.
        """
        times = Counter(tokens)
        held = self.held(list(times))
        for term, containing in held:
            term.weight = term_weight(self.documents, containing, times[term.token])
        return [term for term, _ in held]

    def held(self, tokens: Sequence[bytes]) -> list[tuple[TermLists, int]]:
        """Return the lists, without a weight yet, of those distinct tokens that anything in force holds, rarest first.

        With each comes how many documents in force are on its lists.
        """
        terms = [TermLists(token, 0, 0, 0, [], []) for token in tokens]
        high, low = halves(b"".join(tokens))
        lows = low.tolist()
        for part in self._parts:
            for number, count, greatest, ids, impacts in part.find(high, lows):
                terms[number].add(count, greatest, ids, impacts)
        terms = [term for term in terms if term.count]
        terms.sort(key=lambda term: (term.count, term.token))
        counted = [(term, term.count - self._dead_count(term)) for term in terms]
        return [(term, containing) for term, containing in counted if containing]

    def _dead_count(self, term: TermLists) -> int:
        """Return how many documents on the term's lists are out of force."""
        return self._tables.dead_count(term.token) if self.dead.size and term.count else 0

    def ordinal(self, cursor: int) -> int | None:
        """Return the ordinal of the document of a capture cursor, if it is in force."""
        return self._tables.ordinal(cursor)

    def ordinals(self, cursors: Sequence[int]) -> Ids:
        """Return the ordinals of documents in force, given by their capture cursors, ascending.

        Raises:
            Unusable: one is not in the index.
        """
        return self._tables.ordinals(cursors)

    def around(self, rows: Rows, reach: int, beside: Beside | None = None) -> Numbers:
        """Return the ordinals around documents that do not stand alone, -1 where there is none.

        ``beside`` tells of cursors which count as neighbours; the others are stepped over.
        """
        return self._around(rows, reach, beside)[0]

    def cursors_around(self, rows: Rows, reach: int, beside: Beside | None = None) -> Numbers:
        """Return the cursors around documents as ``around`` does their ordinals."""
        return self._around(rows, reach, beside)[1]

    def _around(self, rows: Rows, reach: int, beside: Beside | None) -> tuple[Numbers, Numbers]:
        wide = reach
        while True:
            ordinals, cursors = self._tables.around(rows, wide)
            there = ordinals >= 0
            if beside is None or not there.any():
                return ordinals, cursors
            counts = there.copy()
            counts[there] = beside(cursors[there].astype(np.uint64))
            counts[:, wide] = True
            if np.array_equal(counts, there) and wide == reach:
                return ordinals, cursors
            before, after = counts[:, :wide].sum(axis=1), counts[:, wide + 1 :].sum(axis=1)
            # Who stands at an edge may have more behind him.
            if ((before >= reach) | ~there[:, 0]).all() and ((after >= reach) | ~there[:, -1]).all():
                return _nearest(ordinals, counts, wide, reach), _nearest(cursors, counts, wide, reach)
            wide *= 4

    def rows(self, ordinals: Ids) -> Rows:
        """Return the document rows of these ordinals, which ascend."""
        return self._tables.rows(ordinals)


def _nearest(numbers: Numbers, counts: npt.NDArray[np.bool_], wide: int, reach: int) -> Numbers:
    """Return the nearest that count on either side of the middle, as ``Collection.around`` does."""
    found = np.full((len(numbers), 2 * reach + 1), -1, np.int64)
    for row, (all_around, may) in enumerate(zip(numbers, counts, strict=True)):
        before, after = all_around[:wide][may[:wide]][-reach:], all_around[wide:][may[wide:]][: reach + 1]
        found[row, reach - len(before) : reach] = before
        found[row, reach : reach + len(after)] = after
    return found
