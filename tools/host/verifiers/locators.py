"""What a locator selects of a content: lines, counted from 1, or bytes, counted from 0; nothing is normalised."""

from __future__ import annotations

import re
from typing import Final

LINE: Final = "line"  # "A" or "A-B": lines A to B, both included, with their line ends
BYTE: Final = "byte"  # "A-B": bytes A to B, both included, as in an HTTP range
_RANGE: Final = re.compile(r"(?P<first>\d{1,12})(?:-(?P<last>\d{1,12}))?", re.ASCII)


class Unselected(Exception):
    """A locator selects nothing that can be compared. The text says why, and is constant."""


def lines_of(content: bytes) -> list[bytes]:
    """Return the lines of a content with their ends. A line ends with LF, or with the content."""
    parts = content.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def selected(content: bytes, scheme: str, value: str) -> bytes | None:
    """Return the exact bytes that a locator selects, or None where the content ends before them.

    Raises:
        Unselected: the scheme is not one of ours, or the value is no range of it.
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
        return content[first : last + 1] if last < len(content) else None
    lines = lines_of(content)
    return b"".join(lines[first - 1 : last]) if last <= len(lines) else None
