"""The vector index of a scope, in memory: made from the opened embeddings when first asked, then kept up to date.

It says nothing that does not follow from the embeddings of what is in force: the centre is the mean of the first
vectors by cursor and of some plain sentences' (``plain``), similarities are computed from the stored float16 numbers in
float64 and rounded to millionths, that of a subject is the greatest of its parts', equal ones are ordered by cursor.
faiss only picks candidates (``copies``), and is asked for more until no other subject could be among the best. It is
imported when an index is large enough to need it. Where few may be answered with, those alone are looked at, without
it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from journal import limits
from projections.lexical.maxscore import Eligible
from projections.vector.centring import MILLION, Lengths, centred_query, lengths, mean_of, millionths
from projections.vector.copies import Copies, Scans
from projections.vector.handed import Handed
from projections.vector.opened import Loaded
from projections.vector.plain import SENTENCES, Mean
from projections.vector.shelf import Places, Rows, Shelf, Slots
from projections.vector.standing import Cursors, Standing

_REBUILD_SHARE: Final = 4  # where one in so many changed, all copies are made anew
_PIECE_SUBJECTS: Final = 2_048
_MOSTLY: Final = 2e-3  # the k-th best product with a copy is mostly not so far over the k-th best similarity
_FEW: Final = 16  # where no more than one in so many may be answered with, those are looked at and no others


class Source(Protocol):
    """Where embeddings come from (``projections.vector.opened.Embeddings``)."""

    def stamp(self) -> object | None:
        """Return what moves whenever anything may be loaded that was absent; None where that cannot be told now."""
        ...

    def load(self, standing: Standing) -> Loaded:
        """Return the embeddings of those subjects that have one of their newest text."""
        ...


class LaidOut(NamedTuple):
    """Vectors of subjects, ready to be compared with a query."""

    cursors: Cursors  # ascending, where they were asked for so
    vectors: NDArray[np.float64]  # one or more a subject, as they are stored
    starts: Rows | None  # where each one's begin; None where each has one
    long: Lengths  # of each vector, as ``centring.lengths`` has it
    apart: Lengths
    mean: NDArray[np.float64]

    def similarities(self, asked: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return how like a centred query each subject is, in millionths: the greatest of its vectors'."""
        similar = millionths(self.vectors, self.long, self.apart, self.mean, asked)
        return similar if self.starts is None else np.maximum.reduceat(similar, self.starts)


class Prepared(NamedTuple):
    """What is done for a question before its vector is there. Good for one vector and one state of the index."""

    state: int
    passing: _Passing
    laid_out: LaidOut  # whose similarities will be wanted
    likeness: Handed[NDArray[np.float64], NDArray[np.int64]]  # gives them
    scans: Scans | None  # that may be begun, where there is much to scan


class _Passing(NamedTuple):
    """Which subjects may be answered with."""

    passes: NDArray[np.bool_] | None  # None: all
    possible: int  # how many


