"""Parts: a long text is embedded piece by piece, for a model reads some hundred words and blurs what it reads at once.

A text is as like a query as the part that is most like it.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from journal import limits

PARTS_MAX: Final = 16
"""No text has more: as many as the longest that is embedded has, and some to spare."""

_BREAK: Final = re.compile(r"\n|[.!?\u3002\uff01\uff1f](?=\s|$)|\s")
_QUALITY: Final = ("\n", ".!?\u3002\uff01\uff1f")  # the best places to cut, in order; any white space comes after them


def parts_of(text: str) -> list[str]:
    """Return the parts of a text, about alike in size, cut where a line, a sentence or a word ends; at least one."""
    count = -(-len(text) // limits.VECTOR_PART_CHARACTERS) or 1
    size = len(text) / count
    cuts = [0, *(_cut(text, round(size * number), round(size / 4)) for number in range(1, count)), len(text)]
    return [text[begin:end] for begin, end in pairwise(cuts)]


def _cut(text: str, around: int, reach: int) -> int:
    """Return where to cut near a place: after the best break within reach, the nearest of those; else right there."""
    found = list(_BREAK.finditer(text, around - reach, around + reach))
    if not found:
        return around
    return min(found, key=lambda match: (_rank(match.group()), abs(match.end() - around))).end()


def _rank(mark: str) -> int:
    return next((rank for rank, marks in enumerate(_QUALITY) if mark in marks), len(_QUALITY))
