"""Where what stands in an LMDB data file (engine 0.9), so that damage can be aimed.

Each page begins with its number u64, padding u16, flags u16, and the ends of its two halves, u16 each. A node of a leaf
is data size u32, flags u16, key size u16, key, data; of a branch the first 48 bits are a page number.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path

PAGE_BYTES = 4096
_HEADER = struct.Struct("<QHHHH")
_NODE = struct.Struct("<HHHH")
_BRANCH, _LEAF, _OVERFLOW = 1, 2, 4
_BIG, _SUB = 1, 2
_DB_ROOT_AT, _DB_BYTES, _DBS_AT, _LAST_AT = 40, 48, 40, 136  # of a meta page, its header included
COMMIT_NUMBER_AT = 144  # of a meta page
_NO_PAGE = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Span:
    """A run of bytes of a file, and what stands there."""

    path: str  # relative
    kind: str
    start: int
    stop: int


class DataFile:
    """The pages of a data file, sorted by what they are used for."""

    def __init__(self, path: Path, name: str) -> None:
        self._raw = path.read_bytes()
        self._name = name
        newest = max((0, 1), key=lambda page: self._u64(page * PAGE_BYTES + COMMIT_NUMBER_AT))
        at = newest * PAGE_BYTES + _DBS_AT
        self.last_page = self._u64(newest * PAGE_BYTES + _LAST_AT)
        self._used: dict[int, str] = {0: "meta", 1: "meta"}
        for root in (self._u64(at + number * _DB_BYTES + _DB_ROOT_AT) for number in (0, 1)):
            self._walk(root)

    def _u64(self, at: int) -> int:
        return int.from_bytes(self._raw[at : at + 8], "little")

    def _walk(self, page: int) -> None:
        if page == _NO_PAGE:
            return
        at = page * PAGE_BYTES
        _, _, flags, lower, _ = _HEADER.unpack_from(self._raw, at)
        self._used[page] = "branch" if flags & _BRANCH else "leaf"
        for place in range(_HEADER.size, lower, 2):
            node = at + int.from_bytes(self._raw[at + place : at + place + 2], "little")
            low, high, node_flags, key_bytes = _NODE.unpack_from(self._raw, node)
            data = node + _NODE.size + key_bytes
            if flags & _BRANCH:
                self._walk(low | high << 16 | node_flags << 32)
            elif node_flags & _SUB:
                self._walk(self._u64(data + _DB_ROOT_AT))
            elif node_flags & _BIG:
                first = self._u64(data)
                count = int.from_bytes(self._raw[first * PAGE_BYTES + 12 : first * PAGE_BYTES + 16], "little")
                self._used |= dict.fromkeys(range(first, first + count), "overflow")

    def pages(self, kind: str) -> list[int]:
        """Return the numbers of the pages of a kind: meta, branch, leaf, overflow or free."""
        every = range(self.last_page + 1)
        return [page for page in every if self._used.get(page, "free") == kind]

    def spans(self) -> list[Span]:
        """Return every span of the file."""
        found = []
        for page in range(min(self.last_page + 1, len(self._raw) // PAGE_BYTES)):
            start, kind = page * PAGE_BYTES, self._used.get(page, "free")
            if kind == "meta":
                found += [self._span("meta", start, start + 152), self._span("slack", start + 152, start + PAGE_BYTES)]
            elif kind in ("branch", "leaf"):
                lower, upper = _HEADER.unpack_from(self._raw, start)[3:]
                found.append(self._span("page header", start, start + _HEADER.size))
                found.append(self._span(f"{kind} pointers", start + _HEADER.size, start + lower))
                found.append(self._span("slack", start + lower, start + upper))
                found.append(self._span(f"{kind} nodes", start + upper, start + PAGE_BYTES))
            else:
                found.append(self._span(kind, start, start + PAGE_BYTES))
        found.append(self._span("ahead", (self.last_page + 1) * PAGE_BYTES, len(self._raw)))
        return [span for span in found if span.start < span.stop]

    def _span(self, kind: str, start: int, stop: int) -> Span:
        return Span(self._name, kind, start, stop)


def flip(path: Path, at: int, bit: int) -> None:
    """Change one bit of a file."""
    fd = os.open(path, os.O_RDWR)
    try:
        os.pwrite(fd, bytes([os.pread(fd, 1, at)[0] ^ 1 << bit]), at)
    finally:
        os.close(fd)
