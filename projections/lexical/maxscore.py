"""Exact top-k by MaxScore over numpy arrays.

The rarest terms' lists are joined and added at once. Theta is the k-th best sum so far. A further list is scanned
only while the bounds of all lists left could lift a document that was not met yet to theta; after that no new one can
come in, and the lists left are looked up for the candidates alone. Ties at the cut all stay in until the record
digest has decided, so that the top k is a prefix of the top 2k. Every sum is of integers: no order of adding, of
segments or of merges can change one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from journal import limits
from projections.lexical.collection import Collection, TermLists
from projections.lexical.postings import Buffer, Ids
from projections.lexical.tables import Rows

Cursors = npt.NDArray[np.uint64]
Scores = npt.NDArray[np.int64]
Eligible = Callable[[Cursors], npt.NDArray[np.bool_]]
"""Which of these capture cursors may be answered with: the clock, the purpose. Asked before the cut."""

Sums = npt.NDArray[Any]  # uint32, or uint64 where the bounds ask for it
_GROUPS = 512  # rows of which numpy goes through in one sweep; more of them take longer to sort out
_GROUPS_PER_WANTED = 8  # so that few of the best fall into one group
_GROUP_DOCUMENTS_LEAST = 4
_NOBODY: Ids = np.zeros(0, np.uint32)
_WIDENING = 4  # how much further to look when too few of the best are eligible


class Own(NamedTuple):
    """A ranking by own words: rows of the documents, their ordinals and scores, best first."""

    rows: Rows
    ordinals: Ids
    scores: Scores

    def first(self, size: int) -> Own:
        """Return the best."""
        return self if self.scores.size <= size else Own(self.rows[:size], self.ordinals[:size], self.scores[:size])

    def after(self, size: int) -> Own:
        """Return what follows the best."""
        return self if not size else Own(self.rows[size:], self.ordinals[size:], self.scores[size:])


def own_ranking(collection: Collection, terms: Sequence[TermLists], limit: int, eligible: Eligible | None) -> Own:
    """Return the best documents by own words (``OwnWords.ranking``)."""
    return OwnWords(collection, terms).ranking(limit, eligible)


def own_scores(terms: Sequence[TermLists], ordinals: Ids) -> Scores:
    """Return what the terms add up to in documents in force, given by their ordinals."""
    scores = np.zeros(ordinals.size, np.int64)
    for term in terms:
        scores += _looked_up(term, ordinals)
    return scores


class OwnWords:
    """What the weighed lists of a query's terms, rarest first, add up to. A list that was scanned stays added."""

    def __init__(self, collection: Collection, terms: Sequence[TermLists]) -> None:
        self._collection = collection
        self._terms = terms
        rest = [0]  # rest[i]: what terms[i:] can add at most, from the end
        for term in reversed(terms):
            rest.append(rest[-1] + term.bound)
        self._rest = rest[::-1]
        size = -(-collection.span // _GROUPS) * _GROUPS  # so that all are dealt evenly; nothing adds to the last
        self._sums: Sums = np.zeros(size, np.uint32 if rest[-1] < 2**32 else np.uint64)
        self._scanned = 0

    def ranking(self, limit: int, eligible: Eligible | None) -> Own:
        """Return the best ``limit`` eligible documents.

        They are ordered by score descending, then record digest ascending; a score is in hundred-thousandths of idf.
        """
        if not self._terms:
            return Own(self._collection.rows(_NOBODY), _NOBODY, np.zeros(0, np.int64))
        found: list[Own] = []
        wanted, asked, size = limit, 0, 0
        while True:
            own = self._ranked(wanted)
            fresh = own.after(asked)
            if eligible is not None and fresh.scores.size:
                may = eligible(fresh.rows["cursor"])
                fresh = Own(fresh.rows[may], fresh.ordinals[may], fresh.scores[may])
            found.append(fresh)
            size += fresh.scores.size
            if size >= limit or own.scores.size < wanted:
                break
            wanted, asked = wanted * _WIDENING, own.scores.size
        if len(found) == 1:
            return found[0].first(limit)
        rows, ordinals, scores = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return Own(rows, ordinals, scores).first(limit)

    def scores(self, ordinals: Ids) -> Scores:
        """Return what the terms add up to in documents in force, given by their ordinals."""
        return self._sums[ordinals].astype(np.int64) + own_scores(self._terms[self._scanned :], ordinals)

    def _ranked(self, wanted: int) -> Own:
        """Return the best ``wanted`` documents in order, fewer only where no more match."""
        ordinals, scores = self._best(wanted)
        rows = self._collection.rows(ordinals)
        order = ordered(rows, scores)[:wanted]
        return Own(rows[order], ordinals[order], scores[order])

    def _best(self, wanted: int) -> tuple[Ids, Scores]:
        """Return the ordinals, ascending, and scores of the best ``wanted`` and of all that tie with the last."""
        if not self._scanned:
            self._scan(_joined_terms(self._terms))
        candidates, scores, theta = _over_floor(self._sums, wanted)
        while self._scanned < len(self._terms) and self._rest[self._scanned] >= theta:
            self._scan(self._scanned + 1)
            candidates, scores, theta = _over_floor(self._sums, wanted)
        if self._rest[self._scanned]:  # the lists left can lift others to theta as well
            candidates = np.flatnonzero(self._sums >= max(1, theta - self._rest[self._scanned])).astype(np.uint32)
            scores = self._sums[candidates].astype(np.int64)
        for at in range(self._scanned, len(self._terms)):
            scores += _looked_up(self._terms[at], candidates)
            theta = max(theta, _kth(scores, wanted))
            kept = scores + self._rest[at + 1] >= theta
            candidates, scores = candidates[kept], scores[kept]
        kept = scores >= theta
        return candidates[kept], scores[kept]

    def _scan(self, upto: int) -> None:
        """Add the lists of the terms up to and without this one."""
        _add(self._sums, self._terms[self._scanned : upto], self._collection.dead)
        self._scanned = upto


def ordered(rows: Rows, scores: Scores) -> npt.NDArray[np.int64]:
    """Return the order by score descending, then by document digest."""
    order = (-scores).argsort()
    falling = scores[order]
    if (falling[1:] != falling[:-1]).all():  # mostly; the digests are what takes long
        return order
    words = rows["digest"].T
    return np.lexsort((words[3], words[2], words[1], words[0], -scores))


def _joined_terms(terms: Sequence[TermLists]) -> int:
    """Return how many of the rarest terms are added at once: at least one."""
    postings = terms[0].count
    joined = 1
    while joined < len(terms) and postings + terms[joined].count <= limits.LEXICAL_JOIN_POSTINGS:
        postings += terms[joined].count
        joined += 1
    return joined


def _add(sums: Sums, terms: Sequence[TermLists], dead: Ids) -> None:
    """Add the terms' weighted impacts in one go; the dead stay at nothing."""
    ids = np.frombuffer(b"".join([part for term in terms for part in term.ids]), "<u4")
    impacts = np.frombuffer(b"".join([part for term in terms for part in term.impacts]), np.uint8)
    weights = np.repeat(np.array([term.weight for term in terms], sums.dtype), [term.count for term in terms])
    weights *= impacts
    np.add.at(sums, ids, weights)
    if dead.size:
        sums[dead] = 0


def _over_floor(sums: Sums, wanted: int) -> tuple[Ids, Scores, int]:
    """Return the ordinals and sums of the best ``wanted`` at least, and the last one's sum, 0 where they are fewer.

    Documents are dealt into groups; the ``wanted``-th best of the groups' best is a floor for the ``wanted``-th best of
    all, and little lies over it, in few groups. (To look through all sums, most of them nothing, is what takes long.)
    """
    groups = _GROUPS * max(1, -(-wanted * _GROUPS_PER_WANTED // _GROUPS))
    deep = sums.size // groups
    if deep < _GROUP_DOCUMENTS_LEAST:
        candidates = np.flatnonzero(sums)
    else:
        dealt = sums[: deep * groups].reshape(deep, groups)
        best = dealt.max(axis=0)
        floor = max(1, _kth(best, wanted))
        chosen = (best >= floor).nonzero()[0]
        rows, columns = np.divmod((dealt.take(chosen, axis=1) >= floor).ravel().nonzero()[0], chosen.size)
        candidates = rows * groups + chosen[columns]
        if deep * groups < sums.size:
            over = np.flatnonzero(sums[deep * groups :] >= floor)
            candidates = np.concatenate((candidates, over + deep * groups))
    scores = sums[candidates].astype(np.int64)
    return candidates.astype(np.uint32), scores, _kth(scores, wanted)


def _kth(scores: npt.NDArray[Any], wanted: int) -> int:
    """Return the ``wanted``-th greatest, 0 where there are fewer."""
    at = scores.size - wanted
    return int(np.partition(scores, at)[at]) if at >= 0 else 0


def _looked_up(term: TermLists, candidates: Ids) -> Scores:
    """Return what the term adds to each candidate."""
    ids = np.frombuffer(_whole(term.ids), "<u4")
    impacts = np.frombuffer(_whole(term.impacts), np.uint8)
    places = np.minimum(ids.searchsorted(candidates), ids.size - 1)
    return np.where(ids[places] == candidates, impacts[places].astype(np.int64) * term.weight, 0)


def _whole(parts: Sequence[Buffer]) -> Buffer:
    """Return parts that follow each other as one."""
    return parts[0] if len(parts) == 1 else b"".join(parts)
