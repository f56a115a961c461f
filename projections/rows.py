"""Rows of one fixed size, indexed by journal cursor: chunks on disk, columns in memory.

On disk, consecutive cursors share a chunk, so that an event writes a page or two and a scan reads few values. Two
tables of the projection hold them:

    chunks  chunk number (4) -> its rows, one after the other
    recent  last cursor of a fold (8) -> numbers of the chunks that it changed (4 each); the newest 1,024 are kept

In memory a process keeps the newest state that it served, and reloads the chunks that changed since.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from projections.port import Reading, Tables, Value, Writing

RECENT_MAX = 1_024

Chunk = tuple[int, Value]
"""A chunk's number and its bytes."""


def cursor_key(cursor: int) -> bytes:
    """Return a cursor as 8 big-endian bytes."""
    return cursor.to_bytes(8, "big")


def chunk_key(chunk: int) -> bytes:
    """Return a chunk's key."""
    return chunk.to_bytes(4, "big")


def tables_digest(txn: Reading, tables: Tables, names: Iterable[bytes]) -> bytes:
    """Return the BLAKE3 of some tables of a projection: names, keys and values, in key order."""
    hasher = blake3()
    for name in names:
        hasher.update(name + b"\0")
        for key, value in txn.cursor(db=tables[name]).iternext():
            hasher.update(len(value).to_bytes(4, "big") + bytes(key))
            hasher.update(value)
    return hasher.digest()


@dataclass(frozen=True, slots=True)
class Layout:
    """What a row is made of, and how many make a chunk."""

    row: np.dtype[np.void]
    chunk_rows: int

    def place(self, cursor: int) -> tuple[int, int]:
        """Return the number of the chunk that holds a cursor's row, and the row in it."""
        return divmod(cursor, self.chunk_rows)


class Listing(Protocol):
    """How far the table ``recent`` reaches back, kept among a projection's totals."""

    recent_floor: int  # what was changed up to this cursor is no longer listed
    recent_entries: int


class ChangedRows:
    """The rows that one call of a fold changes; they are written when it ends."""

    def __init__(self, layout: Layout, txn: Writing, *, chunks: Any, recent: Any) -> None:
        """Take the transaction and the two tables."""
        self._layout = layout
        self._txn = txn
        self._chunks = chunks
        self._recent = recent
        self._changed: dict[int, NDArray[np.void]] = {}

    def row(self, cursor: int) -> np.void:
        """Return a row that writes through to its chunk; zeros where there was none."""
        chunk, at = self._layout.place(cursor)
        rows = self._changed.get(chunk)
        if rows is None:
            raw = self._txn.get(chunk_key(chunk), db=self._chunks)
            layout = self._layout
            rows = np.zeros(layout.chunk_rows, layout.row) if raw is None else np.frombuffer(raw, layout.row).copy()
            self._changed[chunk] = rows
        row: np.void = rows[at]
        return row

    def write(self, cursor: int, listing: Listing) -> bool:
        """Write the chunks and list them as changed by a fold whose last event is at ``cursor``.

        Returns whether there was any; ``listing`` is brought up to date, and is for the caller to write.
        """
        if not self._changed:
            return False
        for chunk, rows in self._changed.items():
            self._txn.put(chunk_key(chunk), rows.tobytes(), db=self._chunks)
        changed = b"".join(map(chunk_key, sorted(self._changed)))
        self._txn.put(cursor_key(cursor), changed, append=True, db=self._recent)
        listing.recent_entries += 1
        while listing.recent_entries > RECENT_MAX:
            oldest = self._txn.cursor(db=self._recent)
            oldest.first()
            key = bytes(oldest.key())
            self._txn.delete(key, db=self._recent)
            listing.recent_floor = int.from_bytes(key, "big")
            listing.recent_entries -= 1
        return True


