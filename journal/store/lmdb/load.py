"""Filling a journal directory that nobody has open: a restore writes every event anew, page by page.

The caller has verified the chain. Index tables are not copied from anywhere: they are derived from the events, as after
a crash.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import lmdb

from journal.store.lmdb import tables
from journal.store.lmdb.environment import Environment
from journal.store.lmdb.indexcheck import Located, rebuild_indexes
from journal.store.lmdb.rest import note
from journal.store.port import Part
from journal.systemfaults import told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from journal.scope import Scope
    from journal.store.port import Head

Row = tuple[bytes, bytes | None, bytes | None]
"""An event's frame, its sealed content and its sealed ledger, where it has them."""


class Loader:
    """A journal directory being filled. Nothing of it can be opened as a journal before ``finish``."""

    def __init__(self, directory: Path) -> None:
        """Make the environment in an empty directory.

        Raises:
            StoreUnavailable: it cannot be made.
        """
        self._directory = directory
        self._environment = Environment(directory)
        self._heads: list[tuple[Scope, Head]] = []

    def add(self, scope: Scope, first: int, rows: Sequence[Row]) -> None:
        """Write neighbouring events, the first one's cursor being ``first``; durable on return."""
        with self._writing() as txn:
            for cursor, (frame, content, ledger) in enumerate(rows, first):
                key = tables.event_key(scope.tag, cursor)
                txn.put(key, frame, db=self._environment.databases[tables.EVENTS])
                for part, sealed in ((Part.CONTENT, content), (Part.LEDGER, ledger)):
                    if sealed is not None:
                        txn.put(key, sealed, db=self._environment.databases[part.value])

    def end(self, scope: Scope, head: Head) -> None:
        """Say where a scope's journal ends."""
        self._heads.append((scope, head))

    def finish(self, located: Located) -> None:
        """Write the commit records and every index table, and close.

        ``located`` gives the slot numbers of a scope's data keys.

        Raises:
            CursorGap, JournalCorrupt: the events are not what the heads say.
        """
        sum_key = secrets.token_bytes(32)
        with self._writing() as txn:
            databases = self._environment.databases
            txn.put(tables.SUM_KEY, sum_key, db=databases[tables.STORE])
            for scope, head in self._heads:
                record = tables.CommitRecord(scope, head.cursor, head.hash, head.recorded_at, head.slot_generation, {})
                txn.put(scope.tag, tables.encode_record(record), db=databases[tables.HEADS])
            rebuild_indexes(txn, databases, sum_key, located)
        self.close()
        with suppress(OSError):  # without the note the first opening walks, which costs time and no more
            note(self._directory)

    def close(self) -> None:
        """Close the environment; closing twice is harmless."""
        self._environment.close()

    @contextmanager
    def _writing(self) -> Iterator[lmdb.Transaction]:
        try:
            with self._environment.begin(write=True) as txn:
                yield txn
            self._environment.extend()
        except lmdb.Error as error:
            raise told(error) from error
