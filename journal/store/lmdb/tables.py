"""The tables of the LMDB environment and the commit record that sums them up.

    events    tag (16) || cursor (8, big-endian) -> frame
    content   the same key -> sealed content part
    ledger    the same key -> sealed ledger part
    heads     tag -> commit record: MessagePack [scope, cursor, hash, recorded_at, slot generation,
              {table: [rows, sum]}]
    store     "sum_key" -> 32 random bytes
    index tables of journal.indexes: tag || key -> value

A table's sum is the sum, modulo 2^128, of a keyed 16-byte BLAKE3 of each row. It is order-free, so each commit keeps it
current at the cost of the rows it touches, and a walk over the tree computes it afresh: LMDB itself does not protect
bytes, and a flipped bit can make a key unfindable without an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import lmdb
import msgspec
from blake3 import blake3

from journal import limits
from journal.indexes import Table
from journal.scope import Scope
from journal.store.port import Head
from journal.systemfaults import told

EVENTS = b"events"
HEADS = b"heads"
STORE = b"store"
PARTS = (b"content", b"ledger")
NAMES = (EVENTS, HEADS, STORE, *PARTS, *(table.value for table in Table))
INDEX_NAMES = {table: table.value.decode() for table in Table}
SUM_KEY = b"sum_key"
_MODULUS = 1 << 128


class TableSum(msgspec.Struct, array_like=True):
    """How many rows a scope has in a table, and their sum (16 bytes, big-endian)."""

    rows: int = 0
    total: bytes = bytes(16)


class CommitRecord(msgspec.Struct, array_like=True):
    """The end of a scope's journal, with what its index tables must add up to."""

    scope: Scope
    cursor: int
    hash: bytes
    recorded_at: int
    slot_generation: int
    sums: dict[str, TableSum]

    @property
    def head(self) -> Head:
        """The head that this record states."""
        return Head(self.cursor, self.hash, self.recorded_at, self.slot_generation)


_RECORD_ENCODER = msgspec.msgpack.Encoder()
_RECORD_DECODER = msgspec.msgpack.Decoder(CommitRecord)


def encode_record(record: CommitRecord) -> bytes:
    """Return a commit record's bytes."""
    return _RECORD_ENCODER.encode(record)


def decode_record(raw: bytes) -> CommitRecord:
    """Return the commit record of these bytes; msgspec.DecodeError where they are none."""
    return _RECORD_DECODER.decode(raw)


def event_key(tag: bytes, cursor: int) -> bytes:
    """Return the key of an event and its parts."""
    return tag + cursor.to_bytes(8, "big")


def row_sum(sum_key: bytes, name: bytes, key: bytes, value: bytes) -> int:
    """Return what one row adds to the sum of the index table of this name."""
    row = b"%b\0%b\0%b%b" % (name, len(key).to_bytes(4, "big"), key, value)
    return int.from_bytes(blake3(row, key=sum_key).digest(16), "big")


def add(total: TableSum, rows: int, amount: int) -> TableSum:
    """Return the sum with so many rows and so much more (or less, where negative)."""
    return stated_sum(total.rows + rows, int.from_bytes(total.total, "big") + amount)


def stated_sum(rows: int, total: int) -> TableSum:
    """Return a sum as a commit record states it."""
    return TableSum(rows, (total % _MODULUS).to_bytes(16, "big"))


def get(txn: lmdb.Transaction, database: Any, key: bytes) -> bytes | None:
    """Return a row's value, or None where there is none; what LMDB finds damaged is told as JOURNAL_CORRUPT."""
    try:
        found = txn.get(key, db=database)
    except lmdb.Error as error:
        raise told(error) from error
    return None if found is None else bytes(found)


def is_found(txn: lmdb.Transaction, database: Any, key: bytes) -> bool:
    """Whether a search by its key finds a row, going all the way down the tree; the value is not read.

    With a fresh cursor each time: LMDB looks for a key first in the page where a cursor stands, so that one which is
    used again finds rows that no branch leads to. ``get`` goes all the way down as well.
    """
    try:
        with txn.cursor(database) as finder:
            return bool(finder.set_key(key))
    except lmdb.Error as error:
        raise told(error) from error


def change_row(
    txn: lmdb.Transaction, databases: dict[bytes, Any], sum_key: bytes, table: Table, key: bytes, value: bytes | None
) -> tuple[int, int]:
    """Put an index row, or delete it where the value is None; return (rows, amount) that its table's sum changes by."""
    name = table.value
    database = databases[name]
    if value is not None and txn.put(key, value, db=database, overwrite=False):  # as nearly always: it is a new row
        return 1, row_sum(sum_key, name, key, value)
    old = get(txn, database, key)
    rows, amount = 0, 0
    if old is not None:
        rows, amount = -1, -row_sum(sum_key, name, key, old)
    if value is None:
        txn.delete(key, db=database)
    else:
        txn.put(key, value, db=database)
        rows, amount = rows + 1, amount + row_sum(sum_key, name, key, value)
    return rows, amount


def prefix_rows(txn: lmdb.Transaction, database: Any, prefix: bytes, limit: int = 0) -> list[tuple[bytes, bytes]]:
    """Return rows (key without the prefix, value) whose keys start with a prefix, in key order; ``limit`` 0 is all."""
    return list(islice(walk_prefix(txn, database, prefix), limit or None))


def walk_prefix(txn: lmdb.Transaction, database: Any, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield rows as ``prefix_rows`` returns them, one by one."""
    try:
        with txn.cursor(database) as cursor:
            if not cursor.set_range(prefix):
                return
            for key, value in cursor:
                key_bytes = bytes(key)
                if not key_bytes.startswith(prefix):
                    return
                yield key_bytes[len(prefix) :], bytes(value)
    except lmdb.Error as error:
        raise told(error) from error


MAX_DBS = len(NAMES) + 2
MAP_SIZE_BYTES = limits.MAP_SIZE_BYTES
KEY_MAX_BYTES = 511  # LMDB's own bound, compiled in
