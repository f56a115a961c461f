"""What a generation's rows must add up to: kept with every write, compared when its pages are walked (``pagewalk``).

LMDB checks no byte that it reads. So the table ``meta`` holds, under ``sums``, how many rows each table has and the sum
of their digests, written in the transaction that changes the rows. The digests are keyed by the generation's own key,
which is no secret and stands beside them; the row of the sums themselves is in no sum.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, Final

import lmdb
import msgspec

from journal import limits
from journal.foreign import UNREADABLE
from journal.store.lmdb.tables import TableSum, add, row_sum
from projections.environment import Unusable
from projections.port import META, Cursor, Reading, Value

NOTHING: Final = TableSum()
"""What no rows add up to."""
_ROW: Final = b"sums"


class Sums(msgspec.Struct, frozen=True, array_like=True):
    """What the rows add up to."""

    key: bytes
    tables: dict[str, TableSum]  # by name; one that never had a row is not there


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


def walked(txn: Reading, tables: Mapping[bytes, Any], key: bytes) -> dict[str, TableSum]:
    """Return what the rows that stand there add up to; a row that a search by its key does not find counts as none."""
    found = {}
    for name, table in tables.items():
        rows = amount = 0
        for row, value in map(_as_bytes, txn.cursor(db=table).iternext()):
            if (name != META or row != _ROW) and txn.get(row, db=table) == value:
                rows += 1
                amount += row_sum(key, name, row, value)
        found[name.decode()] = add(NOTHING, rows, amount)
    return found


def _as_bytes(item: tuple[Value, Value]) -> tuple[bytes, bytes]:
    return bytes(item[0]), bytes(item[1])


class Summed:
    """A write transaction that keeps the sums of what is written (``projections.port.Writing``)."""

    def __init__(self, txn: lmdb.Transaction[bytes], tables: Mapping[bytes, Any], *, new: bool = False) -> None:
        """Take the transaction and all tables; ``new``: of a generation that has no row yet.

        Raises:
            Unusable: there are no sums to go on from.
        """
        self._txn = txn
        self._meta = tables[META]
        self._names = {table: name for name, table in tables.items()}
        self._stated = Sums(secrets.token_bytes(limits.KEY_BYTES), {}) if new else stated_in(txn, self._meta)
        self._rows = dict.fromkeys(tables, 0)
        self._amounts = dict.fromkeys(tables, 0)

    def get(self, key: bytes, default: None = None, db: Any = None) -> Value | None:
        """Return the value of a key, or None."""
        return self._txn.get(key, default, db=db)

    def cursor(self, db: Any = None) -> Cursor:
        """Return a cursor, standing nowhere."""
        return self._txn.cursor(db=db)

    def put(self, key: bytes, value: Value, *, overwrite: bool = True, append: bool = False, db: Any = None) -> bool:
        """Set a key's value; return False where it is there and ``overwrite`` is False, or ``append`` not kept."""
        name = self._names[db]
        if append or not overwrite:
            if not self._txn.put(key, value, overwrite=overwrite, append=append, db=db):
                return False
        else:
            before = self._txn.replace(key, value, db=db)
            if before is not None:
                self._take_out(name, key, before)
        self._rows[name] += 1
        self._amounts[name] += row_sum(self._stated.key, name, key, bytes(value))
        return True

    def delete(self, key: bytes, value: bytes = b"", db: Any = None) -> bool:
        """Remove a key; return whether it was there."""
        before = self._txn.pop(key, db=db)
        if before is None:
            return False
        self._take_out(self._names[db], key, before)
        return True

    def _take_out(self, name: bytes, key: bytes, value: bytes) -> None:
        self._rows[name] -= 1
        self._amounts[name] -= row_sum(self._stated.key, name, key, value)

    def settle(self) -> None:
        """Write what the rows add up to now."""
        tables = dict(self._stated.tables)
        for name, amount in self._amounts.items():
            if amount or self._rows[name]:
                tables[name.decode()] = add(tables.get(name.decode(), NOTHING), self._rows[name], amount)
        self._txn.put(_ROW, _ENCODER.encode(Sums(self._stated.key, tables)), db=self._meta)
