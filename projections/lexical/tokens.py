"""From text to terms, the same for documents and queries.

Text is brought to NFKC and case-folded, so that composed and decomposed forms, full-width and half-width, upper and
lower case are alike. Then each run of a script gives its terms:

- Latin letters and digits: words stemmed, identifiers whole and by their parts (``identifiers``).
- Hangul: the word without its particle, and the bigrams over such words joined across spaces, because spacing in
  Korean is a matter of taste. A number and the first syllable glued to it are one term more (the year, the floor, the
  third). A word of one syllable is a term by itself.
- Han, kana, bopomofo, and the scripts of South East Asia that have no spaces: bigrams; a single character is a term.
- Any other script: the word, by Unicode category (letters, marks, numbers). Emoji: each one a term.

Stop words are no terms of a query, unless it has nothing else. For that case documents keep them, marked, and no
length counts them; a query that has one other word never touches them. Nothing is syntax: every string is text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from operator import add
from typing import Final, NamedTuple

from journal import limits
from journal.normal import beginning, nfkc
from projections.lexical.identifiers import STOP_MARK, latin_terms
from projections.lexical.keyed import is_met_again
from projections.lexical.korean import PARTICLES, QUESTION_WORDS, short_noun, strip_particle
from projections.lexical.times import time_in, time_in_plain

_LATIN: Final = r"0-9A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff"
_LATIN_RUN: Final = rf"[{_LATIN}][{_LATIN}\u0300-\u036f]*"  # with the marks that no composed letter has
_HANGUL: Final = r"\uac00-\ud7a3"
_SPACELESS: Final = (
    r"\u3005-\u3007\u3040-\u30fa\u30fc-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    r"\uf900-\ufaff\U00020000-\U0003ffff"  # Han, kana, bopomofo
    r"\u0e00-\u0e7f\u0e80-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
)
_SCAN: Final = re.compile(
    rf"(?P<latin>(?:\#(?=[0-9]))?{_LATIN_RUN}"
    rf"(?:(?:[./\\:@_'\u2019-]{{1,3}}|(?<=[0-9]),(?=[0-9]{{3}}(?![0-9]))){_LATIN_RUN})*"
    rf"(?:(?:\#|\+\+)(?![{_LATIN}]))?)"
    rf"|(?P<hangul>[{_HANGUL}]+)"
    rf"|(?P<spaceless>[{_SPACELESS}]+)"
    rf"|(?P<other>[^\x00-\x7f{_LATIN}{_HANGUL}{_SPACELESS}]+)"
)
_PLAIN: Final = re.compile(  # one run, and punctuation that is no part of it, whatever the run is
    rf"([!-/:-@\[-^`{{-~]*)(?:([{_HANGUL}]+)|(?<!\#)([0-9A-Za-z]+)(?![\#+]))([!-/:-@\[-^`{{-~]*)"
)
_INVISIBLE: Final = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff]")
_STABLE: Final = re.compile(  # what NFKC leaves as it is, whatever stands beside it, and all can be seen
    f"[\x00-\x7f\u00b7\u2018\u2019\u201c\u201d\u3001-\u3003\u3008-\u3011\u3014-\u3019"
    f"{_HANGUL}\u3041-\u3096\u30a1-\u30fa\u30fc\u3400-\u4dbf\u4e00-\u9fff]*"
)
_BREAKING_SPACE: Final = re.compile("[\x85\u1680\u2028\u2029]")  # all others are ASCII in NFKC
_BREAK: Final = " . "
_SYMBOL: Final = "So"  # emoji and their like


class _Run(NamedTuple):
    """What one run of a script gives by itself."""

    terms: tuple[str, ...]
    stem: str | None  # of a Hangul word, empty for a stop word; None of any other script
    is_latin: bool


# What lies between two spaces, as it acts on the Hangul words that are being joined across spaces: the terms of the
# Hangul that goes on with what stands before the space; what it adds to that; the terms behind the first break, None
# where nothing breaks; what is joined with what follows the next space, of a word that breaks.
_Acting = tuple[tuple[str, ...], str, tuple[str, ...] | None, str]

# That, then how many of the terms are stop words, and ``times.time_in``. A plain tuple of strings: what is remembered
# in such numbers should be nothing that the collector has to look through.
_Word = tuple[tuple[str, ...], str, tuple[str, ...] | None, str, int, int]


class Reading(NamedTuple):
    """A text as a tokenizer read it."""

    normal: str  # the text, ``normalised``
    terms: list[str]
    length: int  # how many of the terms are no stop words
    time: int  # the bits that ``times.time_in`` gives of its words
    runs: Sequence[str] = ()  # Hangul whose bigrams are terms too, and not among ``terms`` (``read_apart``)

    @property
    def pairs(self) -> int:
        """How many terms the runs give."""
        return _pairs(self.runs)


def _pairs(runs: Sequence[str]) -> int:
    return sum(map(len, runs)) - len(runs)


class Tokenizer:
    """Turns text into terms. It remembers words, so one is made a scope: what one scope said must not speed another.

    The memo is bounded and safe to share between threads.
    """

    def __init__(self) -> None:
        self._memo: dict[str, _Word] = {}

    def document_terms(self, text: str) -> list[str]:
        """Return the terms of a document's text, repeated as they occur; stop words carry ``STOP_MARK``."""
        return self.read(text).terms

    def query_terms(self, text: str) -> list[str]:
        """Return the terms of a query, repeated as they occur; stop words only where there is nothing else."""
        terms = self.document_terms(text)
        return [term for term in terms if term[0] != STOP_MARK] or terms

    def read(self, text: str) -> Reading:
        """Return all that is known of a text, with its terms as ``document_terms`` has them."""
        normal = normalised(text)
        terms: list[str] = []
        stopped, time = self._walk(normal, terms, lambda joined: terms.extend(map(add, joined, joined[1:])))
        return Reading(normal, terms, len(terms) - stopped, time)

    def read_apart(self, text: str) -> Reading:
        """Return what ``read`` does, the bigrams of Hangul not as terms yet but as the runs that give them."""
        normal = normalised(text)
        terms: list[str] = []
        runs: list[str] = []
        stopped, time = self._walk(normal, terms, runs.append)
        return Reading(normal, terms, len(terms) + _pairs(runs) - stopped, time, runs)

    def _walk(self, normal: str, terms: list[str], joins: Callable[[str], None]) -> tuple[int, int]:
        """Add a text's terms, and give the Hangul that is joined; return how many stop words and what of time."""
        joined = ""  # stripped Hangul words that only spaces divide, on their way to bigrams
        stopped = time = 0
        known_word, learnt = self._memo.get, self._learnt
        for word in _spaced(normal).split():
            before, stem, behind, open_stem, stops, told = known_word(word) or learnt(word)
            if before:
                terms += before
                joined += stem
            if stops:
                stopped += stops
            if told:
                time |= told
            if behind is not None:
                if joined:
                    joins(joined)
                terms += behind
                joined = open_stem
        if joined:
            joins(joined)
        return stopped, time

    def _learnt(self, word: str) -> _Word:
        """Return what a word gives, and remember it."""
        known = _known(word)
        if is_met_again(word):
            if len(self._memo) >= limits.LEXICAL_MEMO_WORDS:
                self._memo.clear()
            self._memo[word] = known
        return known


