"""The order of documents within their groups: who stands before and after whom.

    sequence  group 16 bytes, then 16 bytes -> entries of order u64 | capture cursor u64 | ordinal u32, all big-endian

The entries of a group ascend through its pages. A page's key ends with the order and cursor under which nothing in it
stands; the first of a group ends with zeros, and is there as long as any. A page that grows too long is cut in two. How
a group is cut into pages has no meaning.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from journal import limits
from projections.environment import Unusable
from projections.lexical.standing import GROUP_BYTES, Standing
from projections.port import Cursor, Reading, Writing

PLACE_BYTES: Final = 16
_PLACE: Final = struct.Struct(">QQ")
_ORDINAL: Final = struct.Struct(">I")
_ENTRY_BYTES: Final = PLACE_BYTES + _ORDINAL.size
_FIRST: Final = bytes(PLACE_BYTES)
_NOBODY: Final = b"\xff" * _ENTRY_BYTES
_ENTRY: Final = np.dtype([("order", ">u8"), ("cursor", ">u8"), ("ordinal", ">u4")])
GROUP_PLACE: Final = np.dtype([("group", f"V{GROUP_BYTES}"), ("order", ">u8"), ("cursor", ">u8")])
"""Where a document stands: its group, and its place in it."""

Ordinals = npt.NDArray[np.int64]


class Sequence:
    """Reads who stands where."""

    def __init__(self, txn: Reading, database: Any) -> None:
        self._reading = txn
        self._database = database

    def around(self, places: npt.NDArray[np.void], reach: int, known: dict[bytes, bytes]) -> tuple[Ordinals, Ordinals]:
        """Return ordinals and cursors around documents, given by their places (``GROUP_PLACE``), in the middle.

        The shape of each is (documents, 2 reach + 1). -1 stands where no document of the group does. ``known`` has the
        entries around places that were found before in this state, and gets those of these.

        Raises:
            Unusable: a document is not in the sequence of its group.
        """
        raw, size, width = places.tobytes(), GROUP_PLACE.itemsize, (2 * reach + 1) * _ENTRY_BYTES
        packed = [raw[at : at + size] for at in range(0, len(raw), size)]
        pages = _Pages(self._reading.cursor(db=self._database), reach * _ENTRY_BYTES)
        for wanted in sorted(packed):  # who share a page follow each other
            if len(known.get(wanted, b"")) < width:
                known[wanted] = pages.around(wanted)
        rows = [_middle(known[wanted], width) for wanted in packed]
        entries = np.frombuffer(b"".join(rows), _ENTRY).reshape(len(places), 2 * reach + 1)
        ordinals, cursors = entries["ordinal"].astype(np.int64), entries["cursor"].astype(np.int64)
        ordinals[ordinals == _NO_ORDINAL] = -1
        return ordinals, cursors  # what stands for nobody is -1 as a signed number already

    def places(self) -> Iterator[tuple[bytes, int]]:
        """Give the group and place of every document, 32 bytes, with its ordinal, in order.

        Raises:
            Unusable: a page holds what does not belong in it.
        """
        before = begun = b""
        for key, value in self._reading.cursor(db=self._database).iternext():
            page, group, bound = bytes(value), bytes(key[:GROUP_BYTES]), bytes(key[GROUP_BYTES:])
            if len(page) % _ENTRY_BYTES or (bound != _FIRST and begun != group):
                raise Unusable("a page of a sequence is cut, or the first is missing")
            begun = group
            for at in range(0, len(page), _ENTRY_BYTES):
                place = group + page[at : at + PLACE_BYTES]
                if not (before < place and bound <= place[GROUP_BYTES:]):
                    raise Unusable("a page of a sequence is out of order")
                yield place, _ORDINAL.unpack_from(page, at + PLACE_BYTES)[0]
                before = place


class WritableSequence(Sequence):
    """Writes who stands where."""

    def __init__(self, txn: Writing, database: Any) -> None:
        super().__init__(txn, database)
        self._writing = txn

    def put(self, cursor: int, standing: Standing, ordinal: int) -> None:
        """Put a document in its place, unless it stands alone."""
        if standing.is_alone:
            return
        place = _PLACE.pack(standing.order, cursor)
        key, page = self._page(standing.group, place)
        at = _place_in(page, place)
        page = page[:at] + place + _ORDINAL.pack(ordinal) + page[at:]
        half = len(page) // _ENTRY_BYTES // 2 * _ENTRY_BYTES
        if len(page) > limits.LEXICAL_SEQUENCE_PAGE_DOCUMENTS * _ENTRY_BYTES:
            self._writing.put(standing.group + page[half : half + PLACE_BYTES], page[half:], db=self._database)
            page = page[:half]
        self._writing.put(key, page, db=self._database)

    def delete(self, cursor: int, standing: Standing) -> None:
        """Take a document out of its place."""
        if standing.is_alone:
            return
        place = _PLACE.pack(standing.order, cursor)
        key, page = self._page(standing.group, place)
        at = _place_in(page, place)
        if page[at : at + PLACE_BYTES] != place:
            raise Unusable("a document is not in the sequence of its group")
        page = page[:at] + page[at + _ENTRY_BYTES :]
        if page or key[GROUP_BYTES:] == _FIRST:
            self._writing.put(key, page, db=self._database)
        else:
            self._writing.delete(key, db=self._database)
        self._drop_empty(standing.group)

    def _page(self, group: bytes, place: bytes) -> tuple[bytes, bytes]:
        """Return the key and entries of the page in which a place is, or would be."""
        found = _find(self._reading.cursor(db=self._database), group, place)
        return (group + _FIRST, b"") if found is None else found

    def _drop_empty(self, group: bytes) -> None:
        """Remove the first page of a group that has no documents any more."""
        cursor = self._reading.cursor(db=self._database)
        if cursor.set_key(group + _FIRST) and not len(cursor.value()):
            if cursor.next() and cursor.key()[:GROUP_BYTES] == group:
                return
            self._writing.delete(group + _FIRST, db=self._database)


_NO_ORDINAL: Final = 2**32 - 1


def _find(cursor: Cursor, group: bytes, place: bytes) -> tuple[bytes, bytes] | None:
    """Go to the page in which a place is or would be; return its key and entries, None where the group has none."""
    wanted = group + place
    is_over = cursor.set_range(wanted)
    if not (is_over and cursor.key() == wanted) and not (cursor.prev() if is_over else cursor.last()):
        return None
    key, value = cursor.item()
    return (bytes(key), bytes(value)) if key[:GROUP_BYTES] == group else None


def _place_in(page: bytes, place: bytes) -> int:
    """Return where in a page a place is or would be, in bytes."""
    low, high = 0, len(page) // _ENTRY_BYTES
    while low < high:
        middle = (low + high) // 2
        if page[middle * _ENTRY_BYTES : middle * _ENTRY_BYTES + PLACE_BYTES] < place:
            low = middle + 1
        else:
            high = middle
    return low * _ENTRY_BYTES


class _Pages:
    """Reads what stands around places, ``reach`` bytes of entries either way; the last page is kept at hand."""

    def __init__(self, cursor: Cursor, reach: int) -> None:
        self._cursor = cursor
        self._reach = reach
        self._key = self._page = b""

    def around(self, wanted: bytes) -> bytes:
        """Return the entries around a group and place, ``_NOBODY`` for those that are not there.

        Raises:
            Unusable: nobody stands there.
        """
        at = _exactly(self._page, wanted[GROUP_BYTES:]) if wanted[:GROUP_BYTES] == self._key[:GROUP_BYTES] else -1
        if at < 0:
            found = _find(self._cursor, wanted[:GROUP_BYTES], wanted[GROUP_BYTES:])
            if found is None or (at := _exactly(found[1], wanted[GROUP_BYTES:])) < 0:
                raise Unusable("a document is not in the sequence of its group")
            self._key, self._page = found
        reach, end = self._reach, at + _ENTRY_BYTES
        before, after = self._page[max(0, at - reach) : at], self._page[end : end + reach]
        if len(before) < reach:
            before = self._more_before(before)
        if len(after) < reach:
            after = self._more_after(after)
        return before + self._page[at:end] + after

    def _more_before(self, before: bytes) -> bytes:
        """Return entries that end with these, from the pages before the one at hand."""
        if self._key[GROUP_BYTES:] != _FIRST and self._cursor.set_key(self._key):
            while len(before) < self._reach and self._cursor.prev() and self._in_group():
                before = bytes(self._cursor.value()) + before
        return (_NOBODY * (self._reach // _ENTRY_BYTES) + before)[-self._reach :]

    def _more_after(self, after: bytes) -> bytes:
        """Return entries that begin with these, from the pages after the one at hand."""
        if self._cursor.set_key(self._key):
            while len(after) < self._reach and self._cursor.next() and self._in_group():
                after += bytes(self._cursor.value())
        return (after + _NOBODY * (self._reach // _ENTRY_BYTES))[: self._reach]

    def _in_group(self) -> bool:
        return self._cursor.key()[:GROUP_BYTES] == self._key[:GROUP_BYTES]


def _middle(entries: bytes, width: int) -> bytes:
    """Return the middle of entries, so many bytes."""
    spare = (len(entries) - width) // 2
    return entries[spare : spare + width] if spare else entries


def _exactly(page: bytes, place: bytes) -> int:
    """Return where in a page a place is, in bytes, -1 where it is not."""
    at = page.find(place)  # the same bytes may stand across two entries
    while at > 0 and at % _ENTRY_BYTES:
        at = page.find(place, at + 1)
    return at
