"""The tail in memory: what a fold would have written, laid over a read transaction.

When another process holds a generation's write lock, the same fold runs here instead: reads look at the changes first
and then at the transaction, writes go to the changes alone. Nothing of it reaches a file.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any, Self

from projections.port import Cursor, Reading, Tables, Value


class TableChanges:
    """One table's changes: values by key, None for a key that was removed."""

    __slots__ = ("_sorted", "_unsorted", "values")

    def __init__(self, values: dict[bytes, bytes | None] | None = None) -> None:
        self.values: dict[bytes, bytes | None] = {} if values is None else values
        self._sorted: list[bytes] = []
        self._unsorted: list[bytes] = list(self.values)

    def set(self, key: bytes, value: bytes | None) -> None:
        """Set a key's value; None removes it."""
        if key not in self.values:
            self._unsorted.append(key)
        self.values[key] = value

    def keys(self) -> list[bytes]:
        """Return the changed keys in order."""
        if self._unsorted:
            self._sorted.extend(self._unsorted)
            self._sorted.sort()  # two runs, of which the first is in order: Python merges them in one pass
            self._unsorted = []
        return self._sorted


class Changes:
    """What folding over ``base`` up to ``cursor`` changed."""

    def __init__(self, base: object, cursor: int, head_hash: bytes) -> None:
        self.base = base  # names the persisted state that the changes lie over
        self.cursor = cursor
        self.head_hash = head_hash  # BLAKE3 of the frame at cursor
        self.users = 0  # open snapshots that read it
        self.tables: dict[bytes, TableChanges] = {}

    def settle(self) -> None:
        """Put every table's keys in order, so that threads which read them together change nothing."""
        for changed in self.tables.values():
            changed.keys()

    def copy(self) -> Changes:
        """Return changes that can grow while a snapshot still reads these."""
        other = Changes(self.base, self.cursor, self.head_hash)
        other.tables = {name: TableChanges(dict(changed.values)) for name, changed in self.tables.items()}
        return other


class Overlay:
    """A state that can be read and written like a transaction (``projections.port.Writing``)."""

    def __init__(self, txn: Reading, tables: Tables, changes: Changes) -> None:
        self._txn = txn
        self._changes = {handle: changes.tables.setdefault(name, TableChanges()) for name, handle in tables.items()}

    def get(self, key: bytes, default: None = None, db: Any = None) -> Value | None:
        """Return the value of a key, or None."""
        values = self._changes[db].values
        key = bytes(key)
        if key in values:
            return values[key]
        return self._txn.get(key, default, db=db)

    def put(self, key: bytes, value: Value, *, overwrite: bool = True, append: bool = False, db: Any = None) -> bool:
        """Set a key's value; return False where it is there and ``overwrite`` is False."""
        if not overwrite and self.get(key, db=db) is not None:
            return False
        self._changes[db].set(bytes(key), bytes(value))
        return True

    def delete(self, key: bytes, value: bytes = b"", db: Any = None) -> bool:
        """Remove a key; return whether it was there."""
        found = self.get(key, db=db) is not None
        if found:
            self._changes[db].set(bytes(key), None)
        return found

    def cursor(self, db: Any = None) -> OverlayCursor:
        """Return a cursor, standing nowhere."""
        return OverlayCursor(self._txn.cursor(db=db), self._changes[db])


class OverlayCursor:
    """A position in a changed table (``projections.port.Cursor``)."""

    def __init__(self, base: Cursor, changes: TableChanges) -> None:
        self._base = base
        self._changes = changes
        self._here: tuple[bytes, Value] | None = None

    def first(self) -> bool:
        """Go to the first key; return whether there is one."""
        return self._forward(b"", inclusive=True)

    def last(self) -> bool:
        """Go to the last key; return whether there is one."""
        return self._backward(None)

    def next(self) -> bool:
        """Go to the next key (from nowhere: the first); return whether there is one."""
        return self.first() if self._here is None else self._forward(self._here[0], inclusive=False)

    def prev(self) -> bool:
        """Go to the previous key (from nowhere: the last); return whether there is one."""
        return self.last() if self._here is None else self._backward(self._here[0])

    def set_key(self, key: bytes, /) -> bool:
        """Go to exactly this key; return whether it is there."""
        if self._forward(bytes(key), inclusive=True) and self.key() == key:
            return True
        self._here = None
        return False

    def set_range(self, key: bytes, /) -> bool:
        """Go to the first key that is not less; return whether there is one."""
        return self._forward(bytes(key), inclusive=True)

    def key(self) -> Value:
        """Return the key here, empty when nowhere."""
        return b"" if self._here is None else self._here[0]

    def value(self) -> Value:
        """Return the value here, empty when nowhere."""
        return b"" if self._here is None else self._here[1]

    def item(self) -> tuple[Value, Value]:
        """Return the key and value here, empty when nowhere."""
        return (b"", b"") if self._here is None else self._here

    def iternext(self) -> Iterator[tuple[Value, Value]]:
        """Walk forward from here (from nowhere: from the first), yielding keys with their values."""
        more = self._here is not None or self.first()
        while more:
            yield self.item()
            more = self.next()

    def iterprev(self) -> Iterator[tuple[Value, Value]]:
        """Walk backward from here (from nowhere: from the last), yielding keys with their values."""
        more = self._here is not None or self.last()
        while more:
            yield self.item()
            more = self.prev()

    def __iter__(self) -> Iterator[tuple[Value, Value]]:
        return self.iternext()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is held."""

    def _forward(self, key: bytes, *, inclusive: bool) -> bool:
        """Go to the first living key over ``key``, or at it where that is included."""
        changed = self._changes.keys()
        at = bisect_left(changed, key) if inclusive else bisect_right(changed, key)
        base = self._base.set_range(key) if key else self._base.first()
        if base and not inclusive and self._base.key() == key:
            base = self._base.next()
        while base or at < len(changed):
            if at == len(changed) or (base and bytes(self._base.key()) < changed[at]):
                self._here = bytes(self._base.key()), self._base.value()
                return True
            if base and self._base.key() == changed[at]:
                base = self._base.next()
            value = self._changes.values[changed[at]]
            if value is not None:
                self._here = changed[at], value
                return True
            at += 1
        self._here = None
        return False

    def _backward(self, key: bytes | None) -> bool:
        """Go to the last living key under ``key``, or to the very last."""
        changed = self._changes.keys()
        at = (len(changed) if key is None else bisect_left(changed, key)) - 1
        base = self._base.prev() if key is not None and self._base.set_range(key) else self._base.last()
        while base or at >= 0:
            if at < 0 or (base and bytes(self._base.key()) > changed[at]):
                self._here = bytes(self._base.key()), self._base.value()
                return True
            if base and self._base.key() == changed[at]:
                base = self._base.prev()
            value = self._changes.values[changed[at]]
            if value is not None:
                self._here = changed[at], value
                return True
            at -= 1
        self._here = None
        return False