class VectorIndex:
    """What is embedded of the subjects in force. Safe for several threads."""

    def __init__(self, source: Source, dimension: int, plain: Callable[[], Mean] | None = None) -> None:
        """Take the embeddings of one model; nothing is loaded yet.

        ``plain``: gives the mean of the plain sentences, which count towards the centre; what it raises is raised by
        ``synchronise``.
        """
        self._source = source
        self._plain = plain
        self._dimension = dimension
        self._shelf = Shelf(dimension)
        self._mean = np.zeros(dimension)
        self._long = np.zeros(0)  # of each slot, as ``centring.lengths`` has it; known where its distance is
        self._apart = np.zeros(0)  # of each slot, from the mean; not a number where that is not known
        self._copies: Copies | None = None  # while there are enough rows for it
        self._mutex = threading.RLock()
        self._seen: Standing | None = None
        self._state = 0  # moves with every change
        self._stamp: object | None = None
        self._known: tuple[object, Standing] | None = None
        self._known_query: tuple[object, object, NDArray[np.float64]] | None = None  # with the mean, and centred by it

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
            if self._seen is in_force and len(in_force.cursors) == len(self._shelf):
                return 0
        plain = None if self._plain is None else self._plain()  # may take long the first time: nothing is held
        with self._mutex:
            missing = len(in_force.cursors) - len(self._shelf)
            same = self._seen is in_force or (self._seen is not None and _equal(self._seen, in_force))
            if same:
                self._seen = in_force  # which need not be compared when it is asked for again
            if same and not missing:
                return 0
            stamp = self._source.stamp()
            if same and stamp is not None and stamp == self._stamp:
                return missing
            try:
                self._bring(in_force, plain)
            except BaseException:
                self._forget()  # what is half done would answer without some of them
                raise
            self._seen, self._stamp = in_force, stamp
            return len(in_force.cursors) - len(self._shelf)

    @contextmanager
    def at(self, in_force: Standing) -> Iterator[int]:
        """Keep the index at what is in force in one snapshot, whatever other threads ask; yield as ``synchronise``.

        An answer is of one cursor: it must not be ranked among what came later, or went.
        """
        with self._mutex:
            yield self.synchronise(in_force)

    def _forget(self) -> None:
        """Begin anew with nothing."""
        self._state += 1
        self._shelf, self._copies, self._seen = Shelf(self._dimension), None, None
        self._long = self._apart = np.zeros(0)

    def _bring(self, in_force: Standing, plain: Mean | None) -> None:
        shelf = self._shelf
        places, there = shelf.places(in_force.cursors)
        there[there] = shelf.texts[places[there]] == in_force.texts[there]
        loaded = self._source.load(Standing(in_force.cursors[~there], in_force.texts[~there]))
        gone = np.ones(len(shelf), np.bool_)
        gone[places[there]] = False
        self._seen = None  # until all of it is done
        self._state += 1
        dropped, freed = shelf.cursors[gone], np.zeros(0, np.intp)
        if gone.any():
            freed = shelf.remove(gone)
        texts = in_force.texts[np.searchsorted(in_force.cursors, loaded.cursors)]
        taken = shelf.add(loaded.cursors, texts, loaded.counts, loaded.vectors)
        self._apart = np.append(self._apart, np.full(shelf.slot_count - len(self._apart), np.nan))
        self._long = np.append(self._long, np.full(shelf.slot_count - len(self._long), np.nan))
        self._apart[taken] = np.nan
        if len(taken) or len(freed):
            self._centre(np.union1d(loaded.cursors, dropped), plain)
            self._copy(taken, freed)

    def _centre(self, touched: Cursors, plain: Mean | None) -> None:
        """Take the mean anew where it may have moved, for these subjects came or went."""
        shelf, first = self._shelf, limits.VECTOR_CENTRE_ROWS
        if shelf.row_count <= first or touched[0] <= shelf.cursors[shelf.place_of_rows(np.array([first - 1]))[0]]:
            mean = mean_of(shelf.vectors(shelf.slots(slice(0, first)), np.float64).astype(np.float64))
            if plain is not None:
                rows = min(first, shelf.row_count)
                mean = (rows * mean + len(SENTENCES) * plain) / (rows + len(SENTENCES))
            self._mean = mean
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
            self._lengths(piece, self._shelf.stored(piece, np.float64).astype(np.float64, copy=False))

    # --- asking ----------------------------------------------------------------------------------

    def prepared(self, in_force: Standing, k: int, eligible: Eligible | None, around: Cursors) -> Prepared | None:
        """Return what can be done of ``search`` and ``like`` before the query's vector is there.

        None where the index is not at what is in force: other calls may have brought it elsewhere.
        """
        cursors = np.unique(around)
        with self._mutex:
            if self._seen is not in_force:
                return None
            passing = self._passing(eligible)
            places, there = self._shelf.places(cursors)
            laid_out = self._laid_out(places[there])
            few = self._copies is None or self._are_few(passing, k)
            scans = None if self._copies is None or few else self._copies.scans(self._wanted(passing, k))
            return Prepared(self._state, passing, laid_out, Handed(laid_out.similarities), scans)

    def begin(self, query: NDArray[np.floating], prepared: Prepared, *, aside: bool) -> None:
        """Do of ``search`` and ``like`` what needs no lock: who asks its own part, a thread aside all that is left."""
        copies = self._to_scan(prepared)
        if copies is None or prepared.scans is None:
            return
        asked = self._asked(query)
        turned = copies.turned(asked)
        if aside:
            prepared.scans.aside.run(turned)
            prepared.likeness.run(asked)
        prepared.scans.here.run(turned)

    def read_over(self, prepared: Prepared, go_on: Callable[[], bool]) -> None:
        """Read, while ``go_on()``, what ``search`` is going to scan, where a question was prepared for that.

        What was read some milliseconds ago stands in the processor's cache. A scan of 100,000 copies takes twice as
        long where a model's weights have gone through it since.
        """
        copies = self._to_scan(prepared)
        if copies is not None:
            copies.read_over(go_on)

    def _to_scan(self, prepared: Prepared) -> Copies | None:
        """Return the copies that a question was prepared to scan; None where it was not, or they have changed since."""
        return self._copies if prepared.scans is not None and prepared.state == self._state else None

    def search(
        self, query: NDArray[np.floating], k: int, eligible: Eligible | None = None, prepared: Prepared | None = None
    ) -> list[tuple[int, int]]:
        """Return (cursor, similarity in millionths) of the ``k`` eligible subjects most like a query, the best first.

        Equal ones are ordered by cursor ascending. The best k are the beginning of the best 2k. ``prepared``: for the
        same ``k`` and ``eligible``.
        """
        with self._mutex:
            shelf, asked = self._shelf, self._asked(query)
            if prepared is not None and prepared.state == self._state:
                passing, scans = prepared.passing, prepared.scans
            else:
                passing, scans = self._passing(eligible), None
            if k <= 0 or not passing.possible:
                return []
            if self._copies is not None and not self._are_few(passing, k) and asked.any():
                return self._picked(self._copies, asked, k, passing, scans)
            places = np.arange(len(shelf)) if passing.passes is None else np.flatnonzero(passing.passes)
            if not asked.any():  # it is the centre itself: nothing is more like it than anything else
                return [(cursor, 0) for cursor in shelf.cursors[places[:k]].tolist()]
            return self._best(places, asked, k)

    def _passing(self, eligible: Eligible | None) -> _Passing:
        passes = None if eligible is None else eligible(self._shelf.cursors)
        possible = len(self._shelf) if passes is None else int(np.count_nonzero(passes))
        return _Passing(None if possible == len(self._shelf) else passes, possible)

    def _are_few(self, passing: _Passing, k: int) -> bool:
        return passing.possible <= max(k, limits.VECTOR_EXACT_ROWS) or _FEW * passing.possible <= len(self._shelf)

    def _wanted(self, passing: _Passing, k: int) -> int:
        """Return how many candidates are picked at first."""
        return max(limits.VECTOR_PICKED * k, limits.VECTOR_PICKED_LEAST) * len(self._shelf) // passing.possible

    def similarities(self, query: NDArray[np.floating], cursors: Cursors) -> NDArray[np.int64]:
        """Return how like a query some subjects are, in millionths: 0 for one that has no embedding."""
        with self._mutex:
            places, there = self._shelf.places(cursors)
            found = np.zeros(len(places), np.int64)
            found[there] = self._similarities(places[there], self._asked(query))
        return found

    def like(self, query: NDArray[np.floating], around: Cursors, prepared: Prepared | None) -> NDArray[np.int64]:
        """Return the similarities of subjects in an array of any shape as ``similarities`` does.

        ``prepared``: for the same ``around``.
        """
        with self._mutex:
            if prepared is None or prepared.state != self._state or not len(prepared.laid_out.cursors):
                return self.similarities(query, around.ravel()).reshape(around.shape)
            laid_out = prepared.laid_out
            known = prepared.likeness.result(self._asked(query))
        places = laid_out.cursors.searchsorted(around)
        found = known.take(places, mode="clip")
        found[laid_out.cursors.take(places, mode="clip") != around] = 0
        return found

    def embedded(self, cursors: Sequence[int]) -> frozenset[int]:
        """Return those subjects that have an embedding: the similarity of one that has none is not known."""
        wanted = np.array(cursors, np.uint64)
        with self._mutex:
            return frozenset(wanted[self._shelf.places(wanted)[1]].tolist())

    def _asked(self, query: NDArray[np.floating]) -> NDArray[np.float64]:
        known, mean = self._known_query, self._mean  # once: a thread that holds no lock asks too
        if known is None or known[0] is not query or known[1] is not mean:
            known = self._known_query = (query, mean, centred_query(np.asarray(query, np.float64).ravel(), mean))
        return known[2]

    def _similarities(self, places: Places, asked: NDArray[np.float64]) -> NDArray[np.int64]:
        if not len(places):
            return np.zeros(0, np.int64)
        return self._laid_out(places).similarities(asked)

    def _laid_out(self, places: Places) -> LaidOut:
        rows, starts = self._shelf.rows(places)
        slots = self._shelf.slots(rows)
        stored = self._shelf.stored(slots, np.float64).astype(np.float64, copy=False)
        return LaidOut(self._shelf.cursors[places], stored, starts, *self._lengths(slots, stored), self._mean)

    def _lengths(self, slots: Slots, stored: NDArray[np.float64]) -> tuple[Lengths, Lengths]:
        """Return ``centring.lengths`` of the vectors in some slots, which are kept."""
        long, apart = self._long[slots], self._apart[slots]
        unknown = np.isnan(apart)
        if unknown.any():
            long[unknown], apart[unknown] = lengths(stored[unknown], self._mean)
            self._long[slots], self._apart[slots] = long, apart
        return long, apart

    def _ordered(self, places: Places, similar: NDArray[np.int64], k: int) -> list[tuple[int, int]]:
        order = np.lexsort((self._shelf.cursors[places], -similar))[:k]
        return list(zip(self._shelf.cursors[places[order]].tolist(), similar[order].tolist(), strict=True))

    def _picked(
        self, copies: Copies, asked: NDArray[np.float64], k: int, passing: _Passing, begun: Scans | None
    ) -> list[tuple[int, int]]:
        """Return the best ``k`` that may be answered with, of candidates that are picked by their copies."""
        wanted, passes = self._wanted(passing, k), passing.passes
        while True:
            slots, likely, most, others = copies.pick(asked, wanted, self._mean, begun)
            if passes is not None:
                places = self._shelf.standing(slots)
                kept = passes[places] & (places >= 0)
                slots, likely, most = slots[kept], likely[kept], most[kept]
            # Who can be better than the k-th is by its copy: seldom is another among the best.
            first = most >= (np.partition(likely, -k)[-k] - _MOSTLY if len(likely) > k else -np.inf)
            found = self._best(self._shelf.places_of_slots(slots[first]), asked, k)
            least = found[-1][1] if len(found) == k else -MILLION  # of those that can still come in
            near = slots[~first & (most * MILLION >= least)]
            if len(near):  # may be of subjects that were compared already
                more = self._best(self._shelf.places_of_slots(near), asked, k)
                found = sorted({*found, *more}, key=lambda each: (-each[1], each[0]))[:k]
                least = found[-1][1] if len(found) == k else -MILLION
            if others * MILLION < least:
                return found
            wanted, begun = wanted * limits.VECTOR_WIDENING, None

    def _best(self, places: Places, asked: NDArray[np.float64], k: int) -> list[tuple[int, int]]:
        """Return the best ``k`` of some places; of many, a piece at a time is looked at."""
        pieces = [places[start : start + _PIECE_SUBJECTS] for start in range(0, len(places), _PIECE_SUBJECTS)]
        similar = [self._similarities(piece, asked) for piece in pieces]
        return self._ordered(places, np.concatenate(similar) if similar else np.zeros(0, np.int64), k)


def _equal(one: Standing, other: Standing) -> bool:
    return np.array_equal(one.cursors, other.cursors) and np.array_equal(one.texts, other.texts)
