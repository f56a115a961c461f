"""NFKC in linear time.

Ordering a run of combining marks costs the square of its length, and a caller chooses the length: 40,000 of them hold a
core for seconds. UAX #15's Stream-Safe Text Format bounds a run at 30 by a grapheme joiner after each 30th; no writing
comes near that, so ordinary text is not changed by it.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

_RUN_MAX_MARKS = 30  # UAX #15, section 13
_MARKS_END = 0x1F000  # no combining mark stands beyond; a test looks
_JOINER = "\u034f"


@cache
def _long_run() -> re.Pattern[str]:
    """Return a pattern of runs that are too long. Made when first needed: it takes 50 ms."""
    ranges: list[list[int]] = []
    for code in range(0x300, _MARKS_END):
        # What counts is the decomposed form: a mark may be written as one character and be several.
        if unicodedata.combining(unicodedata.normalize("NFKD", chr(code))[0]):
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    marks = "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)
    return re.compile(f"[{marks}]{{{_RUN_MAX_MARKS},}}")


def nfkc(text: str) -> str:
    """Return a text in NFKC, runs of more than 30 combining marks broken as the Stream-Safe Text Format breaks them."""
    if text.isascii():
        return text
    if len(text) > _RUN_MAX_MARKS:
        text = _long_run().sub(_broken, text)
    return unicodedata.normalize("NFKC", text)


def _broken(run: re.Match[str]) -> str:
    marks = run.group()
    return _JOINER.join(marks[at : at + _RUN_MAX_MARKS] for at in range(0, len(marks), _RUN_MAX_MARKS))
