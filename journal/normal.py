"""NFKC in linear time, and a text without what nobody sees.

Ordering a run of combining marks costs the square of its length, and a caller chooses the length: 40,000 of them hold a
core for seconds. UAX #15's Stream-Safe Text Format bounds a run at 30 by a grapheme joiner after each 30th; no writing
comes near that, so ordinary text is not changed by it.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
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


_UNSEEN = re.compile(
    # Controls that are no white space, then Unicode's Default_Ignorable_Code_Point, and the empty Braille cell.
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]+"
)


def visible(text: str) -> str:
    """Return a text without the characters that nobody sees: two texts that look the same become the same."""
    return _UNSEEN.sub("", text)


def _broken(run: re.Match[str]) -> str:
    marks = run.group()
    return _JOINER.join(marks[at : at + _RUN_MAX_MARKS] for at in range(0, len(marks), _RUN_MAX_MARKS))


_EXPANSION_MAX = 18  # U+FDFA, an Arabic phrase in one character


def beginning(text: str, most_characters: int) -> str:
    """Return as much of a text, from its beginning, as NFKC makes about so many characters of: all of it, for most.

    Some characters become eighteen. Who pays for every character must not do so for what nobody wrote.
    """
    if len(text) * _EXPANSION_MAX <= most_characters:
        return text
    text = text[:most_characters]
    if text.isascii():
        return text
    expanded = sum(count * len(unicodedata.normalize("NFKC", each)) for each, count in Counter(text).items())
    return text if expanded <= most_characters else text[: max(1, len(text) * most_characters // expanded)]
