"""The keys of every table against the commit records: rows that belong to nothing, and rows that no search finds.

A walk meets rows in the order of the leaves; a search goes by the keys on the way down. LMDB protects neither, so a
flipped bit in a key leaves a row that a walk still meets and no search finds, or one that belongs to no scope. Every
key of every table is read here, and each of a table that is keyed by cursor is searched for as well. No value but the
commit records is read, and no key of the store is needed.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import lt
from typing import TYPE_CHECKING, Any

from journal import limits
from journal.errors import JournalCorrupt
from journal.indexes import Table
from journal.scope import TAG_BYTES
from journal.store.lmdb import tables
from journal.store.lmdb.view import read_record

if TYPE_CHECKING:
    import lmdb

CONTENT, LEDGER = 1, 2
"""What a header names, as bits: a sealed content, a sealed ledger."""
ANY = CONTENT | LEDGER
"""For an event whose header could not be read: it may have had either."""

_BITS = dict(zip(tables.PARTS, (CONTENT, LEDGER), strict=True))
_CURSOR = struct.Struct(f">{TAG_BYTES}xQ")  # the key of an event and its parts
_KEY_BYTES = _CURSOR.size
_NO_SCOPE = "of no scope"
_UNNAMED = "that no header names"


@dataclass(frozen=True, slots=True)
class RowFinding:
    """So many rows of a table that are not as they should be, and the first one's cursor where it has one."""

    table: str
    tag: bytes | None  # the scope they belong to; None: none that the store has
    what: str
    rows: int
    cursor: int | None = None

    @property
    def detail(self) -> str:
        """What is wrong, in words."""
        return f"the table {self.table}: {self.rows} rows {self.what}"


class _Tally:
    """Findings of one table, counted by kind, so that there are few however much is damaged."""

    def __init__(self, name: bytes) -> None:
        self._name = name.decode()
        self._rows: Counter[tuple[bytes | None, str]] = Counter()
        self._first: dict[tuple[bytes | None, str], int | None] = {}

    def add(self, tag: bytes | None, what: str, cursor: int | None = None, rows: int = 1) -> None:
        self._rows[tag, what] += rows
        self._first.setdefault((tag, what), cursor)

    def findings(self) -> Iterator[RowFinding]:
        for (tag, what), rows in self._rows.items():
            yield RowFinding(self._name, tag, what, rows, self._first[tag, what])


def check_rows(
    txn: lmdb.Transaction, databases: Mapping[bytes, Any], parts: Mapping[bytes, bytes], *, events_alone: bool = False
) -> Iterator[RowFinding]:
    """Yield what is wrong with the keys of the whole store, commit records included.

    Args:
        txn: a read transaction.
        databases: the tables by name.
        parts: by scope tag, what the header at each cursor names (``CONTENT``, ``LEDGER``); index 0 is unused. A
            scope that is not in it, and events beyond its end, are taken to name both.
        events_alone: leave out what no header is read from: sealed parts and index tables.
    """
    tally = _Tally(tables.HEADS)
    heads = dict(_heads(txn, databases, tally))
    yield from tally.findings()
    for name in (tables.EVENTS, *(() if events_alone else tables.PARTS)):
        yield from _by_cursor(txn, databases[name], name, heads, parts)
    for table in () if events_alone else Table:
        yield from _by_scope(txn, databases[table.value], table.value, heads)


def _heads(txn: lmdb.Transaction, databases: Mapping[bytes, Any], tally: _Tally) -> Iterator[tuple[bytes, int]]:
    """Yield (tag, cursor of the head) of every commit record that stands where it should."""
    for tag, raw in tables.walk_prefix(txn, databases[tables.HEADS], b""):
        try:
            record = read_record(raw)
        except JournalCorrupt:
            tally.add(None, "that cannot be decoded")
            continue
        if record.scope.tag != tag or tables.get(txn, databases[tables.HEADS], tag) != raw:
            tally.add(None, "under another scope's tag")
            continue
        yield tag, record.cursor


def _by_cursor(
    txn: lmdb.Transaction, database: Any, name: bytes, heads: Mapping[bytes, int], parts: Mapping[bytes, bytes]
) -> Iterator[RowFinding]:
    tally, counted = _Tally(name), Counter[bytes]()
    bit, before = _BITS.get(name, 0), b""
    is_found = partial(tables.is_found, txn, database)
    with txn.cursor(database) as rows:
        for keys in _key_pages(rows):
            tag = keys[0][:TAG_BYTES]
            if _in_order(keys, before, heads) and all(map(is_found, keys)):
                counted[tag] += len(keys)
                for cursor in _unnamed(keys, parts.get(tag, b""), bit):
                    tally.add(tag, _UNNAMED, cursor)
            else:
                _one_by_one(keys, before, heads, parts, bit, is_found, tally, counted)
            before = keys[-1]
    for tag, head in heads.items() if name == tables.EVENTS else ():
        if counted[tag] != head:
            tally.add(tag, "more or fewer than the commit record says", rows=abs(counted[tag] - head))
    yield from tally.findings()


def _key_pages(rows: lmdb.Cursor) -> Iterator[list[bytes]]:
    keys = map(bytes, rows.iternext(keys=True, values=False))
    while page := list(islice(keys, limits.READ_PAGE_EVENTS)):
        yield page


def _in_order(keys: list[bytes], before: bytes, heads: Mapping[bytes, int]) -> bool:
    """Whether the keys are one scope's, each greater than the one before, and none beyond its head."""
    tag = keys[0][:TAG_BYTES]
    return (
        tag in heads
        and tag + bytes(8) < keys[0]
        and keys[-1] <= tables.event_key(tag, heads[tag])
        and before < keys[0]
        and all(map(lt, keys, keys[1:]))
        and set(map(len, keys)) == {_KEY_BYTES}
    )


def _unnamed(keys: list[bytes], named: bytes, bit: int) -> list[int]:
    """Return the cursors of keys whose headers do not name the part."""
    end, joined = len(named), b"".join(keys) if bit else b""
    return [cursor for (cursor,) in _CURSOR.iter_unpack(joined) if cursor < end and not named[cursor] & bit]


def _one_by_one(
    keys: list[bytes], before: bytes, heads: Mapping[bytes, int], parts: Mapping[bytes, bytes], bit: int,
    is_found: Callable[[bytes], bool], tally: _Tally, counted: Counter[bytes],
) -> None:  # fmt: skip
    for key in keys:
        tag, cursor = key[:TAG_BYTES], int.from_bytes(key[TAG_BYTES:], "big")
        if tag not in heads:
            tally.add(None, _NO_SCOPE)
        elif not 1 <= cursor <= heads[tag] or len(key) != _KEY_BYTES:
            tally.add(tag, "beyond the head", cursor)
        else:
            counted[tag] += 1
            if _unnamed([key], parts.get(tag, b""), bit):
                tally.add(tag, _UNNAMED, cursor)
            if key <= before or not is_found(key):
                tally.add(tag, "that a search by their keys does not find", cursor)
        before = key


def _by_scope(txn: lmdb.Transaction, database: Any, name: bytes, heads: Mapping[bytes, int]) -> Iterator[RowFinding]:
    tally = _Tally(name)
    with txn.cursor(database) as rows:
        for keys in _key_pages(rows):
            tag = keys[0][:TAG_BYTES]
            if tag in heads and keys[-1].startswith(tag) and all(map(lt, keys, keys[1:])):
                continue  # grown from one key to the next, all of them have what the first and the last begin with
            for key in keys:
                if key[:TAG_BYTES] not in heads:
                    tally.add(None, _NO_SCOPE)
    yield from tally.findings()
