"""Latin words and identifiers: what terms one run of letters, digits and connectors gives.

A plain word gives its stem. An identifier gives itself as written (case-folded) and every part of it: a path its
segments, a segment the names around its dots, a name the words around hyphens and underscores, a word its humps. So
``src/main.py`` is found by itself, by ``main.py`` and by ``main``, ``getUserName`` by itself and by ``user name``,
``2026-11-29`` by itself and by its year.
"""

from __future__ import annotations

import re
import threading
from typing import Final

import Stemmer

from projections.lexical.stopwords import STOP_WORDS

STOP_MARK: Final = "\x00"
"""Stands before a stop word's term in a document. A control character is in no other term."""

_LEVELS: Final = (
    re.compile(r"[/\\:@]+|(?<=\d)[Tt](?=\d)"),  # path segments, address parts; date and time of an instant
    re.compile(r"\.+"),
    re.compile(r"[-_']+"),
    re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[0-9A-Z])(?=[A-Z][a-z])"),  # humps: getUserName, HTTPServer
)
_CONTRACTION: Final = re.compile(r"(?:n't|'(?:s|re|ve|ll|d|m|t))$", re.IGNORECASE)


class _Stemmers(threading.local):
    """One stemmer a thread: it has internal state. Its own cache is off; the tokenizer's memo is better."""

    def __init__(self) -> None:
        self.english = Stemmer.Stemmer("english", 0)


_STEMMERS: Final = _Stemmers()


def latin_terms(written: str) -> tuple[str, ...]:
    """Return the terms of one run of Latin letters, digits and connectors, in NFKC and with its case as written."""
    run = written.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").replace(",", "")
    if "'" in run:
        run = _CONTRACTION.sub("", run) or run  # "n't" alone is all that there is
    folded = run.casefold()
    if folded in STOP_WORDS:
        return (STOP_MARK + folded,)
    if folded == run and run.isalnum():
        return (_stemmed(folded),)
    if folded[-1] in "#+":  # C#, C++
        return (folded, *latin_terms(run.rstrip("#+")))
    if folded[0] == "#":  # #4797
        return (folded, *latin_terms(run[1:]))
    return tuple(_expanded(run, 0))


def _expanded(node: str, level: int) -> list[str]:
    """Return the term of a node and those of all its parts, each part once where a level does not split it."""
    while level < len(_LEVELS):
        parts = [part for part in _LEVELS[level].split(node) if part]
        level += 1
        if len(parts) > 1:
            terms = [_stemmed(node.casefold())]
            for part in parts:
                if not _is_noise(part):
                    terms += _expanded(part, level)
            return terms
    return [_stemmed(node.casefold())]


def has_parts(term: str) -> bool:
    """Whether a term is an identifier whose parts are terms beside it."""
    return len(latin_terms(term)) > 1


def _is_noise(part: str) -> bool:
    """Whether a part of an identifier says nothing by itself: the whole stands in the index anyway."""
    return part.casefold() in STOP_WORDS


def _stemmed(folded: str) -> str:
    """Return the stem of an English word; anything but ASCII letters stays as it is."""
    if folded.isascii() and folded.isalpha():
        return str(_STEMMERS.english.stemWord(folded))
    return folded
