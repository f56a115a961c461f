"""``current`` in an environment of its own, folded from a journal in batches of our choice."""

from __future__ import annotations

from contextlib import contextmanager

import lmdb
import numpy as np

from projections.current import Current
from projections.tail import Tail
from tests.projections.histories import PURPOSE, SCOPE, record

OTHER = "purpose:other"


class Folded:
    def __init__(self, path, journal, projection=None):
        self.projection = projection or Current(journal.projection_key(SCOPE, "current", 1))
        self.journal = journal
        self.env = lmdb.open(str(path), max_dbs=8, map_size=1 << 30, sync=False, lib_version=0)
        self.tables = {name: self.env.open_db(name) for name in self.projection.databases}
        self.cursor = 0

    def fold(self, *, batch=10_000, upto=None):
        upto = self.journal.store.head(SCOPE).cursor if upto is None else upto
        while self.cursor < upto:
            step = min(self.cursor + batch, upto)
            events = Tail(self.journal, SCOPE).page(self.cursor).between(self.cursor, step)
            with self.env.begin(write=True) as txn:
                self.projection.fold(txn, self.tables, events)
            self.cursor = events[-1].header.cursor
        return self

    @contextmanager
    def reader(self):
        with self.env.begin(buffers=True) as txn:
            yield self.projection.reader(txn, self.tables, self.cursor)

    def digest(self):
        with self.env.begin() as txn:
            return self.projection.content_digest(txn, self.tables)


def readable(folded, number, now, purposes=(PURPOSE,)):
    """Ask in both ways, which must agree."""
    with folded.reader() as reader:
        row = reader.lookup(record(number))
        one = row is not None and reader.is_readable(row, now, purposes)
        cursors = np.array([row.cursor if row is not None else 0], np.uint64)
        assert bool(reader.eligible(cursors, now, purposes)[0]) == one
        return one
