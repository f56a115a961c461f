"""The ranking of the profile, done by looking at every document: no index, no pruning, no arrays."""

from __future__ import annotations

from typing import NamedTuple

from projections.lexical import profile
from projections.lexical.question import Question
from projections.lexical.traits import ASKS, SHORT, TELLS_TIME


class Plain(NamedTuple):
    """A document in force, and what its own words add up to."""

    cursor: int
    tie: tuple
    own: int
    source: object  # None: it stands alone
    order: int
    is_named: bool
    traits: int
    eligible: bool


def plain_ranking(documents: list[Plain], query: str, limit: int, *, beside_all=False) -> list[tuple[int, int]]:
    """Return (cursor, score) of the best. ``beside_all``: what is not eligible is a neighbour all the same."""
    row_of = documents if beside_all else [one for one in documents if one.eligible]
    found = sorted((one for one in documents if one.own and one.eligible), key=lambda one: (-one.own, one.tie))
    best, rest = found[: profile.WINDOW_DOCUMENTS], found[profile.WINDOW_DOCUMENTS :]
    least = rest[0].own * profile.BEYOND_TENTHS if rest else 0
    reach = max(len(profile.BEFORE_TENTHS), len(profile.AFTER_TENTHS))
    beside = {
        near.cursor for one in best for distance in range(-reach, reach + 1) if (near := at(row_of, one, distance))
    }
    window = []
    for one in found:
        score = rescored(row_of, one, Question.of(query))
        if one in best or (one.cursor in beside and score > least):
            window.append((-score, one.tie, one.cursor))
    hits = [(cursor, -score) for score, _, cursor in sorted(window)]
    known = {cursor for cursor, _ in hits}
    return (hits + [(one.cursor, one.own * profile.BEYOND_TENTHS) for one in rest if one.cursor not in known])[:limit]


def at(documents, one, distance):
    """Return what stands so far after a document in its source, or None."""
    if one.source is None:
        return one if distance == 0 else None
    row = sorted(
        (other for other in documents if other.source == one.source), key=lambda other: (other.order, other.cursor)
    )
    place = row.index(one) + distance
    return row[place] if 0 <= place < len(row) else None


def rescored(documents, one, question):
    """Return a document's score with its context and priors."""
    score = one.own * profile.OWN_TENTHS
    for sign, tenths_of in ((-1, profile.BEFORE_TENTHS), (1, profile.AFTER_TENTHS)):
        for distance, tenths in enumerate(tenths_of, 1):
            near = at(documents, one, sign * distance)
            score += near.own * tenths if near and one.traits & SHORT else 0
    if one.traits & ASKS:
        score = score * profile.ASKS_THOUSANDTHS // 1000
    if question.asks_when and one.traits & TELLS_TIME:
        score = score * profile.TIME_THOUSANDTHS // 1000
    return score * profile.LABEL_THOUSANDTHS // 1000 if one.is_named else score
