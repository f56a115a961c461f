"""What a text is besides its words: whether it asks, whether it tells a time; and whether a question asks for one.

Small, fixed rules in English, Korean, Japanese and Chinese. A text has a trait or has it not; what it counts stands in
the profile.
"""

from __future__ import annotations

import re
from typing import Final

from projections.lexical.times import UNIT, tells_time, told_by
from projections.lexical.tokens import Reading, normalised

ASKS: Final = 1
"""The text ends in a question mark."""
TELLS_TIME: Final = 2
"""The text tells a date, a day, a year, or how long ago."""

SHORT: Final = 4
"""The text is a line or two, as things are said: what stands around it tells what it is about."""

SHORT_MAX_BYTES: Final = 512

_TAIL: Final = 64  # closing quotes and brackets that may follow a question mark

_ENDS_IN_QUESTION: Final = re.compile(r"[?\u061f]\W*\Z")
_WHEN: Final = re.compile(
    rf"\A\W*(?:when|since when|how long|how many {UNIT}|(?:(?:in|on|at|by|during) )?(?:what|which) "
    r"(?:date|day|week|month|year|time|season)s?)\b(?!-)"
    r"|언제|며칠|몇 ?(?:년|월|일|시|주|달)|무슨 요일"
    r"|いつ|何時|何日|何月|何年|什么时候|何时|哪天|哪年",
    re.IGNORECASE,
)


def traits_of(text: str) -> int:
    """Return the traits of a text, as bits."""
    normal = normalised(text)
    return _traits(normal, time_told=tells_time(normal))


def traits_read(reading: Reading) -> int:
    """Return the traits of a text that a tokenizer has read."""
    return _traits(reading.normal, time_told=told_by(reading.normal, reading.time))


def _traits(normal: str, *, time_told: bool) -> int:
    tail = normal[-_TAIL:]
    asks = ("?" in tail or "\u061f" in tail) and _ENDS_IN_QUESTION.search(tail)
    return (ASKS if asks else 0) | (TELLS_TIME if time_told else 0) | (SHORT if _is_short(normal) else 0)


def _is_short(normal: str) -> bool:
    """Whether a text takes no more than so many bytes of UTF-8. Nothing is encoded that is longer in characters."""
    if len(normal) > SHORT_MAX_BYTES:
        return False
    return (
        normal.isascii()
        or 4 * len(normal) <= SHORT_MAX_BYTES
        or len(normal.encode("utf-8", "surrogatepass")) <= SHORT_MAX_BYTES
    )


def asks_when(query: str) -> bool:
    """Whether a query asks for a time."""
    return _WHEN.search(normalised(query)) is not None
