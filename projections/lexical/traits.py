"""What a text is besides its words: whether it asks, whether it tells a time; and whether a question asks for one.

Small, fixed rules in English, Korean, Japanese and Chinese. A text has a trait or has it not; what it counts stands in
the profile.
"""

from __future__ import annotations

import re
from typing import Final

from projections.lexical.tokens import normalised

ASKS: Final = 1
"""The text ends in a question mark."""
TELLS_TIME: Final = 2
"""The text tells a date, a day, a year, or how long ago."""

SHORT: Final = 4
"""The text is a line or two, as things are said: what stands around it tells what it is about."""

SHORT_MAX_BYTES: Final = 512

_TAIL: Final = 64  # closing quotes and brackets that may follow a question mark

_ENDS_IN_QUESTION: Final = re.compile(r"[?\u061f]\W*\Z")
_NUMBER: Final = r"(?:\d+|an?|one|two|three|four|five|six|seven|eight|nine|ten|(?:a )?(?:few|couple of)|several)"
_UNIT: Final = r"(?:seconds?|minutes?|hours?|days?|weeks?|weekends?|months?|years?|decades?)"
_SEASON: Final = r"(?:night|week|weekend|month|year|spring|summer|autumn|fall|winter)"
_WEEKDAY: Final = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_MONTH: Final = (
    r"(?:january|february|april|june|july|august|september|october|november|december"
    r"|(?:jan|feb|mar(?:ch)?|apr|may|jun|jul|aug|sept?|oct|nov|dec)\.? \d|\d(?:st|nd|rd|th)? (?:of )?(?:march|may))"
)
_TIME: Final = re.compile(
    rf"\b(?:yesterday|today|tonight|tomorrow|recently|lately|ago|since"
    rf"|(?:last|next|this|past) (?:{_SEASON}|morning|{_WEEKDAY}|mon|tues?|wed|thurs?|fri|sat|sun)"
    rf"|{_NUMBER} {_UNIT}|{_WEEKDAY}s?|{_MONTH}|(?:19|20)\d\d)\b"
    r"|\b\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}\b"
    r"|\d+ ?(?:년|월|일|주|개월|시간|분|年|月|日|時|时)"
    r"|어제|그저께|오늘|내일|모레|작년|올해|내년"
    r"|(?:지난|다음|이번) ?(?:주|달|해)|요일|최근"
    r"|昨日|昨天|今日|今天|明日|明天|去年|先週|先月|上周|曜日|星期",
    re.IGNORECASE,
)
_WHEN: Final = re.compile(
    rf"\A\W*(?:when|since when|how long|how many {_UNIT}|(?:(?:in|on|at|by|during) )?(?:what|which) "
    r"(?:date|day|week|month|year|time|season)s?)\b(?!-)"
    r"|언제|며칠|몇 ?(?:년|월|일|시|주|달)|무슨 요일"
    r"|いつ|何時|何日|何月|何年|什么时候|何时|哪天|哪年",
    re.IGNORECASE,
)


def traits_of(text: str) -> int:
    """Return the traits of a text, as bits."""
    normal = normalised(text)
    asks = ASKS if _ENDS_IN_QUESTION.search(normal[-_TAIL:]) else 0
    tells_time = TELLS_TIME if _TIME.search(normal) else 0
    return asks | tells_time | (SHORT if len(normal.encode("utf-8", "surrogatepass")) <= SHORT_MAX_BYTES else 0)


def asks_when(query: str) -> bool:
    """Whether a query asks for a time."""
    return _WHEN.search(normalised(query)) is not None
