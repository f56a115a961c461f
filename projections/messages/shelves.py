"""Where signatures stand: a shelf an owner and class, filled in the order of adding.

What is added stands by itself; of 64 such a block is made, of as many blocks as fit a large one. So every signature is
written three times at most, adding one writes little, and a query finds nearly all of them in a few large blocks. A
place never changes; a signature that is taken away loses its row at once, and its bits when its block is next made.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from projections.environment import Unusable
from projections.messages.signatures import (
    GROUP_ROWS,
    Hashes,
    Matrix,
    block_of,
    block_rows,
    class_bytes,
    greatest_class,
    positions,
    rows_with,
    signatures_of,
)
from projections.messages.tables import SIGNATURE_ROWS, SIGNATURE_SIZES, SIGNATURES, Place
from projections.port import Reading, Tables, Value, Writing

ROW: Final = np.dtype([("cursor", "<u8"), ("created_at", "<u8")])
Rows = npt.NDArray[np.void]

_U64: Final = struct.Struct("<Q")
_SHELF: Final = struct.Struct(">16sB")
_NUMBER: Final = struct.Struct(">BI")
_SINGLE, _GROUP, _LARGE = range(3)


class Shelf:
    """The signatures of one owner and class."""

    def __init__(self, txn: Reading, databases: Tables, owner: bytes, size: int) -> None:
        self._reading = txn
        self._databases = databases
        self._key = _SHELF.pack(owner, size)
        self._class = size
        self._large_rows = block_rows(size)
        self._group_level = _GROUP if self._large_rows > GROUP_ROWS else _LARGE
        value = txn.get(self._key, db=databases[SIGNATURE_SIZES])
        self.size = 0 if value is None else int(_U64.unpack(value)[0])  # places given out

    def _there(self, name: bytes, key: bytes) -> Value:
        """Return the value of a key that must be there.

        Raises:
            Unusable: it is not; to rebuild is the mend.
        """
        value = self._reading.get(self._key + key, db=self._databases[name])
        if value is None:
            raise Unusable(f"the table {name.decode()} misses a row")
        return value

    def _stretches(self) -> Iterator[tuple[int, int, range, int]]:
        """Give the level, the rows of a block, the numbers of the blocks, and the place of the first, of each level."""
        large = self.size // self._large_rows
        yield _LARGE, self._large_rows, range(large), 0
        first = large * self._large_rows
        if self._large_rows > GROUP_ROWS:
            yield _GROUP, GROUP_ROWS, range(first // GROUP_ROWS, self.size // GROUP_ROWS), first
        first = self.size // GROUP_ROWS * GROUP_ROWS
        yield _SINGLE, 1, range(first, self.size), first

    def matching(self, hashes: Hashes) -> Rows:
        """Return the rows of the signatures in which the bits of all hashes are set."""
        wanted = positions(self._class, hashes)
        matching: list[Rows] = [np.zeros(0, ROW)]
        for level, rows, numbers, _ in self._stretches():
            if level == _SINGLE:
                matching.append(self._singles_with(wanted, numbers))
                continue
            for number in numbers:
                found = rows_with(self._there(SIGNATURES, _NUMBER.pack(level, number)), rows, wanted)
                if found.size:
                    matching.append(self._page(level, number)[found])
        together = np.concatenate(matching)
        present: Rows = together[together["cursor"] != 0]
        return present

    def _singles(self, numbers: Sequence[int]) -> Matrix:
        """Return signatures that stand by themselves, one a row."""
        values = [bytes(self._there(SIGNATURES, _NUMBER.pack(_SINGLE, number))) for number in numbers]
        return np.frombuffer(b"".join(values), np.uint8).reshape(-1, class_bytes(self._class))

    def _singles_with(self, wanted: npt.NDArray[np.int64], numbers: range) -> Rows:
        """Return the rows of those that stand by themselves and have all these bits set."""
        if not numbers:
            return np.zeros(0, ROW)
        bits = self._singles(numbers)[:, wanted >> 3] >> (wanted & 7) & 1
        rows: Rows = self._page(self._group_level, numbers.start // GROUP_ROWS)[bits.all(axis=1)]
        return rows

    def _page(self, level: int, number: int) -> Rows:
        """Return the rows of a block's signatures."""
        return np.frombuffer(self._there(SIGNATURE_ROWS, _NUMBER.pack(level, number)), ROW)

    def all_rows(self) -> Rows:
        """Return the rows of all places, also of those that are gone, in order."""
        pages: list[Rows] = [np.zeros(0, ROW)]
        for level, _, numbers, _ in self._stretches():
            if level != _SINGLE:
                pages += [self._page(level, number) for number in numbers]
            elif numbers:
                pages.append(self._page(self._group_level, numbers.start // GROUP_ROWS))
        return np.concatenate(pages)

    def stretches(self) -> Iterator[tuple[int, Matrix]]:
        """Give all signatures in the order of their places, block by block, with the place of each block's first."""
        for level, rows, numbers, first in self._stretches():
            if level == _SINGLE:
                yield first, self._singles(numbers)
                continue
            for number in numbers:
                block = self._there(SIGNATURES, _NUMBER.pack(level, number))
                yield number * rows, signatures_of(block, rows)


class WritableShelf(Shelf):
    """A shelf that can be changed."""

    def __init__(self, txn: Writing, databases: Tables, owner: bytes, size: int) -> None:
        super().__init__(txn, databases, owner, size)
        self._writing = txn

    def _put(self, name: bytes, key: bytes, value: bytes) -> None:
        self._writing.put(self._key + key, value, db=self._databases[name])

    def add(self, signature: bytes, cursor: int, created_at: int) -> Place:
        """Add a signature; return its place."""
        at = self.size
        page = _NUMBER.pack(self._group_level, at // GROUP_ROWS)
        before = bytes(self._there(SIGNATURE_ROWS, page)) if at % GROUP_ROWS else b""
        self._put(SIGNATURE_ROWS, page, before + _U64.pack(cursor) + _U64.pack(created_at))
        self._put(SIGNATURES, _NUMBER.pack(_SINGLE, at), signature)
        self.size += 1
        self._put(SIGNATURE_SIZES, b"", _U64.pack(self.size))
        if self.size % GROUP_ROWS == 0:
            self._group(self.size // GROUP_ROWS - 1)
        if self.size % self._large_rows == 0 and self._large_rows > GROUP_ROWS:
            self._enlarge(self.size // self._large_rows - 1)
        return Place(self._class, at)

    def take_away(self, place: Place) -> None:
        """Take a signature away for good."""
        rows = GROUP_ROWS if place.at >= self.size // self._large_rows * self._large_rows else self._large_rows
        page = _NUMBER.pack(self._group_level if rows == GROUP_ROWS else _LARGE, place.at // rows)
        value = bytearray(self._there(SIGNATURE_ROWS, page))
        start = place.at % rows * ROW.itemsize
        value[start : start + ROW.itemsize] = bytes(ROW.itemsize)
        self._put(SIGNATURE_ROWS, page, bytes(value))
        if place.at >= self.size // GROUP_ROWS * GROUP_ROWS:
            self._put(SIGNATURES, _NUMBER.pack(_SINGLE, place.at), bytes(class_bytes(self._class)))

    def _group(self, number: int) -> None:
        """Make a block of the signatures that stand by themselves."""
        numbers = range(number * GROUP_ROWS, (number + 1) * GROUP_ROWS)
        self._put(SIGNATURES, _NUMBER.pack(self._group_level, number), block_of(self._singles(numbers)))
        self._drop(SIGNATURES, _SINGLE, numbers)

    def _enlarge(self, number: int) -> None:
        """Make a large block of blocks, without what was taken away."""
        groups = self._large_rows // GROUP_ROWS
        numbers = range(number * groups, (number + 1) * groups)
        pages = [self._page(_GROUP, group).copy() for group in numbers]
        parts = []
        for group, rows in zip(numbers, pages, strict=True):
            block: Any = bytes(self._there(SIGNATURES, _NUMBER.pack(_GROUP, group)))
            kept = np.packbits(rows["cursor"] != 0, bitorder="little")
            parts.append(np.frombuffer(block, np.uint8).reshape(-1, GROUP_ROWS // 8) & kept)
        self._put(SIGNATURES, _NUMBER.pack(_LARGE, number), np.concatenate(parts, axis=1).tobytes())
        self._put(SIGNATURE_ROWS, _NUMBER.pack(_LARGE, number), np.concatenate(pages).tobytes())
        self._drop(SIGNATURES, _GROUP, numbers)
        self._drop(SIGNATURE_ROWS, _GROUP, numbers)

    def purge(self) -> None:
        """Take the bits of what was taken away out of the blocks."""
        for level, rows, numbers, _ in self._stretches():
            for number in numbers if level != _SINGLE else ():
                kept = self._page(level, number)["cursor"] != 0
                if not kept.all():
                    block: Any = bytes(self._there(SIGNATURES, _NUMBER.pack(level, number)))
                    bits = np.frombuffer(block, np.uint8).reshape(-1, rows // 8) & np.packbits(kept, bitorder="little")
                    self._put(SIGNATURES, _NUMBER.pack(level, number), bits.tobytes())

    def _drop(self, name: bytes, level: int, numbers: range) -> None:
        """Remove what stands in a larger block now."""
        for number in numbers:
            self._writing.delete(self._key + _NUMBER.pack(level, number), db=self._databases[name])


def shelves(txn: Reading, databases: Tables, owner: bytes) -> Iterator[Shelf]:
    """Give the shelves of an owner on which anything was ever put."""
    for size in range(greatest_class() + 1):
        shelf = Shelf(txn, databases, owner, size)
        if shelf.size:
            yield shelf


def shelf_names(txn: Reading, databases: Tables) -> Iterator[tuple[bytes, int]]:
    """Give owner and class of every shelf."""
    for key, _ in txn.cursor(db=databases[SIGNATURE_SIZES]).iternext():
        owner, size = _SHELF.unpack(key)
        yield owner, size
