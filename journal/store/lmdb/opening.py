"""Opening the environment: how its last users ended decides what must be known before anything is written.

    they closed it          nothing
    one was killed          heads, last frames and row counts agree; else as after a crash
    the machine went down   a child process walks the whole store (quarantine.py) before it is mapped here

Where the walk finds index tables that are not what the commit records say, they are written anew from the events. Where
it finds the events damaged, the store is not opened. A read-only opening repairs nothing, and writes nothing but its
entry in LMDB's reader table.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import lmdb

from journal import limits
from journal.errors import EngramError, StoreUnavailable
from journal.store.lmdb import tables
from journal.store.lmdb.environment import Environment, translated
from journal.store.lmdb.indexcheck import Located, broken_counts, rebuild_indexes
from journal.store.lmdb.markers import End, Markers
from journal.store.lmdb.quarantine import inspect
from journal.store.lmdb.view import LmdbView, read_record
from journal.store.lmdb.writelock import WriteLock


def open_for_reading(directory: Path) -> Environment:
    """Return the environment, read-only.

    Raises:
        StoreUnavailable: it is not there, or its indexes must be rebuilt first. JournalCorrupt: it is damaged.
    """
    if Markers(directory).crashed() and inspect(directory):
        raise StoreUnavailable("the journal's indexes need rebuilding after a crash: open it for writing once")
    return Environment(directory, readonly=True)


def open_for_writing(
    directory: Path, lock: WriteLock, markers: Markers, located: Located | None, *, durable: bool
) -> tuple[Environment, bytes]:
    """Return the environment, known to be whole, and the key of the index tables' sums.

    Raises:
        StoreUnavailable: it cannot be opened. JournalCorrupt: it is damaged.
    """
    with ExitStack() as undo, markers.opening() as end, _held(lock):
        doomed = inspect(directory) if end is End.CRASHED and (directory / "data.mdb").exists() else []
        environment = Environment(directory, durable=durable)
        undo.callback(environment.close)
        if end is End.KILLED and not looks_whole(environment):
            doomed = inspect(directory)
        sum_key = _sum_key(environment, located, rebuild=bool(doomed))
        markers.place_if_room()
        undo.pop_all()
    return environment, sum_key


def looks_whole(environment: Environment) -> bool:
    """Whether every head decodes, names the frame that stands last, and the row counts are what the heads say."""
    try:
        with environment.reading() as (txn, databases):
            for _, raw in tables.walk_prefix(txn, databases[tables.HEADS], b""):
                record = read_record(raw)
                if not LmdbView(txn, databases, record.scope).run(record.cursor - 1, 1):
                    return False
            return not broken_counts(txn, databases)
    except EngramError:
        return False


def _sum_key(environment: Environment, located: Located | None, *, rebuild: bool) -> bytes:
    """Return the store's own sum key, made on first opening; where asked, or where it is new, rebuild the tables."""
    with environment.reading() as (txn, databases):
        key = tables.get(txn, databases[tables.STORE], tables.SUM_KEY)
    if key is not None and not rebuild:
        return key
    fresh = key if key is not None else secrets.token_bytes(32)
    try:
        with environment.begin(write=True) as txn:
            txn.put(tables.SUM_KEY, fresh, db=environment.databases[tables.STORE])
            rebuild_indexes(txn, environment.databases, fresh, located)
    except lmdb.Error as error:
        raise translated(error) from error
    return fresh


@contextmanager
def _held(lock: WriteLock) -> Iterator[Any]:
    """Hold the write lock: LMDB's own, which opening takes, has no time-out; a stopped process holds it for ever."""
    if not lock.acquire(time.monotonic() + limits.OPENING_WAIT_SECONDS):
        raise StoreUnavailable("another process holds the journal's write lock")
    try:
        yield
    finally:
        lock.release()
