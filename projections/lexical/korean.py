"""Korean: particles, question words, and nouns of one syllable.

A particle is glued to its noun, so that a word as written seldom equals the word that is looked for. The longest
particle that leaves at least two syllables is stripped, without a look at the final consonant: that check gained
nothing on KorQuAD, and what is stripped too far or not far enough is caught by the bigrams.
"""

from __future__ import annotations

from typing import Final

PARTICLES: Final[frozenset[str]] = frozenset(
    (
        "을 를 은 는 이 가 의 에 와 과 도 만 로 으로 "
        "에서 에게 에는 에도 에서는 에서의 에게서 까지 까지의 부터 으로부터 로부터 보다 처럼 마다 한테 께서 "
        "으로는 로는 으로서 로서 으로써 로써 이나 이란 이라는 라는 이라고 라고 이며 이랑 조차 마저 밖에"
    ).split()
)
"""Every particle that is stripped."""

LONGEST: Final = max(map(len, PARTICLES))

QUESTION_WORDS: Final[frozenset[str]] = frozenset(
    "무엇 무엇인가 무엇인가요 무엇인지 무엇일까 뭐 뭐야 누구 누구인가 누구인가요 누구인지 누구일까 누가 "
    "언제 언제인가 언제인가요 언제인지 언제일까 어디 어디인가 어디인가요 어디인지 어디일까 "
    "어느 무슨 어떤 어떻게 왜 얼마 얼마인가 몇".split()
)
"""Words that ask, particle stripped. They say nothing about the answer's text, so they are stop words."""

_SYLLABLES: Final = 0xAC00  # the first precomposed syllable; final consonants cycle by 28 from it
_FINALS: Final = 28
_AFTER_CONSONANT: Final = frozenset("을은이과")
_AFTER_VOWEL: Final = frozenset("를는가와로")
_ANYWHERE: Final = frozenset("의에도만")


def strip_particle(word: str) -> str:
    """Return the Hangul word without its longest particle, or as it is where under two syllables would remain."""
    for size in range(min(LONGEST, len(word) - 2), 0, -1):
        if word[-size:] in PARTICLES:
            return word[:-size]
    return word


def short_noun(word: str) -> str | None:
    """Return the noun of one syllable that a word of two may be: itself and a particle that fits its final consonant.

    Stripping leaves such a word whole, because two syllables alone cannot be told from a noun of two; the noun is
    found through this term besides.
    """
    noun, particle = word[:1], word[1:]
    if len(particle) != 1:
        return None
    closed = (ord(noun) - _SYLLABLES) % _FINALS != 0
    fits = particle in _ANYWHERE or particle in (_AFTER_CONSONANT if closed else _AFTER_VOWEL)
    return noun if fits else None
