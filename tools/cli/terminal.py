"""Text for a terminal: what stands in it cannot move the cursor, change the reading order or hide.

A candidate's text was written by an agent, and a person decides by what they see. So every character that a terminal
obeys and every one that nobody sees is shown by its number, as ``<U+202E>``.
"""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from journal.clock import parse_instant
from journal.normal import visible
from tools.cli import shortids

_UNSEEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
_JOINERS = frozenset("\u200c\u200d")  # scripts and emoji need them between their own letters
_ASCII_PRINTABLE = re.compile(r"[ -~]*")
_VARIATIONS = range(0xE0100, 0xE01F0)
_EMOJI_STYLES = frozenset("\ufe0e\ufe0f")
_WIDE = frozenset("WF")
_GAP = "  "  # between two columns
_INSET = "  "  # before what a row goes on with


def one_line(text: str) -> str:
    """Return a text on one line."""
    return _shown(text, keep="")


def lines(text: str) -> str:
    """Return a text whose line breaks stay."""
    return _shown(text.replace("\r\n", "\n"), keep="\n")


def _shown(text: str, *, keep: str) -> str:
    if _ASCII_PRINTABLE.fullmatch(text):
        return text
    shown = []
    for position, character in enumerate(text):
        if character in keep or (character in _JOINERS and _joins(text, position)) or _styles(text, position):
            shown.append(character)
        elif not visible(character) or unicodedata.category(character) in _UNSEEN or ord(character) in _VARIATIONS:
            shown.append(f"<U+{ord(character):04X}>")
        else:
            shown.append(character)
    return "".join(shown)


def _styles(text: str, position: int) -> bool:
    """Whether a character chooses between the text and the emoji form of the one before it."""
    return text[position] in _EMOJI_STYLES and position > 0 and unicodedata.category(text[position - 1]) == "So"


def _joins(text: str, position: int) -> bool:
    """Whether a joiner stands between two visible characters beyond ASCII."""
    around = text[max(0, position - 1) : position] + text[position + 1 : position + 2]
    return len(around) == 2 and all(  # noqa: PLR2004 - one on each side
        ord(neighbour) > 0x7F and unicodedata.category(neighbour) not in _UNSEEN  # noqa: PLR2004 - the last ASCII character
        for neighbour in around
    )


def width(text: str) -> int:
    """Return how many columns a text takes: two for a Hangul syllable or a Han character, none for a combining mark."""
    return sum(
        0
        if unicodedata.category(each) in ("Mn", "Me", "Cf")
        else 2
        if unicodedata.east_asian_width(each) in _WIDE
        else 1
        for each in text
    )


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an aligned table; every cell is on one line, and safe.

    Where a terminal is too narrow, ids are cut; where that is not enough, a row takes several lines, those after the
    first set in, and so do the headings.
    """
    cells = [list(headings), *([one_line(cell) for cell in row] for row in rows)]
    widths = _widths(cells)
    columns = _columns()
    if columns is not None and sum(widths) + 2 * (len(widths) - 1) > columns:
        cells = _with_short_ids(cells)
        widths = _widths(cells)
    padded = [[cell + " " * (wide - width(cell)) for cell, wide in zip(row, widths, strict=True)] for row in cells]
    folds = _folds(widths, columns)
    return "\n".join(
        f"{_INSET if fold.start else ''}{_GAP.join(row[fold])}".rstrip() for row in padded for fold in folds
    )


def _folds(widths: Sequence[int], columns: int | None) -> list[slice]:
    """Return which columns of a table share a line, so that each line fits if its columns can."""
    starts, used = [0], 0
    for at, wide in enumerate(widths):
        if columns is not None and at > starts[-1] and used + len(_GAP) + wide > columns:
            starts.append(at)
            used = len(_INSET)
        used += wide + (len(_GAP) if at > starts[-1] else 0)
    return [slice(start, end) for start, end in zip(starts, [*starts[1:], len(widths)], strict=True)]


def _widths(cells: Sequence[Sequence[str]]) -> list[int]:
    return [max(width(row[column]) for row in cells) for column in range(len(cells[0]))]


def _columns() -> int | None:
    """Return how wide the terminal is that stdout is, or None where it is none: a pipe is given ids whole."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except (OSError, ValueError):
        return None


def _with_short_ids(cells: list[list[str]]) -> list[list[str]]:
    """Return a table with its ids cut, but for those that would look alike."""
    ids = {cell for row in cells for cell in row if shortids.is_whole(cell)}
    times = Counter(map(shortids.shortened, ids))
    return [
        [shortids.shortened(cell) if cell in ids and times[shortids.shortened(cell)] == 1 else cell for cell in row]
        for row in cells
    ]


def fields(pairs: Sequence[tuple[str, str]]) -> str:
    """Return aligned lines of name and value; every value is on one line, and safe."""
    wide = max((width(name) for name, _ in pairs), default=0)
    return "\n".join(_field(f"{name}{' ' * (wide - width(name))}{_GAP}", one_line(value)) for name, value in pairs)


def _field(head: str, value: str) -> str:
    first, *words = value.split(" ")
    return _filled([f"{head}{first}", *words], " ", width(head)).rstrip()


def row(cells: Sequence[str]) -> str:
    """Return cells beside each other, each on one line and safe; a terminal too narrow is given them on several."""
    return _filled([one_line(cell) for cell in cells], _GAP, len(_INSET))


def wrapped(text: str, inset: int = 0) -> str:
    """Return a text that is safe already, broken at blanks where a terminal is too narrow, and else as it is.

    A word that is too long by itself stays whole. Lines after the first are set in by ``inset`` columns.
    """
    return "\n".join(_filled(line.split(" "), " ", inset) for line in text.split("\n"))


def _filled(pieces: Sequence[str], between: str, inset: int) -> str:
    columns = _columns()
    lines = [pieces[0] if pieces else ""]
    for piece in pieces[1:]:
        longer = f"{lines[-1]}{between}{piece}"
        if columns is None or width(longer) <= columns or not lines[-1].strip():
            lines[-1] = longer
        else:
            lines[-1] = lines[-1].rstrip()
            lines.append(f"{' ' * inset}{piece}")
    return "\n".join(lines)


def scope_name(named: Mapping[str, Any]) -> str:
    """Return a scope for a person, of a row that has its ``tenant_id`` and ``workspace_id``."""
    return f"{named['tenant_id']} / {named['workspace_id']}"


def local_time(instant_text: str) -> str:
    """Return a canonical instant as local time with its zone, to the second."""
    moment = datetime.fromtimestamp(parse_instant(instant_text) / 1000, UTC).astimezone()
    return f"{moment:%Y-%m-%d %H:%M:%S} {moment.tzname() or moment.strftime('%z')}"
