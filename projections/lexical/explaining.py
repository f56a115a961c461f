"""Why a document was found: what each term of a query adds to its score.

A score is the sum of weight x impact over the query's terms, all integers, so that the shares told here add up exactly
to what the search gave.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from projections.lexical.identifiers import STOP_MARK
from projections.lexical.tables import IndexTables


class Asked(NamedTuple):
    """A term of a query, as a collection weighs it."""

    term: str
    times: int  # how often the query says it
    containing: int  # documents that hold it
    weight: int  # millionths of idf; 0 where no document holds it


class Share(NamedTuple):
    """What one term of a query adds to one document's score."""

    term: str
    times: int  # how often the query says it
    containing: int  # documents that hold it
    weight: int  # holds ``times`` already
    impact: int  # 0 where the document does not hold it
    share: int  # weight x impact, in millionths


def shares(tables: IndexTables, cursor: int, asked: Mapping[bytes, Asked]) -> list[Share]:
    """Return the shares of all terms in the score of the document at a cursor, greatest first.

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
