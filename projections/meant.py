"""Why a document stands where fusion put it: what its words, its meaning and those around it add to its score.

Everything is integers, so that what is told here leads exactly to the score that the fusion gave.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from projections import fusion
from projections.fusion import Similarities
from projections.lexical.context import Prior, priors
from projections.lexical.surroundings import NOBODY, Cursors, Surroundings
from projections.lexical.tables import Rows


class Near(NamedTuple):
    """What a document beside another in its source adds to its meaning."""

    distance: int  # -1: the one before, 1: the one after
    cursor: int
    similarity: int  # millionths
    hundredths: int


class Meant(NamedTuple):
    """Meaning, made again: (similarity + hundredths of the neighbours'), rounded down, times each prior in turn.

    Priors hold only where it is more than nothing.
    """

    similarity: int  # of the text itself, in millionths
    neighbours: list[Near]
    priors: list[Prior]
    meaning: int  # what that comes to
    weight_thousandths: int
    share: int  # meaning x weight


class Channels(NamedTuple):
    """What a score is the sum of, in millionths."""

    words: int  # its share of the best by words
    base: int  # of whatever stands in the window
    meaning: int


def explained(around: Surroundings, similarities: Callable[[Cursors], Similarities], *, in_context: bool) -> Meant:
    """Return what a document means to a question; ``around`` is of it alone, up to ``fusion.REACH``.

    ``in_context``: whether those around it counted (``fusion.Fused``).
    """
    rows = around.rows
    row = around.around(rows)[0] if in_context else _alone(rows)
    near = similarities(row)
    own = near[fusion.REACH : fusion.REACH + 1]
    neighbours = [
        Near(distance, int(row[fusion.REACH + distance]), int(near[fusion.REACH + distance]), hundredths)
        for sign, shares in ((-1, fusion.BEFORE_HUNDREDTHS), (1, fusion.AFTER_HUNDREDTHS))
        for distance, hundredths in ((sign * number, share) for number, share in enumerate(shares, 1))
        if row[fusion.REACH + distance] != NOBODY
    ]
    held = priors(rows, around.question, fusion.LABEL_THOUSANDTHS)
    meaning = int(fusion.lifted(fusion.in_context(near[None]), held)[0])
    weight = int(fusion.weights(rows)[0])
    return Meant(
        int(own[0]), neighbours, [prior for prior, holds in held if holds[0] and meaning > 0], meaning, weight,
        weight * meaning // 1000,
    )  # fmt: skip


def _alone(rows: Rows) -> Cursors:
    """Return a row of a document without anybody around it."""
    row = np.full(2 * fusion.REACH + 1, NOBODY, np.uint64)
    row[fusion.REACH] = rows["cursor"][0]
    return row


def channels(score: int, meant: Meant, *, holds: bool = False) -> Channels:
    """Return what a score of the window is the sum of; ``holds``: it is of the best by words and has the phrases."""
    base = fusion.BASE + (fusion.PHRASED if holds else 0)
    return Channels(score - base - meant.share, base, meant.share)