def _spaced(normal: str) -> str:
    """Return the text with everything that ``str.split`` takes for a space, and joins no Hangul, as a break."""
    return normal if normal.isascii() else _BREAKING_SPACE.sub(_BREAK, normal)


def _known(word: str) -> _Word:
    """Return what a word gives."""
    plain = _PLAIN.fullmatch(word)
    if plain is None:
        acting, time = _acting(word), time_in(word)
    else:
        lead, hangul, latin, rest = plain.groups()
        acting = _acting_hangul(lead, hangul, rest) if hangul else ((), "", latin_terms(latin), "")
        time = time_in_plain(lead, hangul or latin, rest)
    before, stem, behind, open_stem = acting
    stops = len([term for term in (before + behind if behind else before) if term[0] == STOP_MARK])
    return before, stem, behind, open_stem, stops, time


def _acting_hangul(lead: str, hangul: str, rest: str) -> _Acting:
    """Return what a Hangul word between punctuation gives, as ``_acting`` does."""
    known = _hangul_run(hangul)
    terms, stem = known.terms, known.stem or ""
    if not lead:
        return (terms, stem, () if rest else None, "")
    return ((), "", (*terms, *_bigrams(stem)), "") if rest else ((), "", terms, stem)


def _acting(word: str) -> _Acting:
    """Return what a word gives: all its runs, one after the other."""
    before: tuple[str, ...] | None = None  # nothing breaks yet
    stem = ""
    terms: list[str] = []
    joined = ""
    end = 0
    latin = ""  # the run before this one, where it is Latin
    for match in _SCAN.finditer(word):
        start, run = match.span()[0], match.group()
        known = _run(run, match.lastgroup)
        glued_to = latin if start == end else ""
        if known.stem is None or glued_to or start != end:
            if before is None:
                before, stem, terms = tuple(terms), joined, []
            else:
                terms += _bigrams(joined)
            joined = ""
        if glued_to and known.stem is not None:
            terms += _glued_terms(glued_to, run, known)
            joined = "" if run in PARTICLES else known.stem
        else:
            terms += known.terms
            joined += known.stem or ""
        end = match.end()
        latin = run if known.is_latin else ""
    if end < len(word):  # what stands there divides, as spaces alone would not
        if before is None:
            return tuple(terms), joined, (), ""
        return before, stem, (*terms, *_bigrams(joined)), ""
    return (tuple(terms), joined, None, "") if before is None else (before, stem, tuple(terms), joined)


