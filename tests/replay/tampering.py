"""A closed store changed behind the engine's back: rows edited, or the whole chain forged anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lmdb
import msgspec

from journal import layout
from journal.events import Header
from journal.frames import GENESIS, decode_frame, encode_frame, frame_hash
from journal.scope import Scope
from journal.store.lmdb import tables
from journal.store.lmdb.view import read_record


class Tables:
    """The tables of a closed store, in one write transaction."""

    def __init__(self, txn: Any, handles: dict[bytes, Any], scope: Scope) -> None:
        self.txn = txn
        self.handles = handles
        self.scope = scope

    def key(self, cursor: int) -> bytes:
        return tables.event_key(self.scope.tag, cursor)

    def get(self, table: bytes, cursor: int) -> bytes:
        found = self.txn.get(self.key(cursor), db=self.handles[table])
        assert found is not None
        return bytes(found)

    def put(self, table: bytes, cursor: int, value: bytes) -> None:
        self.txn.put(self.key(cursor), value, db=self.handles[table])

    def delete(self, table: bytes, cursor: int) -> None:
        assert self.txn.delete(self.key(cursor), db=self.handles[table])

    def rows(self, table: bytes) -> dict[bytes, bytes]:
        """Return the scope's rows of an index table, keys without the tag."""
        return dict(tables.prefix_rows(self.txn, self.handles[table], self.scope.tag))

    def put_row(self, table: bytes, key: bytes, value: bytes | None) -> None:
        if value is None:
            assert self.txn.delete(self.scope.tag + key, db=self.handles[table])
        else:
            self.txn.put(self.scope.tag + key, value, db=self.handles[table])

    def headers(self) -> list[Header]:
        frames = self.rows(tables.EVENTS)
        return [decode_frame(frames[key]) for key in sorted(frames)]

    def forge(self, headers: list[Header]) -> None:
        """Write a whole new chain that holds in itself, and a commit record that names its end."""
        prev = GENESIS
        for key in self.rows(tables.EVENTS):
            self.put_row(tables.EVENTS, key, None)
        for header in headers:
            frame = encode_frame(msgspec.structs.replace(header, prev=prev))
            self.put(tables.EVENTS, header.cursor, frame)
            prev = frame_hash(frame)
        record = self.record()
        record.cursor, record.hash = headers[-1].cursor, prev
        record.recorded_at = headers[-1].recorded_at
        self.put_record(record)

    def record(self) -> tables.CommitRecord:
        raw = self.txn.get(self.scope.tag, db=self.handles[tables.HEADS])
        return read_record(bytes(raw), self.scope)

    def put_record(self, record: tables.CommitRecord) -> None:
        self.txn.put(self.scope.tag, tables.encode_record(record), db=self.handles[tables.HEADS])


@contextmanager
def tampered(store: Path, scope: Scope) -> Iterator[Tables]:
    """Yield the tables of a closed store for writing."""
    env = lmdb.open(str(store / layout.JOURNAL), max_dbs=tables.MAX_DBS, map_size=1 << 30, lib_version=0)
    try:
        handles = {name: env.open_db(name, create=False) for name in tables.NAMES}
        with env.begin(write=True) as txn:
            yield Tables(txn, handles, scope)
    finally:
        env.close()


def changed(headers: list[Header], cursor: int, **fields: Any) -> list[Header]:
    """Return headers with fields of one of them replaced."""
    return [msgspec.structs.replace(each, **fields) if each.cursor == cursor else each for each in headers]


Change = Callable[[Tables], None]
