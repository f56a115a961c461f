"""Opening the environment: how its last users ended decides what must be known before it is mapped here.

    they closed it          nothing, where the file is as they left it (rest.py); else as after a crash
    one was killed          a child process walks the store (quarantine.py), beside whoever else has it open
    the machine went down   a child process walks the store, nobody else writing

A killed process loses nothing that its system calls wrote. But it may have been the store's pages that it died of, and
whoever comes next must not die of them too.

Where the walk finds index tables that are not what the commit records say, they are written anew from the events. Where
it finds the events damaged, the store is not opened. A read-only opening repairs nothing, and writes nothing but its
entry in LMDB's reader table; a file that was changed at rest it reads as it stands, so that the audit can say how.
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
from journal.store.lmdb.environment import Environment
from journal.store.lmdb.filesystem import is_unmade
from journal.store.lmdb.indexcheck import Located, broken_counts, rebuild_indexes
from journal.store.lmdb.markers import End, Markers
from journal.store.lmdb.quarantine import inspect, inspect_beside
from journal.store.lmdb.rest import is_as_left
from journal.store.lmdb.view import LmdbView, read_record
from journal.store.lmdb.writelock import WriteLock
from journal.systemfaults import told
from journal.walks import note_whole

_DATA = "data.mdb"


def open_for_reading(directory: Path) -> Environment:
    """Return the environment, read-only.

    Raises:
        StoreUnavailable: it is not there, or its indexes must be rebuilt first. JournalCorrupt: it is damaged.
    """
    markers = Markers(directory)
    if not is_unmade(directory / _DATA) and (
        (markers.crashed() and inspect(directory)) or (markers.killed() and inspect_beside(directory))
    ):
        raise StoreUnavailable("the journal's indexes need rebuilding after an unclean end: open it for writing once")
    return Environment(directory, readonly=True)


def open_for_writing(
    directory: Path, lock: WriteLock, markers: Markers, located: Located | None, *, durable: bool
) -> tuple[Environment, bytes]:
    """Return the environment, known to be whole, and the key of the index tables' sums.

    Raises:
        StoreUnavailable: it cannot be opened. JournalCorrupt: it is damaged.
    """
    looked_into = _looked_into(directory, markers)
    with ExitStack() as undo:
        with markers.opening(looked_into) as end, _held(lock):
            doomed: list[str] = []
            if is_unmade(directory / _DATA):
                note_whole(directory)
            elif end is not End.CLEAN or _changed_at_rest(directory, markers, looked_into):
                began = time.monotonic()
                doomed = inspect(directory)
                note_whole(directory, time.monotonic() - began)
            environment = Environment(directory, durable=durable)
            undo.callback(environment.close)
            sum_key = _sum_key(environment, located, rebuild=bool(doomed))
            markers.place_if_room()
        undo.pop_all()  # only now: to give a lock back may fail as well
    return environment, sum_key


def _looked_into(directory: Path, markers: Markers) -> frozenset[Path]:
    """Have the store walked after a kill, others writing to it meanwhile; return the marks that are explained by it."""
    killed = markers.killed()
    if not killed or is_unmade(directory / _DATA) or inspect_beside(directory):
        return frozenset()  # where something is to be rebuilt, the walk is made again while nobody writes
    return killed


def _changed_at_rest(directory: Path, markers: Markers, looked_into: frozenset[Path]) -> bool:
    """Whether somebody wrote to the file after it was closed; one that was just walked need not be asked."""
    return markers.alone and not looked_into and not is_as_left(directory)


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
        raise told(error) from error
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
