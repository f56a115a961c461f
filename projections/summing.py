"""What a generation's rows must add up to: kept with every write, compared when its pages are walked (``pagewalk``).

LMDB checks no byte that it reads. So the table ``meta`` holds, under ``sums``, how many rows each table has and the sum
of their CRCs, written in the transaction that changes the rows; its own row is in no sum. A CRC-32 tells every change
of a few bits, and all but one in 4,000 million others, in a fifth to a half of a keyed digest's time. It is no defence
against people: whoever can write here can write the sums too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final
from zlib import crc32

import lmdb
import msgspec

from journal.foreign import UNREADABLE
from projections.environment import Unusable
from projections.port import META, Cursor, Reading, Value

Sums = dict[str, tuple[int, int]]
"""By a table's name its rows and the sum of their CRCs, modulo 2**64; one that never had a row is not there."""

NOTHING: Final = (0, 0)
"""What no rows add up to."""
_ROW: Final = b"sums"
_MODULUS: Final = 1 << 64
_WAITING_MAX: Final = 2_048  # so many rows of a table wait to be counted: they are kept in memory
_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Sums)


def stated_in(txn: Reading, meta: Any) -> Sums:
    """Return what a generation's rows should add up to, of its table ``meta``.

    Raises:
        Unusable: that does not stand there, or cannot be read.
    """
    raw = txn.get(_ROW, db=meta)
    if raw is None:
        raise Unusable("a generation without sums")
    try:
        return _DECODER.decode(raw)
    except UNREADABLE as error:
        raise Unusable("a generation's sums cannot be read") from error


def walked(txn: Reading, tables: Mapping[bytes, Any]) -> Sums:
    """Return what the rows that stand there add up to; a row that a search by its key does not find counts as none."""
    found = {}
    for name, table in tables.items():
        rows = total = 0
        for row, value in txn.cursor(db=table).iternext():
            key = bytes(row)
            if (name != META or key != _ROW) and txn.get(key, db=table) == value:
                rows += 1
                total += _crc(key, value)
        found[name.decode()] = rows, total % _MODULUS
    return found


def _crc(key: bytes, value: Value) -> int:
    return crc32(value, crc32(key, len(key)))


class Summed:
    """A write transaction that keeps the sums of what is written (``projections.port.Writing``).

    A fold writes some rows again and again: a row is taken out of the sums when it is first touched, and what stands in
    its place is counted when all is written.
    """

    def __init__(self, txn: lmdb.Transaction[bytes], tables: Mapping[bytes, Any], *, new: bool = False) -> None:
        """Take the transaction and all tables; ``new``: of a generation that has no row yet.

        Raises:
            Unusable: there are no sums to go on from.
        """
        self.get = txn.get
        self.cursor: Callable[..., Cursor] = txn.cursor
        self._put, self._replace, self._pop = txn.put, txn.replace, txn.pop  # found once: there are many rows
        self._meta = tables[META]
        self._stated = {} if new else stated_in(txn, self._meta)
        self._tables = tables
        self._touched: dict[Any, _Touched] = {}

    def put(self, key: bytes, value: Value, *, overwrite: bool = True, append: bool = False, db: Any = None) -> bool:
        """Set a key's value; return False where it is there and ``overwrite`` is False.

        Raises:
            Unusable: ``append``, and a key of the table is not under this one.
        """
        try:
            touched = self._touched[db]
        except KeyError:
            touched = self._touch(db)
        if value.__class__ is not bytes:
            value = bytes(value)  # others may change it, or take it away
        now = touched.now
        if append or not overwrite or key in now:
            if not self._put(key, value, overwrite=overwrite, append=append, db=db):
                if append:
                    raise Unusable("a table is out of order")
                return False
        elif (before := self._replace(key, value, db)) is not None:
            touched.take_out(key, before)
        now[key] = value
        if len(now) >= _WAITING_MAX:
            touched.put_in()
        return True

    def delete(self, key: bytes, value: bytes = b"", db: Any = None) -> bool:
        """Remove a key; return whether it was there."""
        before = self._pop(key, db)
        if before is None:
            return False
        touched = self._touched.get(db) or self._touch(db)
        if key not in touched.now:
            touched.take_out(key, before)
        touched.now[key] = None
        return True

    def _touch(self, db: Any) -> _Touched:
        name = next(name for name, table in self._tables.items() if table is db)
        touched = self._touched[db] = _Touched(*self._stated.get(name.decode(), NOTHING))
        return touched

    def settle(self) -> None:
        """Write what the rows add up to now."""
        for name, table in self._tables.items():
            touched = self._touched.get(table)
            if touched is not None:
                touched.put_in()
                self._stated[name.decode()] = touched.rows, touched.total % _MODULUS
        self._put(_ROW, _ENCODER.encode(self._stated), db=self._meta)


class _Touched:
    """A table that is changed: what its rows add up to, but for those that were touched."""

    __slots__ = ("now", "rows", "total")

    def __init__(self, rows: int, total: int) -> None:
        self.rows = rows
        self.total = total
        self.now: dict[bytes, bytes | None] = {}  # touched rows as they stand now, not counted yet; None: not there

    def take_out(self, key: bytes, value: bytes) -> None:
        """Count a row no longer."""
        self.rows -= 1
        self.total -= _crc(key, value)

    def put_in(self) -> None:
        """Count what was touched as it stands now."""
        crcs = [_crc(key, value) for key, value in self.now.items() if value is not None]
        self.rows += len(crcs)
        self.total += sum(crcs)
        self.now.clear()
