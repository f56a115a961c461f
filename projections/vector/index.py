"""The vector index of a scope, in memory: made from the opened embeddings when first asked, then kept up to date.

It says nothing that does not follow from the embeddings of what is in force: the centre is the mean of the first
vectors by cursor, similarities are computed from the stored float16 numbers in float64 and rounded to millionths, that
of a subject is the greatest of its parts', equal ones are ordered by cursor. faiss only picks candidates (``copies``),
and is asked for more until no other subject could be among the best. It is imported when an index is large enough to
need it. Where few may be answered with, those alone are looked at, without it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from journal import limits
from projections.lexical.maxscore import Eligible
from projections.vector.centring import MILLION, NO_DIRECTION, centred, lengths, mean_of, millionths
from projections.vector.copies import Copies
from projections.vector.opened import Loaded
from projections.vector.shelf import Places, Shelf, Slots
from projections.vector.standing import Cursors, Standing

_REBUILD_SHARE: Final = 4  # where one in so many changed, all copies are made anew
_PIECE_SUBJECTS: Final = 2_048
_FEW: Final = 16  # where no more than one in so many may be answered with, those are looked at and no others
_MANY: Final = 8  # where more than so many times what is wanted are to be compared, float32 picks among them first
_NEXT_TO_CENTRE: Final = 2 * NO_DIRECTION  # what is so near may count as without a direction
_SINGLE: Final = np.float32(4e-6)  # how far a product of a vector of length 1 may be off in float32, and more


class Source(Protocol):
    """Where embeddings come from (``projections.vector.opened.Embeddings``)."""

    def stamp(self) -> object | None:
        """Return what moves whenever anything may be loaded that was absent; None where that cannot be told now."""
        ...

    def load(self, standing: Standing) -> Loaded:
        """Return the embeddings of those subjects that have one of their newest text."""
        ...


class VectorIndex:
    """What is embedded of the subjects in force. Safe for several threads."""

    def __init__(self, source: Source, dimension: int) -> None:
        """Take the embeddings of one model; nothing is loaded yet."""
        self._source = source
        self._dimension = dimension
        self._shelf = Shelf(dimension)
        self._mean = np.zeros(dimension)
        self._long = np.zeros(0)  # of each slot, as ``centring.lengths`` has it; known where its distance is
        self._apart = np.zeros(0)  # of each slot, from the mean; not a number where that is not known
        self._copies: Copies | None = None  # while there are enough rows for it
        self._mutex = threading.RLock()
        self._seen: Standing | None = None
        self._stamp: object | None = None
        self._known: tuple[object, Standing] | None = None

    def __len__(self) -> int:
        return len(self._shelf)

    # --- keeping up ------------------------------------------------------------------------------

    def standing_at(self, state: object, find: Callable[[], Standing]) -> Standing:
        """Return what is in force in a state of the projections, found when a state is first seen."""
        with self._mutex:
            if self._known is None or self._known[0] != state:
                self._known = (state, find())
            return self._known[1]

    def synchronise(self, in_force: Standing) -> int:
        """Bring the index to what is in force; return how many of these subjects have no embedding yet.

        Raises:
            ProjectionStale, StoreUnavailable: embeddings cannot be read now. What was loaded stays.
        """
        with self._mutex:
            missing = len(in_force.cursors) - len(self._shelf)
            stamp = self._source.stamp()
            same = self._seen is in_force or (self._seen is not None and _equal(self._seen, in_force))
            if same and (not missing or (stamp is not None and stamp == self._stamp)):
                return missing
            try:
                self._bring(in_force)
            except BaseException:
                self._forget()  # what is half done would answer without some of them
                raise
            self._seen, self._stamp = in_force, stamp
            return len(in_force.cursors) - len(self._shelf)

    def _forget(self) -> None:
        """Begin anew with nothing."""
        self._shelf, self._copies, self._seen = Shelf(self._dimension), None, None
        self._long = self._apart = np.zeros(0)

    def _bring(self, in_force: Standing) -> None:
        shelf = self._shelf
        places, there = shelf.places(in_force.cursors)
        there[there] = shelf.texts[places[there]] == in_force.texts[there]
        loaded = self._source.load(Standing(in_force.cursors[~there], in_force.texts[~there]))
        gone = np.ones(len(shelf), np.bool_)
        gone[places[there]] = False
        self._seen = None  # until all of it is done
        dropped, freed = shelf.cursors[gone], np.zeros(0, np.intp)
        if gone.any():
            freed = shelf.remove(gone)
        texts = in_force.texts[np.searchsorted(in_force.cursors, loaded.cursors)]
        taken = shelf.add(loaded.cursors, texts, loaded.counts, loaded.vectors)
        self._apart = np.append(self._apart, np.full(shelf.slot_count - len(self._apart), np.nan))
        self._long = np.append(self._long, np.full(shelf.slot_count - len(self._long), np.nan))
        self._apart[taken] = np.nan
        if len(taken) or len(freed):
            self._centre(np.union1d(loaded.cursors, dropped))
            self._copy(taken, freed)

    def _centre(self, touched: Cursors) -> None:
        """Take the mean anew where it may have moved, for these subjects came or went."""
        shelf, first = self._shelf, limits.VECTOR_CENTRE_ROWS
        if shelf.row_count <= first or touched[0] <= shelf.cursors[shelf.place_of_rows(np.array([first - 1]))[0]]:
            self._mean = mean_of(shelf.vectors(shelf.slots(slice(0, first)), np.float64).astype(np.float64))
            self._apart[:] = np.nan

    def _copy(self, taken: Slots, freed: Slots) -> None:
        """Bring the copies up to date, for these slots were taken and freed."""
        rows = self._shelf.row_count
        if rows <= limits.VECTOR_EXACT_ROWS:
            self._copies = None
        elif self._copies is None or not self._copies.serve(self._mean) or _REBUILD_SHARE * len(taken) > rows:
            self._copies = None  # first, so that there are never two in memory
            self._copies = Copies(self._dimension, self._mean)
            self._put(self._copies, np.sort(self._shelf.slots(slice(None))))
        else:
            self._copies.clear(freed)
            self._put(self._copies, taken)

    def _put(self, copies: Copies, slots: Slots) -> None:
        for start in range(0, len(slots), _PIECE_SUBJECTS):
            piece = slots[start : start + _PIECE_SUBJECTS]
            copies.put(piece, self._shelf.vectors(piece, np.float32).astype(np.float32, copy=False))

    # --- asking ----------------------------------------------------------------------------------

    def search(self, query: NDArray[np.floating], k: int, eligible: Eligible | None = None) -> list[tuple[int, int]]:
        """Return (cursor, similarity in millionths) of the ``k`` eligible subjects most like a query, the best first.

        Equal ones are ordered by cursor ascending. The best k are the beginning of the best 2k.
        """
        with self._mutex:
            shelf, asked = self._shelf, self._asked(query)
            passes = np.ones(len(shelf), np.bool_) if eligible is None else eligible(shelf.cursors)
            possible = int(np.count_nonzero(passes))
            if k <= 0 or not possible:
                return []
            places = np.flatnonzero(passes)
            if not asked.any():  # it is the centre itself: nothing is more like it than anything else
                return [(cursor, 0) for cursor in shelf.cursors[places[:k]].tolist()]
            if self._copies is None or possible <= max(k, limits.VECTOR_EXACT_ROWS):
                return self._ordered(places, self._similarities(places, asked), k)
            if _FEW * possible <= len(shelf):
                return self._best(places, asked, k)
            return self._picked(self._copies, asked, k, None if possible == len(shelf) else passes)

    def similarities(self, query: NDArray[np.floating], cursors: Cursors) -> NDArray[np.int64]:
        """Return how like a query some subjects are, in millionths: 0 for one that has no embedding."""
        with self._mutex:
            places, there = self._shelf.places(cursors)
            found = np.zeros(len(places), np.int64)
            found[there] = self._similarities(places[there], self._asked(query))
        return found

    def embedded(self, cursors: Sequence[int]) -> frozenset[int]:
        """Return those subjects that have an embedding: the similarity of one that has none is not known."""
        wanted = np.array(cursors, np.uint64)
        with self._mutex:
            return frozenset(wanted[self._shelf.places(wanted)[1]].tolist())

    def _asked(self, query: NDArray[np.floating]) -> NDArray[np.float64]:
        rows = np.asarray(query, np.float64).reshape(1, self._dimension)
        asked: NDArray[np.float64] = centred(rows, self._mean)[0]
        return asked

    def _similarities(self, places: Places, asked: NDArray[np.float64]) -> NDArray[np.int64]:
        if not len(places):
            return np.zeros(0, np.int64)
        rows, starts = self._shelf.rows(places)
        slots = self._shelf.slots(rows)
        stored = self._shelf.stored(slots, np.float64).astype(np.float64, copy=False)
        unknown = np.isnan(self._apart[slots])
        if unknown.any():
            self._long[slots[unknown]], self._apart[slots[unknown]] = lengths(stored[unknown], self._mean)
        similar = millionths(stored, self._long[slots], self._apart[slots], self._mean, asked)
        return np.maximum.reduceat(similar, starts)

    def _ordered(self, places: Places, similar: NDArray[np.int64], k: int) -> list[tuple[int, int]]:
        order = np.lexsort((self._shelf.cursors[places], -similar))[:k]
        return list(zip(self._shelf.cursors[places[order]].tolist(), similar[order].tolist(), strict=True))

    def _picked(
        self, copies: Copies, asked: NDArray[np.float64], k: int, passes: NDArray[np.bool_] | None
    ) -> list[tuple[int, int]]:
        """Return the best ``k`` that pass a mask, of candidates that are picked by their copies."""
        wanted = max(limits.VECTOR_PICKED * k, limits.VECTOR_PICKED_LEAST)
        if passes is not None:
            wanted = wanted * len(self._shelf) // int(np.count_nonzero(passes))
        first = wanted // limits.VECTOR_WIDENING
        while True:
            picked = copies.pick(asked, wanted, self._mean)
            found = self._best(self._passing(picked.slots[:first], passes), asked, k)
            least = found[-1][1] if len(found) == k else -MILLION  # of those that can still come in
            near = picked.most * MILLION >= least
            if near[first:].any():
                near[:first] = True
                found = self._best(self._passing(picked.slots[near], passes), asked, k)
                least = found[-1][1] if len(found) == k else -MILLION
            if picked.others * MILLION < least:
                return found
            first, wanted = wanted, wanted * limits.VECTOR_WIDENING

    def _passing(self, slots: Slots, passes: NDArray[np.bool_] | None) -> Places:
        """Return the places whose vectors stand in slots, and that pass a mask."""
        places = self._shelf.places_of_slots(slots)
        return places if passes is None else places[passes[places]]

    def _best(self, places: Places, asked: NDArray[np.float64], k: int) -> list[tuple[int, int]]:
        """Return the best ``k`` of some places, of which products in float32 tell those that can be among them."""
        if len(places) > _MANY * k:
            pieces = [places[start : start + _PIECE_SUBJECTS] for start in range(0, len(places), _PIECE_SUBJECTS)]
            bounds = [self._bounds(piece, asked) for piece in pieces]
            least = np.concatenate([least for least, _ in bounds])
            most = np.concatenate([most for _, most in bounds])
            places = places[most >= np.partition(least, len(least) - k)[len(least) - k]]
        return self._ordered(places, self._similarities(places, asked), k)

    def _bounds(self, places: Places, asked: NDArray[np.float64]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return how like a centred query some places are at least and at most, by products in float32."""
        rows, starts = self._shelf.rows(places)
        apart = self._shelf.vectors(self._shelf.slots(rows), np.float32) - self._mean.astype(np.float32)
        far = np.maximum(np.sqrt(np.einsum("ij,ij->i", apart, apart)), _SINGLE)
        near, off = apart @ asked.astype(np.float32) / far, _SINGLE / far  # what is close to the centre is off by more
        least, most, is_centre = near - off, near + off, far < _NEXT_TO_CENTRE
        least[is_centre], most[is_centre] = np.minimum(least[is_centre], 0), np.maximum(most[is_centre], 0)
        return np.maximum.reduceat(least, starts), np.maximum.reduceat(most, starts)


def _equal(one: Standing, other: Standing) -> bool:
    return np.array_equal(one.cursors, other.cursors) and np.array_equal(one.texts, other.texts)
