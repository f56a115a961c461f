"""What a locator selects of a content: lines, counted from 1, or bytes, counted from 0; nothing is normalised.

A file of short lines has millions of them: lines are counted and walked over, and never made a list of.
"""

from __future__ import annotations

import re
import time
from typing import Final

LINE: Final = "line"  # "A" or "A-B": lines A to B, both included, with their line ends
BYTE: Final = "byte"  # "A-B": bytes A to B, both included, as in an HTTP range
_RANGE: Final = re.compile(r"(?P<first>\d{1,12})(?:-(?P<last>\d{1,12}))?", re.ASCII)
_BLOCK_BYTES: Final = 1 << 16  # counted at once, in some ten microseconds; the deadline is looked at after each


class Unselected(Exception):
    """A locator selects nothing that can be compared. The text says why, and is constant."""


class OutOfTime(Exception):
    """The deadline came before what a locator selects was found."""


def line_count(content: bytes | bytearray) -> int:
    """Return how many lines a content has. A line ends with LF, or with the content."""
    return content.count(b"\n") + (not content.endswith(b"\n") and content != b"")


def lines(content: bytes | bytearray, first: int, last: int, deadline: float | None = None) -> memoryview | None:
    """Return lines ``first`` to ``last`` with their ends, uncopied, or None where the content ends before the last.

    Args:
        content: of which they are.
        first: counted from 1.
        last: not less than ``first``.
        deadline: time.monotonic seconds; None: there is none.

    Raises:
        OutOfTime: the deadline came first.
    """
    begin = _end_of(content, first - 1, 0, deadline)
    if begin is None or begin == len(content):
        return None
    end = _end_of(content, last - first + 1, begin, deadline)
    return None if end is None else memoryview(content)[begin:end]


def _end_of(content: bytes | bytearray, count: int, begin: int, deadline: float | None) -> int | None:
    """Return where so many lines from ``begin`` on end, or None where there are fewer."""
    at, left = begin, count
    while left:
        if deadline is not None and time.monotonic() >= deadline:
            raise OutOfTime
        block_end = at + _BLOCK_BYTES
        ended = content.count(b"\n", at, block_end)
        if ended >= left:
            break
        left -= ended
        at = block_end
        if at >= len(content):  # the last line may end with the content
            is_cut = left == 1 and begin < len(content) and not content.endswith(b"\n")
            return len(content) if is_cut else None
    for _ in range(left):
        at = content.index(b"\n", at) + 1
    return at


def selected(content: bytes | bytearray, scheme: str, value: str, deadline: float | None = None) -> memoryview | None:
    """Return the exact bytes that a locator selects, uncopied, or None where the content ends before them.

    Raises:
        Unselected: the scheme is not one of ours, or the value is no range of it.
        OutOfTime: ``deadline``, in time.monotonic seconds, came first.
    """
    if scheme not in (LINE, BYTE):
        raise Unselected("its locator is of another scheme than line and byte")
    found = _RANGE.fullmatch(value)
    if found is None or (scheme == BYTE and found["last"] is None):
        raise Unselected("its locator is no range")
    first, last = int(found["first"]), int(found["last"] or found["first"])
    if last < first or (scheme == LINE and first < 1):
        raise Unselected("its locator is no range")
    if scheme == BYTE:
        return memoryview(content)[first : last + 1] if last < len(content) else None
    return lines(content, first, last, deadline)
