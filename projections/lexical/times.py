"""Expressions of time in a text: a date, a day, a year, or how long ago. English, Korean, Japanese and Chinese.

To search a text for them takes longer than to take it apart into terms. So words are looked at first, each by itself,
which a tokenizer does once and remembers: a text without a word that may end an expression of time holds none.
"""

from __future__ import annotations

import re
from typing import Final

TOLD: Final = 2
"""The word holds an expression of time, and so does the text."""
MAYBE: Final = 1
"""The word may be the end of one, in any language."""
MAYBE_COUNTED: Final = 4
"""The word may be the end of one in Korean, Chinese or Japanese alone. A text without any of the three holds none."""

_UNITS: Final = "second minute hour day week weekend month year decade".split()
_SEASONS: Final = "night week weekend month year spring summer autumn fall winter".split()
_DAYS: Final = "yesterday today tonight tomorrow recently lately ago since".split()
_WEEKDAYS: Final = "monday tuesday wednesday thursday friday saturday sunday".split()
_SHORT_WEEKDAYS: Final = "mon tue tues wed thur thurs fri sat sun".split()
_MONTHS: Final = "january february april june july august september october november december".split()
_SHORT_MONTHS: Final = "jan feb mar march apr may jun jul aug sep sept oct nov dec".split()

UNIT: Final = rf"(?:(?:{'|'.join(_UNITS)})s?)"
_NUMBER: Final = r"(?:\d+|an?|one|two|three|four|five|six|seven|eight|nine|ten|(?:a )?(?:few|couple of)|several)"
_SEASON: Final = f"(?:{'|'.join(_SEASONS)})"
_WEEKDAY: Final = f"(?:{'|'.join(_WEEKDAYS)})"
_SHORT_WEEKDAY: Final = f"(?:{'|'.join(_SHORT_WEEKDAYS)})"
_SHORT_MONTH: Final = f"(?:{'|'.join(_SHORT_MONTHS)})"
_MONTH: Final = (
    rf"(?:{'|'.join(_MONTHS)}"
    rf"|{_SHORT_MONTH}\.? \d|\d(?:st|nd|rd|th)? (?:of )?(?:march|may))"
)
_COUNTED: Final = r"(?:년|월|일|주|개월|시간|분|年|月|日|時|时)"
_KOREAN: Final = (
    "어제|그저께|오늘|내일|모레|작년|올해|내년|지난 ?(?:주|달|해)|다음 ?(?:주|달|해)|이번 ?(?:주|달|해)|요일|최근"
)
_TIME: Final = re.compile(
    rf"\b(?:{'|'.join(_DAYS)}"
    rf"|(?:last|next|this|past) (?:{_SEASON}|morning|{_WEEKDAY}|{_SHORT_WEEKDAY})"
    rf"|{_NUMBER} {UNIT}|{_WEEKDAY}s?|{_MONTH}|(?:19|20)\d\d)\b"
    r"|\b\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}\b"
    rf"|(?<!\d)\d+ ?{_COUNTED}"  # from the first digit alone, or a long number would take the square of its length
    rf"|{_KOREAN}"
    r"|昨日|昨天|今日|今天|明日|明天|去年|先週|先月|上周|曜日|星期",
    re.IGNORECASE,
)
_LAST_WORDS: Final = re.compile(  # the last of an expression with spaces in it, or the last but one
    rf"\A(?:{UNIT}|{_SEASON}|morning|{_SHORT_WEEKDAY}|march|may)\b|\b{_SHORT_MONTH}\.?\Z", re.IGNORECASE
)
_LAST_COUNTED: Final = ("년", "월", "일", "주", "개월", "시간", "분", "달", "해", "年", "月", "日", "時", "时")
_COUNTED_TIME: Final = re.compile(rf"\d ?{_COUNTED}|{_KOREAN}")

# What the two above find in a word of one script, whose letters lead nowhere else.
_TOLD_WORDS: Final = frozenset([*_DAYS, *_WEEKDAYS, *(f"{day}s" for day in _WEEKDAYS), *_MONTHS])
_LAST_AT_START: Final = frozenset(
    [*_UNITS, *(f"{unit}s" for unit in _UNITS), *_SEASONS, "morning", *_SHORT_WEEKDAYS, "march", "may"]
)
_LAST_AT_END: Final = frozenset(_SHORT_MONTHS)
_YEAR: Final = re.compile("(?:19|20)[0-9]{2}")
_KOREAN_TOLD: Final = re.compile(_KOREAN)


def tells_time(normal: str) -> bool:
    """Whether a text in NFKC holds an expression of time."""
    return _TIME.search(normal) is not None


def told_by(normal: str, words: int) -> bool:
    """Return what ``tells_time`` does of a text of which it is known what its words say, ``time_in`` each, as bits."""
    if words & (TOLD | MAYBE):
        return bool(words & TOLD) or tells_time(normal)
    return words != 0 and _COUNTED_TIME.search(normal) is not None


def time_in(word: str) -> int:
    """Return what a word between two spaces says of its text, as one of the three bits, or none."""
    if _TIME.search(word) is not None:
        return TOLD
    if _LAST_WORDS.search(word) is not None:
        return MAYBE
    return MAYBE_COUNTED if word.startswith(_LAST_COUNTED) else 0


def time_in_plain(lead: str, core: str, rest: str) -> int:
    """Return what ``time_in`` does of a word that is ASCII letters and digits, or Hangul, between ASCII punctuation.

    The punctuation may hold no underscore, which is a letter to an expression.
    """
    if core.isascii():
        folded = core.lower()
        if folded in _TOLD_WORDS or _YEAR.fullmatch(folded) is not None:
            return TOLD
        is_last = (not lead and folded in _LAST_AT_START) or (rest in ("", ".") and folded in _LAST_AT_END)
        return MAYBE if is_last else 0
    if _KOREAN_TOLD.search(core) is not None:
        return TOLD
    return MAYBE_COUNTED if not lead and core.startswith(_LAST_COUNTED) else 0
