"""The projection port: a projection is a pure fold of one scope's journal into an environment of its own.

A fold speaks to tables, not to LMDB: to the handful of verbs of ``Writing``, which are ``lmdb.Transaction``'s own. The
same fold therefore runs inside an LMDB write transaction and, when another process holds the generation's write lock,
over an in-memory ``projections.overlay.Overlay`` of a read transaction. Tables are plain ones (no dupsort, no integer
keys); keys are 1 to 511 bytes; values come back as ``bytes`` or as a ``memoryview`` that is good until the next write
or the end of the transaction: take ``bytes(value)`` of what you keep, and write no code that needs one or the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Protocol, Self

import msgspec

from journal.events import Header

META: Final = b"meta"
"""The table that is the generation's own."""
Value = bytes | memoryview
Tables = dict[bytes, Any]
"""A projection's databases by name: opaque handles, given back to a transaction as ``db``."""

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class OpenTables(dict[bytes, Any]):
    """The tables of an open environment, with what readers keep in memory of their content until it is closed.

    Whatever is kept is a copy, holds for every later state, and belongs to those that are persisted. ``kept`` has a
    name for each kind.
    """

    def __init__(self, handles: Tables, kept: dict[str, Any]) -> None:
        super().__init__(handles)
        self.kept = kept


class FoldEvent(msgspec.Struct, frozen=True):
    """One event as a fold sees it.

    ``payload`` opens what the event says: of a lifecycle event the effective payload of its subject, of a conversation
    event its content, or its ledger where it has no content. It gives None where a key was lawfully destroyed. A fold
    of states alone never calls it. ``prepared`` has by a projection's name what was made of the payload for it before.
    """

    header: Header
    payload: Callable[[], dict[str, Any] | None]
    prepared: Mapping[str, Any] = _NOTHING


class Cursor(Protocol):
    """A position in one table, with the meaning that ``lmdb.Cursor`` gives each verb."""

    def first(self) -> bool:
        """Go to the first key; return whether there is one."""
        ...

    def last(self) -> bool:
        """Go to the last key; return whether there is one."""
        ...

    def next(self) -> bool:
        """Go to the next key (from nowhere: the first); return whether there is one."""
        ...

    def prev(self) -> bool:
        """Go to the previous key (from nowhere: the last); return whether there is one."""
        ...

    def set_key(self, key: bytes, /) -> bool:
        """Go to exactly this key; return whether it is there."""
        ...

    def set_range(self, key: bytes, /) -> bool:
        """Go to the first key that is not less; return whether there is one."""
        ...

    def key(self) -> Value:
        """Return the key here, empty when nowhere."""
        ...

    def value(self) -> Value:
        """Return the value here, empty when nowhere."""
        ...

    def item(self) -> tuple[Value, Value]:
        """Return the key and value here, empty when nowhere."""
        ...

    def iternext(self) -> Iterator[tuple[Value, Value]]:
        """Walk forward from here (from nowhere: from the first), yielding keys with their values."""
        ...

    def iterprev(self) -> Iterator[tuple[Value, Value]]:
        """Walk backward from here (from nowhere: from the last), yielding keys with their values."""
        ...

    def __iter__(self) -> Iterator[tuple[Value, Value]]: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class Reading(Protocol):
    """A consistent state of the tables."""

    def get(self, key: bytes, default: None = None, db: Any = None) -> Value | None:
        """Return the value of a key, or None."""
        ...

    def cursor(self, db: Any = None) -> Cursor:
        """Return a cursor, standing nowhere. It is not good across a write to its table."""
        ...


class Writing(Reading, Protocol):
    """Tables that can be changed."""

    def put(self, key: bytes, value: Value, *, overwrite: bool = True, append: bool = False, db: Any = None) -> bool:
        """Set a key's value; return False where it is there and ``overwrite`` is False.

        ``append`` promises that the key is over every other of its table, which LMDB then need not look for.
        """
        ...

    def delete(self, key: bytes, value: bytes = b"", db: Any = None) -> bool:
        """Remove a key; return whether it was there."""
        ...


class Projection(Protocol):
    """A fold. It never writes to the journal, never calls a model, and has no side effect beyond its tables.

    Equal events give equal logical content, whatever the batches, and whether or not what was forgotten since could
    still be opened when it was folded: what a terminal state leaves behind holds nothing that came from a payload.

    Two verbs are for those that put work off. ``upkeep(txn, databases) -> bool`` does one piece of it, where there is
    any. ``purge(txn, databases)`` drops whatever rows still hold of terminal subjects; who has none leaves nothing.

    A third, ``prepare(events) -> list``, is for those to whom payloads are much work. It needs no table, so another
    process can do it: it gives for each event what the fold takes of its payload, in what msgpack can say, and None
    where the fold has to open the payload itself. Folded with it or without, the content is the same.
    """

    name: str
    version: int
    databases: tuple[bytes, ...]  # named databases that the generation opens for it; ``META`` is none of them

    def fold(self, txn: Writing, databases: Tables, events: Sequence[FoldEvent]) -> None:
        """Apply events, in cursor order. Raising leaves the generation as it was."""
        ...

    def content_digest(self, txn: Reading, databases: Tables) -> bytes:
        """Return the BLAKE3 of the logical content: independent of batches, segments and nonces."""
        ...

    def reader(self, txn: Reading, databases: Tables, cursor: int) -> Any:
        """Return what answers questions over the state at ``cursor``; good while the transaction is."""
        ...