def _run(run: str, script: str | None) -> _Run:
    """Return what a run of a script gives."""
    if script == "latin":
        return _Run(latin_terms(run), None, is_latin=True)
    if script == "hangul":
        return _hangul_run(run)
    folded = run.casefold()
    if script == "other":
        return _Run(tuple(_category_terms(folded)), None, is_latin=False)
    return _Run((folded,) if len(folded) == 1 else tuple(_bigrams(folded)), None, is_latin=False)


def _hangul_run(word: str) -> _Run:
    """Return the stem of a Hangul word, and the noun of one syllable that it may hold."""
    stem = word if word in QUESTION_WORDS else strip_particle(word)
    if stem in QUESTION_WORDS:
        return _Run((STOP_MARK + stem,), "", is_latin=False)
    noun = short_noun(stem)
    return _Run((stem,) if noun is None else (stem, noun), stem, is_latin=False)


def _glued_terms(latin: str, word: str, known: _Run) -> tuple[str, ...]:
    """Return the terms of a Hangul word that is glued to a Latin run."""
    if word in PARTICLES:  # the particle of a Latin word is nothing of its own
        return ()
    return (latin + word[0], *known.terms) if latin.isdigit() else known.terms


def normalised(text: str) -> str:
    """Return the text in NFKC without what cannot be seen; case stays, because identifiers split at it."""
    text = beginning(text, limits.LEXICAL_TEXT_MAX_CHARACTERS)
    if _STABLE.fullmatch(text) is not None:
        return text
    normal = nfkc(text)
    return _INVISIBLE.sub("", normal)


def _bigrams(run: str) -> list[str]:
    """Return all pairs of neighbours."""
    return list(map(add, run, run[1:]))


def _category_terms(folded: str) -> list[str]:
    """Return the words of a run by Unicode category, and its symbols one by one."""
    terms: list[str] = []
    word = ""
    for character in folded:
        category = unicodedata.category(character)
        if category[0] in "LN" or (category[0] == "M" and word):  # a mark extends a word and begins none
            word += character
            continue
        if word:
            terms.append(word)
            word = ""
        if category == _SYMBOL:
            terms.append(character)
    if word:
        terms.append(word)
    return terms


def document_terms(text: str) -> list[str]:
    """Return the terms of a document's text, as a tokenizer without memory gives them."""
    return Tokenizer().document_terms(text)


def query_terms(text: str) -> list[str]:
    """Return the terms of a query, as a tokenizer without memory gives them."""
    return Tokenizer().query_terms(text)
