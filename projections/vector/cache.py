"""The sealed embeddings of one model of one scope, as they lie on disk.

Tables, all keys the cursor of the subject's birth (the capture of a record, the MESSAGE of a message), 8 bytes
big-endian:

    embeddings_1  the sealed embedding (``journal.embeddings``), nothing else
    failures_1    attempts u8 | not before, epoch ms u64 | code u8 | cursor of the text u64, big-endian: of a text that
                  was not embedded

Embeddings are a cache and no fold: what is missing here is embedded again. A row is sealed under its subject's own data
key, so that destroying the key makes it unreadable, whoever still has its bytes: after a forgetting no key of the store
opens content or embedding. That is all that is promised of an embedding, so an erasure waits for nothing here. The row
is deleted too, when an embedder next looks; its bytes may stay in free pages, and are not compacted away.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import lmdb
import numpy as np
from numpy.typing import NDArray

from journal import limits
from journal.errors import ProjectionStale, StoreUnavailable
from projections import environment
from projections.environment import Environment, is_broken
from projections.rows import cursor_key
from projections.vector.folders import TABLES, Folders

_EMBEDDINGS, _FAILURES = TABLES
_FAILURE = struct.Struct(">BQBQ")
_KEY_BYTES = 8
_SETTLED_NANOSECONDS = 100_000_000  # clocks of file systems tick every few milliseconds

Cursors = NDArray[np.uint64]


class FailureCode(IntEnum):
    """Why a text was not embedded."""

    UNAVAILABLE = 1  # the provider failed, and may not the next time
    REFUSED = 2  # the provider says that it never will
    LOST = 3  # the text cannot be had


@dataclass(frozen=True, slots=True)
class Failure:
    """How often a text was not embedded, and when it may be tried again."""

    attempts: int
    not_before: int  # epoch ms
    code: FailureCode
    text_cursor: int  # of the event whose text it was

    @property
    def rests(self) -> bool:
        """Whether it is not tried again until a person or a restart asks."""
        return self.attempts >= limits.VECTOR_ATTEMPTS_MAX


@dataclass(slots=True)
class Changes:
    """What one write changes. A failure of None is taken away.

    ``still`` is asked of what is put when nobody else can write: an embedding of a text that was revised meanwhile must
    not take the place of the newer one's.
    """

    put: dict[int, bytes] = field(default_factory=dict)
    delete: set[int] = field(default_factory=set)
    failures: dict[int, Failure | None] = field(default_factory=dict)
    still: Callable[[int], bool] = lambda _cursor: True

    def __bool__(self) -> bool:
        return bool(self.put or self.delete or self.failures)


class Cache:
    """One folder's environment, opened for each look and each write."""

    def __init__(self, folders: Folders, name: str) -> None:
        self._folders = folders
        self.name = name

    def stamp(self) -> tuple[int, int, int] | None:
        """Return what moves whenever the content does; None where that cannot be told now."""
        try:
            found = (self._folders.path / self.name / environment.DATA).stat()
        except (FileNotFoundError, NotADirectoryError):
            return 0, 0, 0
        settled = time.time_ns() - found.st_mtime_ns > _SETTLED_NANOSECONDS
        return (found.st_dev, found.st_ino, found.st_mtime_ns) if settled else None

    def cursors(self) -> Cursors:
        """Return the cursors that have an embedding, whether or not it can be opened, ascending."""
        with self._reading() as found:
            if found is None:
                return np.zeros(0, np.uint64)
            return cursors_in(*found)

    def parts(self, cursors: Iterable[int]) -> dict[int, bytes]:
        """Return the sealed embeddings of those of these cursors that have one."""
        with self._reading() as found:
            if found is None:
                return {}
            txn, tables = found
            rows = ((cursor, txn.get(cursor_key(cursor), db=tables[_EMBEDDINGS])) for cursor in cursors)
            return {cursor: bytes(value) for cursor, value in rows if value is not None}

    def failures(self) -> dict[int, Failure]:
        """Return what was not embedded, by cursor. A row that cannot be read counts as none."""
        with self._reading() as found:
            if found is None:
                return {}
            return failures_in(*found)

    @contextmanager
    def _reading(self) -> Iterator[tuple[Any, Mapping[bytes, Any]] | None]:
        """Yield a read transaction and the tables; None where there is no environment.

        One that proves broken is thrown away.

        Raises:
            ProjectionStale: it was just thrown away; ask again.
        """
        opened = self._folders.open(self.name, make=False)
        if opened is None:
            yield None
            return
        with self._blaming(opened), opened.reading() as txn:
            yield txn, opened.tables

    def change(self, changes: Changes) -> None:
        """Write changes in one transaction.

        Raises:
            ProjectionStale: another process kept the lock. StoreUnavailable: it cannot be written.
        """
        if not changes:
            return
        opened = self._folders.open(self.name, make=True)
        assert opened is not None
        with self._blaming(opened):
            if not opened.claim(time.monotonic() + limits.VECTOR_LOCK_SECONDS):
                raise ProjectionStale("another process is writing embeddings")
            try:
                with opened.writing() as txn:
                    _write(txn, opened.tables, changes)
            finally:
                opened.unclaim()

    @contextmanager
    def _blaming(self, opened: Environment) -> Iterator[None]:
        """Release an environment at the end; one that proves broken is thrown away too."""
        try:
            yield
        except lmdb.Error as error:
            if not is_broken(error):
                raise StoreUnavailable(type(error).__name__) from error
            opened.give_up()
            opened.release()
            self._folders.remove(self.name)
            raise ProjectionStale("embeddings could not be read and are made anew") from error
        except BaseException:
            opened.release()
            raise
        opened.release()


def cursors_in(txn: Any, tables: Mapping[bytes, Any]) -> Cursors:
    """Return the cursors that have an embedding, ascending, of an open environment."""
    keys = txn.cursor(db=tables[_EMBEDDINGS]).iternext(keys=True, values=False)
    joined = b"".join([bytes(key) for key in keys if len(key) == _KEY_BYTES])
    return np.frombuffer(joined, ">u8").astype(np.uint64)


def failures_in(txn: Any, tables: Mapping[bytes, Any]) -> dict[int, Failure]:
    """Return what was not embedded, by cursor, of an open environment. A row that cannot be read counts as none."""
    rows = [(bytes(key), bytes(value)) for key, value in txn.cursor(db=tables[_FAILURES]).iternext()]
    return {
        int.from_bytes(key, "big"): failure for key, value in rows if (failure := _failure(value)) is not None
    }  # fmt: skip


def _write(txn: Any, tables: Mapping[bytes, Any], changes: Changes) -> None:
    for cursor in changes.delete:
        txn.delete(cursor_key(cursor), db=tables[_EMBEDDINGS])
        txn.delete(cursor_key(cursor), db=tables[_FAILURES])
    for cursor, part in changes.put.items():
        if not changes.still(cursor):
            continue
        txn.put(cursor_key(cursor), part, db=tables[_EMBEDDINGS])
        txn.delete(cursor_key(cursor), db=tables[_FAILURES])
    for cursor, failure in changes.failures.items():
        if failure is None:
            txn.delete(cursor_key(cursor), db=tables[_FAILURES])
        else:
            value = _FAILURE.pack(failure.attempts, failure.not_before, failure.code, failure.text_cursor)
            txn.put(cursor_key(cursor), value, db=tables[_FAILURES])


def _failure(value: bytes) -> Failure | None:
    try:
        attempts, not_before, code, text_cursor = _FAILURE.unpack(value)
        return Failure(attempts, not_before, FailureCode(code), text_cursor)
    except (struct.error, ValueError):
        return None
