"""Journal directories: opened, looked into row by row, and treated badly."""

from __future__ import annotations

from contextlib import contextmanager

import lmdb

from journal.indexes import Table
from journal.store.lmdb import tables
from journal.store.lmdb.engine import LmdbStore
from journal.store.lmdb.markers import DIRECTORY
from journal.store.lmdb.rest import is_as_left, note
from journal.testing import ManualClock


def open_store(directory, **how):
    return LmdbStore(directory, ManualClock(), **how)


def crash(directory):
    """Leave the mark of a process that another boot ended."""
    (directory / DIRECTORY).mkdir(exist_ok=True)
    (directory / DIRECTORY / "0123456789abcdef0123456789abcdef").write_text("another boot\n")


@contextmanager
def raw(directory):
    """Yield a write transaction over a closed store. What is written counts as the last process's own."""
    known = is_as_left(directory)
    try:
        with _raw(directory) as opened:
            yield opened
    finally:
        if known:
            note(directory)


@contextmanager
def _raw(directory):
    with (
        lmdb.open(str(directory), max_dbs=tables.MAX_DBS, map_size=tables.MAP_SIZE_BYTES) as env,
        env.begin(write=True) as txn,
    ):
        yield txn, {name: env.open_db(name, txn=txn) for name in tables.NAMES}


def content(directory):
    """Return every row of every table."""
    with raw(directory) as (txn, databases):
        return {name: dict(tables.walk_prefix(txn, databases[name], b"")) for name in tables.NAMES}


def slots_of(rows, scope):
    found = rows[Table.SLOT.value].items()
    return {key[16:]: int.from_bytes(value, "big") for key, value in found if key.startswith(scope.tag)}


def snapshot(place):
    """Return names, bytes and times of every file; the reader table is LMDB's own."""
    return {
        path.relative_to(place): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(place.rglob("*"))
        if path.is_file() and path.name != "lock.mdb"
    }
