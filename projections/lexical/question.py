"""A query as the index is asked it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from projections.lexical.identifiers import STOP_MARK
from projections.lexical.phrases import phrases_of, terms_of_stop_words
from projections.lexical.tokens import query_terms
from projections.lexical.traits import asks_when


@dataclass(frozen=True, slots=True)
class Question:
    """The terms of a query, repeated as it says them, and what it asks for."""

    terms: tuple[str, ...]
    asks_when: bool = False
    tokens: Sequence[bytes] = ()  # of the terms, once they are keyed
    phrases: tuple[str, ...] = ()  # to be found as they are written (``phrases``)

    @classmethod
    def of(cls, query: str) -> Question:
        """Read a query. Every string is one; nothing in it is syntax but double quotes around a phrase."""
        terms, phrases = query_terms(query), phrases_of(query)
        if not terms or not terms[0].startswith(STOP_MARK):
            terms += terms_of_stop_words(phrases)  # or nothing would be found that holds such a phrase alone
        return cls(tuple(terms), asks_when(query), phrases=phrases)
