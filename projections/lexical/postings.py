"""Posting lists and segments: the arrays, and their bytes.

A segment holds the lists of a range of ordinals. It is never changed once written, only merged with its neighbours
into a new one. Its dictionary is one value, its postings are a few chunks; no list spans two chunks.

    dictionary  tokens u32 | chunks u32
                high u64[tokens]  the token's first eight bytes as a big-endian number, ascending
                entries[tokens]   low u64: its last eight | start u32: the list's place in its chunk, in postings |
                                  count u32 | chunk u32 | greatest u32: impact of the list
    chunk       ids u32[n] | impacts u8[n]

All little-endian. The ids of a list are ordinals, ascending.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

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

Entries = npt.NDArray[np.void]
Found = tuple[int, int, int, Buffer, Buffer]
"""A list found: which of the tokens asked for, its count, its greatest impact, its ids (u32) and its impacts."""

_HEADER: Final = struct.Struct("<II")
_CHUNK_KEY: Final = struct.Struct(">II")
POSTING_BYTES: Final = 5  # u32 id, u8 impact
ENTRY: Final = np.dtype([("low", "<u8"), ("start", "<u4"), ("count", "<u4"), ("chunk", "<u4"), ("greatest", "<u4")])


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
        if len(documents) == 1:  # as most additions are: its tokens are distinct and ascend already
            [(ordinal, document)] = documents
            high, low = halves(document.tokens)
            ids = np.full(high.size, ordinal, np.uint32)
            return cls(high, low, np.arange(high.size + 1), ids, np.frombuffer(document.impacts, np.uint8))
        high, low = halves(b"".join(document.tokens for _, document in documents))
        impacts = np.frombuffer(b"".join(document.impacts for _, document in documents), np.uint8)
        sizes = [len(document.impacts) for _, document in documents]
        ids = np.repeat(np.array([ordinal for ordinal, _ in documents], np.uint32), sizes)
        order = token_order(high, low)
        high, low = high[order], low[order]
        begins = group_starts(high, low)
        return cls(high[begins], low[begins], np.append(begins, high.size), ids[order], impacts[order])

    def pieces(self, postings: int | None = None) -> Iterator[Lists]:
        """Cut the lists into pieces of so many postings, those to work on; a list is never cut."""
        most = limits.LEXICAL_PIECE_POSTINGS if postings is None else postings
        size = self.high.size
        if 0 < self.ids.size <= most:
            yield self
            return
        at = 0
        while at < size:
            bound = self.starts[at] + most
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
    """Writes a segment: first all its chunks, then its dictionary."""

    def __init__(self) -> None:
        self._high: list[Words] = []
        self._entries: list[Entries] = []
        self._chunks = 0
        self.postings = 0

    def chunks(self, pieces: Iterable[Lists]) -> Iterator[bytes]:
        """Give the chunks of pieces that come in token order, each with a posting at least."""
        ids: list[bytes] = []
        impacts: list[bytes] = []
        size = 0
        for piece in chain.from_iterable(one.pieces(limits.LEXICAL_CHUNK_POSTINGS) for one in pieces):
            if size and size + piece.ids.size > limits.LEXICAL_CHUNK_POSTINGS:
                yield b"".join(ids + impacts)
                ids, impacts, size = [], [], 0
                self._chunks += 1
            self._note(piece, size)
            ids.append(piece.ids.astype("<u4").tobytes())
            impacts.append(piece.impacts.tobytes())
            size += piece.ids.size
        if size:
            yield b"".join(ids + impacts)
            self._chunks += 1

    def _note(self, piece: Lists, start: int) -> None:
        """Take down the entries of a piece that begins at ``start`` of the chunk."""
        entries = np.empty(piece.high.size, ENTRY)
        entries["low"] = piece.low
        entries["start"] = piece.starts[:-1] + start
        entries["count"] = np.diff(piece.starts)
        entries["chunk"] = self._chunks
        entries["greatest"] = np.maximum.reduceat(piece.impacts, piece.starts[:-1])
        self._high.append(piece.high)
        self._entries.append(entries)
        self.postings += piece.ids.size

    def dictionary(self) -> bytes:
        """Return the dictionary, once all chunks were given."""
        tokens = sum(high.size for high in self._high)
        parts = [_HEADER.pack(tokens, self._chunks)]
        parts += [high.astype("<u8").tobytes() for high in self._high]
        parts += [entries.tobytes() for entries in self._entries]
        return b"".join(parts)


def chunk_key(segment: int, chunk: int) -> bytes:
    """Return the key of a chunk of a segment."""
    return _CHUNK_KEY.pack(segment, chunk)


def chunk_count(dictionary: Buffer) -> int:
    """Return how many chunks a segment has."""
    return int(_HEADER.unpack_from(dictionary)[1])


class Segment:
    """Reads a segment. ``chunk`` gives a chunk's value by its number; views last as long as what it returns."""

    __slots__ = ("_chunk", "_dictionary", "high")

    def __init__(self, dictionary: Buffer, chunk: Callable[[int], Buffer]) -> None:
        self._dictionary = dictionary
        self._chunk = chunk
        self.high: Words = np.frombuffer(dictionary, "<u8", _HEADER.unpack_from(dictionary)[0], _HEADER.size)

    @property
    def chunk_count(self) -> int:
        """How many chunks there are."""
        return chunk_count(self._dictionary)

    @property
    def entries(self) -> Entries:
        """The dictionary's entries, one a token."""
        size = self.high.size
        return np.frombuffer(self._dictionary, ENTRY, size, _HEADER.size + 8 * size)

    def find(self, high: Words, low: Sequence[int]) -> list[Found]:
        """Return the lists of those tokens, given by their halves, that are here."""
        if self.high.size == 0:
            return []
        places = self.high.searchsorted(high)
        asked = (self.high.take(places, mode="clip") == high).nonzero()[0]
        if asked.size == 0:
            return []
        places = places[asked]
        found: list[Found] = []
        chunks: dict[int, Buffer] = {}
        for number, place, entry in zip(
            asked.tolist(), places.tolist(), self.entries.take(places).tolist(), strict=True
        ):
            if entry[0] != low[number]:
                entry = self._entry_among_equals(place, low[number])  # noqa: PLW2901 - the token that was meant
                if entry is None:
                    continue
            _, start, count, chunk, greatest = entry
            value = chunks.get(chunk)
            if value is None:
                value = chunks[chunk] = self._chunk(chunk)
            at = len(value) // POSTING_BYTES * 4 + start
            found.append((number, count, greatest, value[4 * start : 4 * (start + count)], value[at : at + count]))
        return found

    def _entry_among_equals(self, place: int, low: int) -> tuple[int, ...] | None:
        """Return the entry of a token whose high half others have too, or None; ``place`` is the first of them."""
        end = int(self.high.searchsorted(self.high[place], "right"))
        entries: list[tuple[int, ...]] = self.entries[place:end].tolist()
        return next((entry for entry in entries if entry[0] == low), None)

    def read(self, first: int, last: int) -> tuple[Ids, Impacts]:
        """Return a copy of the postings of the dictionary's entries from ``first`` up to and without ``last``."""
        entries = self.entries[first:last]
        ids: list[Ids] = []
        impacts: list[Impacts] = []
        for chunk in range(int(entries["chunk"][0]), int(entries["chunk"][-1]) + 1):
            value = self._chunk(chunk)
            size = len(value) // POSTING_BYTES
            start = int(entries["start"][0]) if not ids else 0
            end = int(entries["start"][-1] + entries["count"][-1]) if chunk == entries["chunk"][-1] else size
            ids.append(np.frombuffer(value, "<u4", end - start, 4 * start))
            impacts.append(np.frombuffer(value, np.uint8, end - start, 4 * size + start))
        return np.concatenate(ids), np.concatenate(impacts)
