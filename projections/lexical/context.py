"""Context: the best documents and those around them, scored once more with what stands before and after each.

What is said is often answered a line later, in words that the question does not have. So the best by their own words
and their neighbours make up the window: each is scored by its own words, by those of the three before it and the three
after it in the same source where it is short (a passage speaks for itself), and by the priors of the profile. The
context stands nowhere in the index: nothing has to be written again when a neighbour comes or goes.

The window has a constant size, whatever is asked for. What lies beyond it follows by its own words, at a share of them
that no prior can undercut; so no score rises from rank to rank, and the top k is a prefix of the top 2k. Everything is
integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from projections.lexical import profile
from projections.lexical.collection import Collection, TermLists
from projections.lexical.maxscore import Eligible, Own, OwnWords, ordered
from projections.lexical.postings import Ids
from projections.lexical.question import Question
from projections.lexical.standing import NO_LABEL, label_of
from projections.lexical.tables import Rows
from projections.lexical.traits import ASKS, SHORT, TELLS_TIME

Scores = npt.NDArray[np.int64]
REACH: Final = max(len(profile.BEFORE_TENTHS), len(profile.AFTER_TENTHS))


class Prior(NamedTuple):
    """What multiplies a score besides words."""

    name: str
    thousandths: int


Held = tuple[Prior, npt.NDArray[np.bool_]]
"""A prior, and of which documents it holds."""


class Ranked(NamedTuple):
    """A ranking: (capture cursor, score in millionths), best first; the first ``window`` of them are the window."""

    hits: list[tuple[int, int]]
    window: int


def ranked(
    collection: Collection, terms: Sequence[TermLists], question: Question, limit: int, eligible: Eligible | None,
    beside: Eligible | None = None,
) -> Ranked:  # fmt: skip
    """Return the window, and what follows it up to ``limit`` in all at least, where so many match.

    The order is by score descending, then by document digest. ``terms`` are the weighed lists of the question's terms,
    rarest first. ``eligible`` tells of cursors which may be answered with, ``beside`` which count as neighbours.
    """
    size = profile.WINDOW_DOCUMENTS
    words = OwnWords(collection, terms)
    own = words.ranking(max(limit, size + 1), eligible)
    if not own.scores.size:
        return Ranked([], 0)
    window = Window(collection, words, own.first(size), beside)
    beyond = own.after(size)
    least = int(beyond.scores[0]) * profile.BEYOND_TENTHS if beyond.scores.size else 0
    hits = window.hits(question, least, eligible)
    known = {cursor for cursor, _ in hits}
    rest = zip(beyond.rows["cursor"].tolist(), (beyond.scores * profile.BEYOND_TENTHS).tolist(), strict=True)
    return Ranked(hits + [(cursor, score) for cursor, score in rest if cursor not in known], len(hits))


class Window:
    """The best documents by their own words, and all around them that may count."""

    def __init__(self, collection: Collection, words: OwnWords, top: Own, beside: Eligible | None) -> None:
        grouped = top.rows["group"] != np.zeros((), "V16")
        self._top = top
        self._collection = collection
        around = np.full((top.scores.size, 4 * REACH + 1), -1, np.int64)
        around[:, 2 * REACH] = top.ordinals
        if grouped.any():
            around[grouped] = collection.around(top.rows[grouped], 2 * REACH, beside)
        scores = words.scores(np.maximum(around, 0).astype(np.uint32).ravel()).reshape(around.shape)
        self.own = np.where(around >= 0, scores, 0)  # of each of the best, what is around it
        self.around = around

    def members(self) -> tuple[Ids, Scores, Scores]:
        """Return the ordinals of the window, ascending, with their own scores and what their context adds.

        What has no word of the question by itself is not found: context lifts, it does not bring in.
        """
        width = 2 * REACH + 1  # the best and its neighbours; the outer columns are context alone
        own = self.own[:, REACH : REACH + width]
        context = np.zeros_like(own)
        for distance, tenths in enumerate(profile.BEFORE_TENTHS, 1):
            context += tenths * self.own[:, REACH - distance : REACH - distance + width]
        for distance, tenths in enumerate(profile.AFTER_TENTHS, 1):
            context += tenths * self.own[:, REACH + distance : REACH + distance + width]
        members = np.where(own > 0, self.around[:, REACH : REACH + width], -1).ravel()
        order = members.argsort(kind="stable")
        ascending = members[order]
        is_first = ascending > np.append(-1, ascending[:-1])  # nobody is no member
        first = order[is_first]
        return ascending[is_first].astype(np.uint32), own.ravel()[first], context.ravel()[first]

    def hits(self, question: Question, least: int, eligible: Eligible | None) -> list[tuple[int, int]]:
        """Return (capture cursor, score) of the window in order.

        All of the best are in it, and of their neighbours those that pass ``least`` and are eligible.
        """
        ordinals, own, context = self.members()
        by_ordinal = self._top.ordinals.argsort()
        is_best = _among(ordinals, self._top.ordinals[by_ordinal])
        may = is_best | (_most(profile.OWN_TENTHS * own + context) > least)  # the others' rows are not looked at
        ordinals, own, context, is_best = ordinals[may], own[may], context[may], is_best[may]
        rows = np.empty(ordinals.size, self._top.rows.dtype)
        rows[is_best], rows[~is_best] = self._top.rows[by_ordinal], self._collection.rows(ordinals[~is_best])
        leans = (rows["traits"] & SHORT) != 0
        scores = profile.OWN_TENTHS * own + np.where(leans, context, 0)
        scores = with_priors(scores, priors(rows, question, profile.LABEL_THOUSANDTHS))
        kept = is_best | (scores > least)
        if eligible is not None:
            asked = np.flatnonzero(kept & ~is_best)
            kept[asked] = eligible(rows["cursor"][asked])
        rows, scores = rows[kept], scores[kept]
        order = ordered(rows, scores)
        return list(zip(rows["cursor"][order].tolist(), scores[order].tolist(), strict=True))


def _among(values: npt.NDArray[Any], ascending: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which values are among others."""
    if not ascending.size:
        return np.zeros(values.size, bool)
    found: npt.NDArray[np.bool_] = ascending.take(ascending.searchsorted(values), mode="clip") == values
    return found  # numpy.isin takes far longer to look at so few


def _most(scores: Scores) -> Scores:
    """Return what scores come to at most, whatever priors hold."""
    for thousandths in (profile.ASKS_THOUSANDTHS, profile.TIME_THOUSANDTHS, profile.LABEL_THOUSANDTHS):
        scores = scores * max(thousandths, 1000) // 1000
    return scores


def with_priors(scores: Scores, held: Iterable[Held]) -> Scores:
    """Return the scores with the priors of the profile, one after the other, each rounded down."""
    for prior, holds in held:
        scores = np.where(holds, scores * prior.thousandths // 1000, scores)
    return scores


def priors(rows: Rows, question: Question, label_thousandths: int) -> list[Held]:
    """Return the priors that a question brings, in their order, each with the documents for which it holds."""
    found = [(Prior("asks", profile.ASKS_THOUSANDTHS), (rows["traits"] & ASKS) != 0)]
    if question.asks_when:
        found.append((Prior("tells a time", profile.TIME_THOUSANDTHS), (rows["traits"] & TELLS_TIME) != 0))
    labels = np.array(sorted({label_of(token) for token in question.tokens} - {NO_LABEL}), np.uint64)
    found.append((Prior("is named", label_thousandths), _among(rows["label"], labels)))
    return found
