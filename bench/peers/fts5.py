"""SQLite FTS5 in a file of its own: contentless, so that the index alone is measured."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import apsw

from bench.peers.spelling import spelled, text_of


class Fts5:
    """FTS5 ranked by its bm25(), durable on every commit."""

    name = "SQLite FTS5"

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="engram-bench-")
        self._file = Path(self._folder.name) / "fts5.db"
        self._connection = apsw.Connection(str(self._file))
        self._connection.execute("PRAGMA journal_mode = WAL; PRAGMA cache_size = -65536")
        self._connection.execute("CREATE VIRTUAL TABLE found USING fts5(terms, content='', contentless_delete=1)")
        self._count = 0

    def build(self, documents: Iterable[list[str]]) -> None:
        """Index the documents in one transaction, and merge all segments into one."""
        self.add(documents)
        self.merge()

    def add(self, documents: Iterable[list[str]]) -> None:
        """Index more documents in one transaction."""
        first = self._count

        def rows() -> Iterator[tuple[int, str]]:
            for terms in documents:
                self._count += 1
                yield self._count - 1, text_of(terms)

        try:
            with self._connection:
                self._connection.executemany("INSERT INTO found(rowid, terms) VALUES (?, ?)", rows())
        except BaseException:
            self._count = first
            raise

    def delete(self, ids: list[int]) -> None:
        """Take documents out in one transaction."""
        with self._connection:
            self._connection.executemany("DELETE FROM found WHERE rowid = ?", ((number,) for number in ids))

    def merge(self) -> None:
        """Merge all segments into one."""
        self._connection.execute("INSERT INTO found(found) VALUES ('optimize')")

    def search(self, terms: list[str], k: int) -> list[int]:
        """Return the best documents that hold any of the terms."""
        if not terms:
            return []
        query = " OR ".join(f'"{spelled(term)}"' for term in terms)
        rows = self._connection.execute("SELECT rowid FROM found WHERE found MATCH ? ORDER BY rank LIMIT ?", (query, k))
        return [int(number) for (number,) in rows]

    def size_bytes(self) -> int:
        """Return the bytes of the file, with everything of the write-ahead log in it."""
        self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        return self._file.stat().st_size

    def close(self) -> None:
        """Close and remove the file."""
        self._connection.close()
        self._folder.cleanup()
