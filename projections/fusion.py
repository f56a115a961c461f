"""Fusion: words and meaning in one order.

The best by words are ranked again with what they mean, and the best by meaning come in beside them:

    meaning = similarity of the text itself, and shares of those around it where it is short, times its priors
    score   = lexical / the best lexical + base + weight x meaning

in millionths, all integers. A similarity is the cosine of centred vectors (``vector.index``), from -1 to 1. What a line
means often stands in the one before; a passage speaks for itself, and words count more in it. Priors hold as by words
(``lexical.context``), and lift nothing that speaks against the question.

Those around are looked at of the ``CONTEXT_DOCUMENTS`` that are best without them: what comes in further back is not
lifted to where anybody looks, and to look at all of them takes half as long again.

Of the best by words, what holds the phrases asked for (``lexical.phrases``) comes before all else, by a further base.
The base is so great that no further match by words can pass one of the window's, whatever it means; so the top k is a
prefix of the top 2k. Ties are ordered by document digest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from journal.digests import receipt_digest
from projections.lexical.context import Held, priors, with_priors
from projections.lexical.maxscore import ordered
from projections.lexical.profile import RECORD_FIELDS, Field, profile_config
from projections.lexical.surroundings import Cursors, Surroundings
from projections.lexical.tables import Rows
from projections.lexical.traits import SHORT
from projections.vector.plain import DIGEST as PLAIN_DIGEST

PROFILE_NAME: Final = "semantic_v1"
PROFILE_VERSION: Final = 5
SCORING_FORMULA_REF: Final = "formula:lexical-share-plus-centred-cosine-context-v5"

WORDS_DOCUMENTS: Final = 100  # the best by words
MEANT_DOCUMENTS: Final = 50  # the most like the query
MEANT_LEAST: Final = 150_000  # millionths: what is less like it is found by its words, or not at all
CONTEXT_DOCUMENTS: Final = 64  # the best by words and their own meaning, of which those around count
BASE: Final = 3_600_000  # millionths
PHRASED: Final = 7_200_000  # what holds the phrases has besides: more than any two of the window can differ by
SHORT_THOUSANDTHS: Final = 900  # the weight of what a line or two mean
PASSAGE_THOUSANDTHS: Final = 600  # and of what a passage means
BEFORE_HUNDREDTHS: Final = (50, 25, 10)  # of what stands before in the same source, the nearest first
AFTER_HUNDREDTHS: Final = (40, 10)  # and after
LABEL_THOUSANDTHS: Final = 1_500  # meaning tells speakers apart less than words do
_MILLION: Final = 1_000_000

REACH: Final = max(len(BEFORE_HUNDREDTHS), len(AFTER_HUNDREDTHS))
_HUNDREDTHS: Final = np.zeros(2 * REACH + 1, np.int64)  # of what stands before and after, and of the document itself
_HUNDREDTHS[REACH - len(BEFORE_HUNDREDTHS) : REACH + len(AFTER_HUNDREDTHS) + 1] = (
    *reversed(BEFORE_HUNDREDTHS), 100, *AFTER_HUNDREDTHS,
)  # fmt: skip

Similarities = npt.NDArray[np.int64]


class Fused(NamedTuple):
    """A ranking by words and meaning: (capture cursor, score in millionths), best first, and what the window holds."""

    hits: list[tuple[int, int]]
    window: dict[int, int]  # cursor -> similarity of the text itself, in millionths
    in_context: frozenset[int]  # those of the window of which what is around them counted


class Asked(NamedTuple):
    """What a question means."""

    similar: Sequence[tuple[int, int]]
    """(cursor, similarity in millionths) of the ``MEANT_DOCUMENTS`` most like it."""
    early: Similarities
    """How like it those are that were told before, in an array of the same shape, 0 where there is no vector."""
    similarities: Callable[[Cursors], Similarities]
    """Gives how like it any cursors are, 0 where there is no vector."""


class _Known(NamedTuple):
    """What there is to know of documents without their meaning."""

    rows: Rows
    by_words: Similarities  # with the base
    weight: Similarities
    held: list[Held]


def fused(
    lexical: Sequence[tuple[int, int]],
    asked: Callable[[Cursors], Asked],
    surroundings: Callable[[Sequence[int]], Surroundings],
    holding: Collection[int] = (),
) -> Fused:
    """Return the order of what words and meaning find.

    Args:
        lexical: (cursor, score), best first: ``WORDS_DOCUMENTS`` at least, where so many match.
        asked: gives what is meant. It is called when all is done that does not need it, and may be waited for; it is
            told whose similarities will be wanted, of those that are known before: (documents, 2 ``REACH`` + 1).
        surroundings: what stands around documents, up to ``REACH``.
        holding: the cursors of what holds the phrases asked for, if any are.
    """
    most = max(lexical[0][1], 1) if lexical else 1
    shares = [(cursor, score * _MILLION // most) for cursor, score in lexical]
    words = dict(shares[:WORDS_DOCUMENTS])  # always of so many, or the order would depend on how many are asked for
    bases = {cursor: score + BASE + (PHRASED if cursor in holding else 0) for cursor, score in words.items()}
    first = surroundings(list(words)) if words else None
    known = [] if first is None else [_known(first, bases)]
    early = np.zeros((0, 2 * REACH + 1), np.uint64) if first is None else first.around(first.rows)
    meant = asked(early)
    own, together = meant.early[:, REACH], in_context(meant.early)
    near = dict(meant.similar)
    added = [cursor for cursor, similarity in meant.similar if similarity >= MEANT_LEAST and cursor not in words]
    more = surroundings(added) if added else None
    if more is not None:
        known.append(_known(more, bases))
        similar = np.array([near[cursor] for cursor in more.rows["cursor"].tolist()], np.int64)
        own, together = np.concatenate((own, similar)), np.concatenate((together, similar))
    if not known:
        return Fused([], {}, frozenset())
    rows, by_words, weight, held = known[0] if len(known) == 1 else _joined(*known)
    scores = by_words + weight * lifted(own, held) // 1000
    chosen = ordered(rows, scores)[:CONTEXT_DOCUMENTS]
    if more is not None:
        late = chosen[chosen >= len(early)]
        around = more.around(rows[late])
        distinct = np.unique(around)
        together[late] = in_context(meant.similarities(distinct)[distinct.searchsorted(around)])
    scores[chosen] = (by_words + weight * lifted(together, held) // 1000)[chosen]
    order, cursors = ordered(rows, scores), rows["cursor"]
    hits = list(zip(cursors[order].tolist(), scores[order].tolist(), strict=True))
    window = dict(zip(cursors.tolist(), own.tolist(), strict=True))
    return Fused(
        hits + [hit for hit in shares if hit[0] not in window],
        {cursor: window[cursor] for cursor in [*words, *added]},
        frozenset(cursors[chosen].tolist()),
    )


def _known(found: Surroundings, bases: dict[int, int]) -> _Known:
    rows = found.rows
    by_words = np.array([bases.get(cursor, BASE) for cursor in rows["cursor"].tolist()], np.int64)
    return _Known(rows, by_words, weights(rows), priors(rows, found.question, LABEL_THOUSANDTHS))


def _joined(one: _Known, other: _Known) -> _Known:
    held = [
        (prior, np.concatenate((holds, more)))
        for (prior, holds), (_, more) in zip(one.held, other.held, strict=True)  # a question's are the same
    ]
    rows, by_words, weight = (np.concatenate(both) for both in zip(one[:3], other[:3], strict=True))
    return _Known(rows, by_words, weight, held)


def weights(rows: Rows) -> Similarities:
    """Return what the meaning of each document weighs, in thousandths."""
    return np.where((rows["traits"] & SHORT) != 0, SHORT_THOUSANDTHS, PASSAGE_THOUSANDTHS)


def in_context(around: Similarities) -> Similarities:
    """Return the similarities of documents with shares of those around them, in millionths.

    Args:
        around: those of each and of what is around it, up to ``REACH`` either way (``Surroundings``).
    """
    total: Similarities = np.einsum("ij,j->i", around, _HUNDREDTHS) // 100
    return total


def lifted(meaning: Similarities, held: Iterable[Held]) -> Similarities:
    """Return what documents mean to a question with their priors, which hold only of what is more than nothing."""
    return np.where(meaning > 0, with_priors(meaning, held), meaning)


def profile_config_digest(model_digest: bytes, fields: tuple[Field, ...] = RECORD_FIELDS) -> str:
    """Return the digest of the whole configuration, the model's among it."""
    config: dict[str, Any] = {
        "profile": PROFILE_NAME,
        "profile_version": PROFILE_VERSION,
        "scoring_formula_ref": SCORING_FORMULA_REF,
        "lexical": profile_config(fields),
        "words_documents": WORDS_DOCUMENTS,
        "meant_documents": MEANT_DOCUMENTS,
        "meant_least": MEANT_LEAST,
        "context_documents": CONTEXT_DOCUMENTS,
        "base": BASE,
        "phrased": PHRASED,
        "short_thousandths": SHORT_THOUSANDTHS,
        "passage_thousandths": PASSAGE_THOUSANDTHS,
        "before_hundredths": list(BEFORE_HUNDREDTHS),
        "after_hundredths": list(AFTER_HUNDREDTHS),
        "label_thousandths": LABEL_THOUSANDTHS,
        "plain_sentences": PLAIN_DIGEST.hex(),
        "model_digest": model_digest.hex(),
    }
    return receipt_digest("rank-profile", config)