class StoredRows:
    """The rows of one state."""

    def __init__(self, layout: Layout, txn: Reading, *, chunks: Any, recent: Any) -> None:
        """Take the transaction and the two tables."""
        self._layout = layout
        self._txn = txn
        self._chunks = chunks
        self._recent = recent

    def at(self, cursor: int) -> np.void:
        """Return a cursor's row; zeros where there is none."""
        chunk, at = self._layout.place(cursor)
        raw = self._txn.get(chunk_key(chunk), db=self._chunks)
        row: np.void = np.zeros(1, self._layout.row)[0] if raw is None else np.frombuffer(raw, self._layout.row)[at]
        return row

    def all(self) -> Iterator[Chunk]:
        """Yield every chunk, in order."""
        for key, value in self._txn.cursor(db=self._chunks).iternext():
            yield int.from_bytes(key, "big"), value

    def since(self, cursor: int, listing: Listing) -> tuple[Iterator[Chunk], bool]:
        """Return the chunks that changed after ``cursor``, and whether these are all that there are."""
        if cursor < listing.recent_floor:
            return self.all(), True
        return self._some(self._changed_since(cursor)), False

    def _changed_since(self, cursor: int) -> list[int]:
        listed = self._txn.cursor(db=self._recent)
        changed: set[int] = set()
        if listed.set_range(cursor_key(cursor + 1)):
            for _, value in listed.iternext():
                changed.update(np.frombuffer(value, ">u4").tolist())
        return sorted(changed)

    def _some(self, numbers: Iterable[int]) -> Iterator[Chunk]:
        for number in numbers:
            raw = self._txn.get(chunk_key(number), db=self._chunks)
            if raw is not None:
                yield number, raw


class Columns:
    """Some fields of the rows of one state, each an array indexed by cursor."""

    def __init__(self, layout: Layout, fields: Iterable[str]) -> None:
        """Take the layout and the fields to keep; nothing is loaded yet."""
        self.cursor = -1  # the journal cursor of the state
        self.size = 0  # every row stands under it
        self._layout = layout
        self._arrays: dict[str, NDArray[Any]] = {name: np.zeros(0, layout.row[name]) for name in fields}

    def __getitem__(self, field: str) -> NDArray[Any]:
        """Return a field of every row. The array changes with the next load: hand out only what was made from it."""
        return self._arrays[field][: self.size]

    def load(self, cursor: int, size: int, chunks: Iterable[Chunk]) -> None:
        """Take over the chunks that changed, of the state at ``cursor``; every row stands under ``size``."""
        self._grow(size)
        listed = list(chunks)
        if listed:
            rows = np.frombuffer(b"".join(raw for _, raw in listed), self._layout.row)
            firsts = np.array([number for number, _ in listed], np.int64) * self._layout.chunk_rows
            cursors = (firsts[:, np.newaxis] + np.arange(self._layout.chunk_rows)).ravel()
            for name, array in self._arrays.items():
                array[cursors] = rows[name]
        self.cursor, self.size = cursor, size

    def _grow(self, size: int) -> None:
        """Make room for whole chunks up to ``size``, with a quarter to spare."""
        if all(size <= len(array) for array in self._arrays.values()):
            return
        length = -(-(size + size // 4) // self._layout.chunk_rows) * self._layout.chunk_rows
        for name, array in self._arrays.items():
            grown = np.zeros(length, array.dtype)
            grown[: len(array)] = array
            self._arrays[name] = grown


class Dated(Protocol):
    """What is kept of one state."""

    cursor: int


Kept = TypeVar("Kept", bound=Dated)
Answer = TypeVar("Answer")


class Newest(Generic[Kept]):
    """The newest state that this process served, shared by its snapshots of one scope."""

    def __init__(self, make: Callable[[], Kept]) -> None:
        """Take what makes the memory of no state yet."""
        self._mutex = threading.Lock()
        self._make = make
        self._kept = make()

    def read(self, cursor: int, bring: Callable[[Kept], None], ask: Callable[[Kept], Answer]) -> Answer:
        """Return what ``ask`` finds in the state at a cursor; ``bring`` brings an older state to it.

        Nobody changes the state while it is asked. A snapshot that is older than what is kept loads its own: what is
        kept never goes back.
        """
        with self._mutex:
            if self._kept.cursor <= cursor:
                bring(self._kept)
                return ask(self._kept)
        own = self._make()
        bring(own)
        return ask(own)
