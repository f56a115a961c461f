"""Posting lists and segments: the arrays, and their bytes.

A segment holds the lists of a range of ordinals. It is never changed once written, only merged with its neighbours
into a new one. Its dictionary is one value, its postings are a few chunks; no list spans two chunks.

    dictionary  tokens u32 | chunks u32 | postings u64
                high u64[tokens]      the token's first eight bytes as a big-endian number, ascending
                low u64[tokens]       its last eight
                starts u32[tokens+1]  where each list begins, counted in postings
                fences u32[chunks+1]  where each chunk begins, likewise
                greatest u8[tokens]   the greatest impact of each list
    chunk       ids u32[n] | impacts u8[n]

All little-endian. A list's count is the difference of two starts; its ids are ordinals, ascending.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from journal import limits
from projections.lexical.documents import Weighed
from projections.lexical.keyed import TOKEN_BYTES

Buffer = bytes | memoryview
Words = npt.NDArray[np.uint64]
Ids = npt.NDArray[np.uint32]
Impacts = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]

_HEADER: Final = struct.Struct("<IIQ")
POSTING_BYTES: Final = 5  # u32 id, u8 impact


def halves(tokens: bytes) -> tuple[Words, Words]:
    """Return the high and low halves of a row of 16-byte tokens, as numbers that order like the bytes."""
    pairs = np.frombuffer(tokens, ">u8").reshape(-1, 2)
    return pairs[:, 0].astype(np.uint64), pairs[:, 1].astype(np.uint64)


def token_rows(high: Words, low: Words) -> npt.NDArray[np.void]:
    """Return the 16-byte tokens of their halves, one void of 16 bytes a token."""
    pairs = np.stack((high, low), axis=1).astype(">u8")
    return np.frombuffer(pairs.tobytes(), np.dtype((np.void, TOKEN_BYTES)))


def token_order(high: Words, low: Words) -> Places:
    """Return the stable order of tokens. Two tokens with one high half are rare, and ordered right nonetheless."""
    order = np.argsort(high, kind="stable")
    sorted_high, sorted_low = high[order], low[order]
    if np.any((sorted_high[1:] == sorted_high[:-1]) & (sorted_low[1:] < sorted_low[:-1])):
        order = np.lexsort((low, high))
    return order


def group_starts(high: Words, low: Words) -> Places:
    """Return where each run of equal tokens begins in ordered halves."""
    if high.size == 0:
        return np.zeros(0, np.int64)
    changes = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
    return np.concatenate(([0], np.flatnonzero(changes) + 1))


@dataclass(frozen=True, slots=True)
class Lists:
    """Posting lists in memory: distinct tokens ascending; list ``i`` is ``starts[i]:starts[i + 1]`` of both arrays."""

    high: Words
    low: Words
    starts: Places
    ids: Ids
    impacts: Impacts

    @classmethod
    def of(cls, documents: Sequence[tuple[int, Weighed]]) -> Lists:
        """Return the lists of documents, given with their ordinals in ascending order."""
        high, low = halves(b"".join(document.tokens for _, document in documents))
        impacts = np.frombuffer(b"".join(document.impacts for _, document in documents), np.uint8)
        sizes = [len(document.impacts) for _, document in documents]
        ids = np.repeat(np.array([ordinal for ordinal, _ in documents], np.uint32), sizes)
        order = token_order(high, low)
        high, low = high[order], low[order]
        begins = group_starts(high, low)
        return cls(high[begins], low[begins], np.append(begins, high.size), ids[order], impacts[order])

    def pieces(self) -> Iterator[Lists]:
        """Cut the lists into pieces of a chunk's size; a list is never cut."""
        at = 0
        size = self.high.size
        while at < size:
            bound = self.starts[at] + limits.LEXICAL_CHUNK_POSTINGS
            end = min(size, max(at + 1, int(np.searchsorted(self.starts, bound))))
            low, high = int(self.starts[at]), int(self.starts[end])
            yield Lists(
                self.high[at:end],
                self.low[at:end],
                self.starts[at : end + 1] - low,
                self.ids[low:high],
                self.impacts[low:high],
            )
            at = end


class SegmentWriter:
    """Takes pieces of lists in token order, gives each one's chunk, and at the end the dictionary."""

    def __init__(self) -> None:
        self._high: list[Words] = []
        self._low: list[Words] = []
        self._starts: list[Places] = []
        self._greatest: list[Impacts] = []
        self._fences = [0]

    @property
    def postings(self) -> int:
        """How many postings were taken so far."""
        return self._fences[-1]

    def chunk(self, piece: Lists) -> bytes:
        """Take the next piece, which holds a posting at least, and return its chunk."""
        self._high.append(piece.high)
        self._low.append(piece.low)
        self._starts.append(piece.starts[:-1] + self._fences[-1])
        self._greatest.append(np.maximum.reduceat(piece.impacts, piece.starts[:-1]))
        self._fences.append(self._fences[-1] + piece.ids.size)
        return piece.ids.astype("<u4").tobytes() + piece.impacts.tobytes()

    def dictionary(self) -> bytes:
        """Return the dictionary of all pieces taken."""
        tokens = sum(high.size for high in self._high)
        parts: list[Any] = [_HEADER.pack(tokens, len(self._fences) - 1, self.postings)]
        parts += [high.astype("<u8").tobytes() for high in self._high]
        parts += [low.astype("<u8").tobytes() for low in self._low]
        parts += [starts.astype("<u4").tobytes() for starts in self._starts]
        parts.append(np.array([self.postings, *self._fences], "<u4").tobytes())  # the last start, then the fences
        parts += [greatest.tobytes() for greatest in self._greatest]
        return b"".join(parts)


