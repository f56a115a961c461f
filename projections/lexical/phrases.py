"""Phrases: what a query puts between double quotes is found as it is written, before all else.

What holds every phrase comes first, in the order of its score; what only has words of the query follows. So a title in
a question brings up what names it, and hides nothing that answers without it.

The index holds no places of words, so it only tells which documents hold every word of a phrase; whether one holds the
phrase its own text tells. Texts and phrases are compared in their normal form (``journal.identity.normalised``). Quotes
that nothing closes are text, and so is a phrase without a word. Words of Latin letters in a phrase are whole words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from journal import limits
from journal.identity import normalised
from projections.lexical.collection import Collection
from projections.lexical.identifiers import STOP_MARK, has_parts
from projections.lexical.postings import Ids
from projections.lexical.tokens import query_terms

if TYPE_CHECKING:
    from projections.lexical.context import Ranked

Cursors = npt.NDArray[np.uint64]

_PAIR: Final = 2
_BEFORE: Final = ("\uac00\uac00", "\uac00\uac00\uc5d0", "\uac00\uac00\uc73c", "\uac00\uac00\uc774")
"""A word's beginning before a cut, and ones after which a syllable is the end of a particle."""
_AFTER: Final = ("\uac00\uac00", "\ub7fc", "\uace0", "\uc11c", "\ub294", "\ub85c")
"""And its rest behind one: of a word, and of a particle."""
_HANGUL: Final = re.compile("[\uac00-\ud7a3]")

_QUOTED: Final = re.compile(  # what follows a digit is an inch
    '(?<![0-9])"([^"]*)"|\u201c([^\u201c\u201d]*)\u201d|\u201e([^\u201e\u201c\u201d]*)[\u201c\u201d]'
    "|\u00ab([^\u00ab\u00bb]*)\u00bb|\u300c([^\u300c\u300d]*)\u300d|\u300e([^\u300e\u300f]*)\u300f"
)


def phrases_of(query: str) -> tuple[str, ...]:
    """Return the phrases of a query in their normal form, each once."""
    quoted = (next(filter(None, match.groups()), "") for match in _QUOTED.finditer(query))
    found = dict.fromkeys(normalised(text) for text in quoted if query_terms(text))
    return tuple(found)[: limits.PHRASES_MAX]


def phrase_terms(phrases: Iterable[str]) -> list[str]:
    """Return the terms that a document which holds all phrases must hold, each once.

    A phrase may end inside a Hangul word, whose term is another one then, and which loses another ending. So of Hangul
    only pairs of syllables count, which run across words, and of them those that stay whatever stands at either end, as
    long as there are any. It may end between two parts of an identifier too: of one only those parts count that have
    none themselves.
    """
    found: dict[str, None] = {}
    for phrase in phrases:
        terms = query_terms(phrase)
        likely = [term for term in terms if len(term) == _PAIR or not (_HANGUL.search(term) or has_parts(term))]
        found.update(dict.fromkeys(_lasting(phrase, likely) or likely or terms))
    return list(found)


def _lasting(phrase: str, terms: list[str]) -> list[str]:
    """Return those terms of a phrase that stay whatever stands at either end."""
    if _HANGUL.search(phrase):
        for longer in (*(before + phrase for before in _BEFORE), *(phrase + after for after in _AFTER)):
            there = set(query_terms(longer))
            terms = [term for term in terms if term in there or not _HANGUL.search(term)]
    return terms


def terms_of_stop_words(phrases: Iterable[str]) -> list[str]:
    """Return the terms of those phrases that are stop words alone: a query has none of them beside other words."""
    terms = [query_terms(phrase) for phrase in phrases]
    return [term for each in terms if each[0].startswith(STOP_MARK) for term in each]


def documents_with(collection: Collection, tokens: Sequence[bytes]) -> Cursors:
    """Return the cursors of the documents in force that hold all of these distinct tokens, ascending."""
    held = [lists for lists, _ in collection.held(tokens)]
    if len(held) < len(tokens) or not held:
        return np.zeros(0, np.uint64)
    found: Ids = np.frombuffer(b"".join(held[0].ids), "<u4")
    for lists in held[1:]:
        found = np.intersect1d(found, np.frombuffer(b"".join(lists.ids), "<u4"), assume_unique=True)
    found = np.setdiff1d(found, collection.dead, assume_unique=True)
    cursors: Cursors = np.sort(collection.rows(found)["cursor"])
    return cursors


class Worded(NamedTuple):
    """What words and phrases find: (capture cursor, score), best first, and the cursors of the rescored window.

    The score of what holds every phrase is lifted by the best of all, so that no score rises from rank to rank.
    """

    hits: list[tuple[int, int]]
    window: list[int]
    lift: int = 0
    holding: frozenset[int] = frozenset()

    def by_words(self, cursor: int, score: int) -> int:
        """Return what of a hit's score its words brought."""
        return score - self.lift if cursor in self.holding else score


def worded(ranked: Ranked, holding: Ranked | None) -> Worded:
    """Return the order of what was found by words, and of what of it holds every phrase; None: no phrase is asked for.

    Both are rankings of one question, up to one limit.
    """
    window = [cursor for cursor, _ in ranked.hits[: ranked.window]]
    if holding is None or not holding.hits:
        return Worded(ranked.hits, window)
    lift, first = ranked.hits[0][1], frozenset(cursor for cursor, _ in holding.hits)
    hits = [(cursor, score + lift) for cursor, score in holding.hits]
    hits += [hit for hit in ranked.hits if hit[0] not in first]
    looked_at = dict.fromkeys([*(cursor for cursor, _ in holding.hits[: holding.window]), *window])
    return Worded(hits, list(looked_at), lift, first)


class Phrases:
    """Tells of cursors whose documents hold all phrases. Good for one search."""

    def __init__(self, phrases: Sequence[str], possible: Cursors, texts: Callable[[int], Iterable[str]]) -> None:
        """Take the phrases, the cursors of which alone may hold them, and what gives the texts of a document."""
        self._phrases = phrases
        self._possible = possible
        self._texts = texts
        self._known: dict[int, bool] = {}

    def __call__(self, cursors: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
        """Return which documents do; each is looked at once."""
        passes = np.isin(cursors, self._possible)
        asked = np.flatnonzero(passes)
        passes[asked] = [self._holds(cursor) for cursor in cursors[asked].tolist()]
        return passes

    def _holds(self, cursor: int) -> bool:
        if cursor not in self._known:
            texts = [normalised(text) for text in self._texts(cursor)]
            self._known[cursor] = all(any(phrase in text for text in texts) for phrase in self._phrases)
        return self._known[cursor]
