"""Why a document was found: what each term of a query, each neighbour and each prior adds to its score.

Everything is integers, so that what is told here leads exactly to the score that the search gave.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from projections.lexical import profile
from projections.lexical.collection import Collection, TermLists
from projections.lexical.context import REACH, Prior, priors
from projections.lexical.documents import Document
from projections.lexical.identifiers import STOP_MARK
from projections.lexical.maxscore import Eligible, own_scores
from projections.lexical.profile import Field
from projections.lexical.question import Question
from projections.lexical.scoring import field_factor
from projections.lexical.tables import IndexTables, Rows
from projections.lexical.tokens import Tokenizer
from projections.lexical.traits import SHORT


class Asked(NamedTuple):
    """A term of a query, as a collection weighs it."""

    term: str
    times: int  # how often the query says it
    containing: int  # documents that hold it
    weight: int  # hundred-thousandths of idf; 0 where no document holds it


class Share(NamedTuple):
    """What one term of a query adds to one document's score."""

    term: str
    times: int  # how often the query says it
    containing: int  # documents that hold it
    weight: int  # holds ``times`` already
    impact: int  # 0 where the document does not hold it
    share: int  # weight x impact


class Neighbour(NamedTuple):
    """What a document beside another in its source adds to it."""

    distance: int  # -1: the one before, 1: the one after
    cursor: int
    own: int  # what its own words add up to
    tenths: int
    share: int  # own x tenths, in millionths


class Explanation(NamedTuple):
    """A score, made again: (own x tenths + neighbours), times each prior in turn, rounded down each time.

    Beyond the window neither neighbours nor priors count, and own words count for less.
    """

    terms: list[Share]
    own: int  # the sum of the terms' shares
    tenths: int  # what they count for
    neighbours: list[Neighbour]
    priors: list[Prior]
    score: int  # millionths


def explained(
    collection: Collection, lists: Sequence[TermLists], terms: list[Share], question: Question, cursor: int, score: int,
    beside: Eligible | None = None,
) -> Explanation:  # fmt: skip
    """Return why the document at a cursor has the score that the search gave it.

    ``lists`` are the weighed lists of the question's terms, ``terms`` their shares in the document's own words.
    """
    own = sum(share.share for share in terms)
    ordinal = collection.ordinal(cursor)
    if ordinal is None or score == own * profile.BEYOND_TENTHS:
        return Explanation(terms, own, profile.BEYOND_TENTHS, [], [], own * profile.BEYOND_TENTHS)
    row = collection.rows(np.array([ordinal], np.uint32))
    neighbours = _neighbours(collection, lists, row, beside)
    total = own * profile.OWN_TENTHS + sum(one.share for one in neighbours)
    held = [prior for prior, holds in priors(row, question, profile.LABEL_THOUSANDTHS) if holds[0]]
    for prior in held:
        total = total * prior.thousandths // 1000
    return Explanation(terms, own, profile.OWN_TENTHS, neighbours, held, total)


def field_shares(fields: Sequence[Field], document: Document, terms: Sequence[Share]) -> dict[str, dict[str, int]]:
    """Return of each term that counts in a document the thousandths of it that each field brought.

    The document is the one that was weighed; ``fields`` are those of its profile.
    """
    tokenizer = Tokenizer()
    counted = {field.name: Counter[str]() for field in fields}
    for name, text in document.fields:
        counted[name].update(tokenizer.document_terms(text))
    lengths = {
        name: sum(count for term, count in counts.items() if term[0] != STOP_MARK) for name, counts in counted.items()
    }
    found = {}
    for share in terms:
        parts = {
            field.name: field_factor(field, lengths[field.name]) * count
            for field in fields
            if (count := counted[field.name][share.term] + counted[field.name][STOP_MARK + share.term])
        }
        total = sum(parts.values())
        found[share.term] = {name: round(1000 * part / total) for name, part in parts.items()}
    return found


def _neighbours(
    collection: Collection, lists: Sequence[TermLists], row: Rows, beside: Eligible | None
) -> list[Neighbour]:
    """Return the neighbours that add something, those before first, the nearest first."""
    if not any(row["group"].tobytes()) or not row["traits"] & SHORT:
        return []
    around = collection.around(row, REACH, beside)[0]
    found = []
    for direction, tenths_of in ((-1, profile.BEFORE_TENTHS), (1, profile.AFTER_TENTHS)):
        for distance, tenths in enumerate(tenths_of, 1):
            ordinal = around[REACH + direction * distance]
            if ordinal < 0:
                break
            there = np.array([ordinal], np.uint32)
            own = int(own_scores(lists, there)[0])
            if own:
                cursor = int(collection.rows(there)["cursor"][0])
                found.append(Neighbour(direction * distance, cursor, own, tenths, own * tenths))
    return found


def shares(tables: IndexTables, cursor: int, asked: Mapping[bytes, Asked]) -> list[Share]:
    """Return the shares of all terms in what the words of the document at a cursor add up to, greatest first.

    ``asked`` maps tokens to terms; several tokens may be one term, of which a document holds one at most. A document
    that is not in force holds none.
    """
    ordinal = tables.ordinal(cursor)
    impacts: dict[bytes, int] = {}
    if ordinal is not None:
        document = tables.forward(ordinal)
        impacts = dict(zip(document.token_list(), document.impacts, strict=True))
    terms = {one.term: one for one in asked.values()}
    held = dict.fromkeys(terms, 0)
    for token, one in asked.items():
        held[one.term] += impacts.get(token, 0)
    found = [
        Share(term.removeprefix(STOP_MARK), one.times, one.containing, one.weight, held[term], one.weight * held[term])
        for term, one in terms.items()
    ]
    return sorted(found, key=lambda share: -share.share)