def chunk_count(dictionary: Buffer) -> int:
    """Return how many chunks a segment has."""
    return int(_HEADER.unpack_from(dictionary)[1])


class Segment:
    """Reads a segment. ``chunk`` gives a chunk's value by its number; views last as long as what it returns."""

    __slots__ = ("_chunk", "_chunks", "fences", "greatest", "high", "low", "starts")

    def __init__(self, dictionary: Buffer, chunk: Callable[[int], Buffer]) -> None:
        tokens, chunks, _ = _HEADER.unpack_from(dictionary)
        at = _HEADER.size
        self.high: Words = np.frombuffer(dictionary, "<u8", tokens, at)
        self.low: Words = np.frombuffer(dictionary, "<u8", tokens, at + 8 * tokens)
        at += 16 * tokens
        self.starts: Ids = np.frombuffer(dictionary, "<u4", tokens + 1, at)
        at += 4 * (tokens + 1)
        self.fences: Ids = np.frombuffer(dictionary, "<u4", chunks + 1, at)
        self.greatest: Impacts = np.frombuffer(dictionary, np.uint8, tokens, at + 4 * (chunks + 1))
        self._chunk = chunk
        self._chunks: dict[int, Buffer] = {}

    def find(self, high: Words, low: Words) -> tuple[Places, Places]:
        """Return which of the tokens asked for are here, and the place of each in the dictionary."""
        if self.high.size == 0:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        places = np.minimum(self.high.searchsorted(high), self.high.size - 1)
        found = (self.high[places] == high).nonzero()[0]
        places = places[found]
        if not np.array_equal(self.low[places], low[found]):
            return self._find_among_equals(found, places, low)
        return found, places

    def _find_among_equals(self, asked: Places, places: Places, low: Words) -> tuple[Places, Places]:
        """Finish a search in which a high half is there and the low half is another, or further on."""
        kept: list[tuple[int, int]] = []
        for which, place in zip(asked.tolist(), places.tolist(), strict=True):
            at = place
            while at + 1 < self.high.size and self.high[at + 1] == self.high[place] and self.low[at] != low[which]:
                at += 1
            if self.low[at] == low[which]:
                kept.append((which, at))
        pairs = np.array(kept, np.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]

    def lists(self, places: Places) -> Iterator[tuple[int, int, Buffer, Buffer]]:
        """Give (count, greatest impact, ids as u32 bytes, impacts as bytes) of the lists at these places."""
        starts = self.starts[places]
        chunks = self.fences.searchsorted(starts, "right") - 1
        offsets = starts - self.fences[chunks]
        counts = self.starts[places + 1] - starts
        greatest = self.greatest[places]
        for number, at, count, most in zip(
            chunks.tolist(), offsets.tolist(), counts.tolist(), greatest.tolist(), strict=True
        ):
            value = self._value(number)
            impacts_at = len(value) // POSTING_BYTES * 4 + at
            yield count, most, value[4 * at : 4 * (at + count)], value[impacts_at : impacts_at + count]

    def read(self, start: int, end: int) -> tuple[Ids, Impacts]:
        """Return the ids and impacts of the postings from ``start`` to ``end``, over as many chunks as they span."""
        ids: list[Ids] = []
        impacts: list[Impacts] = []
        number = int(self.fences.searchsorted(start, "right")) - 1
        while start < end:
            begins, ends = int(self.fences[number]), int(self.fences[number + 1])
            value, size = self._value(number), ends - begins
            stop = min(end, ends)
            ids.append(np.frombuffer(value, "<u4", stop - start, 4 * (start - begins)))
            impacts.append(np.frombuffer(value, np.uint8, stop - start, 4 * size + start - begins))
            start, number = stop, number + 1
        self._chunks.clear()  # a merge walks on and writes; what it read is copied before the next write
        if not ids:
            return np.zeros(0, np.uint32), np.zeros(0, np.uint8)
        return np.concatenate(ids), np.concatenate(impacts)

    def _value(self, number: int) -> Buffer:
        """Return a chunk's value, fetched once."""
        value = self._chunks.get(number)
        if value is None:
            value = self._chunks[number] = self._chunk(number)
        return value
