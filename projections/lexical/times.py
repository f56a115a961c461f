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
"""The word may be the end of one. A text none of whose words is either holds none."""

UNIT: Final = r"(?:seconds?|minutes?|hours?|days?|weeks?|weekends?|months?|years?|decades?)"
_NUMBER: Final = r"(?:\d+|an?|one|two|three|four|five|six|seven|eight|nine|ten|(?:a )?(?:few|couple of)|several)"
_SEASON: Final = r"(?:night|week|weekend|month|year|spring|summer|autumn|fall|winter)"
_WEEKDAY: Final = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_SHORT_WEEKDAY: Final = r"(?:mon|tues?|wed|thurs?|fri|sat|sun)"
_SHORT_MONTH: Final = r"(?:jan|feb|mar(?:ch)?|apr|may|jun|jul|aug|sept?|oct|nov|dec)"
_MONTH: Final = (
    r"(?:january|february|april|june|july|august|september|october|november|december"
    rf"|{_SHORT_MONTH}\.? \d|\d(?:st|nd|rd|th)? (?:of )?(?:march|may))"
)
_COUNTED: Final = r"(?:년|월|일|주|개월|시간|분|年|月|日|時|时)"
_TIME: Final = re.compile(
    rf"\b(?:yesterday|today|tonight|tomorrow|recently|lately|ago|since"
    rf"|(?:last|next|this|past) (?:{_SEASON}|morning|{_WEEKDAY}|{_SHORT_WEEKDAY})"
    rf"|{_NUMBER} {UNIT}|{_WEEKDAY}s?|{_MONTH}|(?:19|20)\d\d)\b"
    r"|\b\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}\b"
    rf"|\d+ ?{_COUNTED}"
    r"|어제|그저께|오늘|내일|모레|작년|올해|내년"
    r"|(?:지난|다음|이번) ?(?:주|달|해)|요일|최근"
    r"|昨日|昨天|今日|今天|明日|明天|去年|先週|先月|上周|曜日|星期",
    re.IGNORECASE,
)
_LAST_WORDS: Final = re.compile(  # the last of an expression with spaces in it, or the last but one
    rf"\A(?:{UNIT}|{_SEASON}|morning|{_SHORT_WEEKDAY}|march|may)\b|\b{_SHORT_MONTH}\.?\Z|\A(?:{_COUNTED}|주|달|해)",
    re.IGNORECASE,
)


def tells_time(normal: str) -> bool:
    """Whether a text in NFKC holds an expression of time."""
    return _TIME.search(normal) is not None


def time_in(word: str) -> int:
    """Return what a word between two spaces says of its text, as a bit: ``TOLD``, ``MAYBE``, or none."""
    if _TIME.search(word) is not None:
        return TOLD
    return 0 if _LAST_WORDS.search(word) is None else MAYBE
