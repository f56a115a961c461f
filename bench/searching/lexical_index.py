"""The engine's lexical index by itself, in an LMDB environment as a generation has it, and the scan that it must equal.

A journal, a fold and a snapshot have no part in it: documents are weighed and written, and searched.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from unittest.mock import patch

import lmdb
import numpy as np
import numpy.typing as npt
from blake3 import blake3

from journal import limits
from projections.lexical import writing
from projections.lexical.collection import Collection
from projections.lexical.context import Ranked
from projections.lexical.delta import Arrival, Delta
from projections.lexical.documents import Document, Weighed, Weigher
from projections.lexical.keyed import TokenKey
from projections.lexical.maxscore import Own, own_ranking
from projections.lexical.profile import RECORD_FIELDS
from projections.lexical.projection import LexicalProjection
from projections.lexical.question import Question
from projections.lexical.scoring import term_weight
from projections.lexical.tables import IndexTables, WritableIndexTables
from projections.port import OpenTables

KEY: Final = bytes(range(32))
BEST: Final = 10
PER_SOURCE: Final = 20  # documents, one after the other, that are each other's context

Found = list[tuple[int, int]]
"""(document number, own score), best first."""


def document_of(number: int, text: str) -> Document:
    """Return the document of a text: all of it is the primary component's."""
    return Document((("primary", text),), main=text, source=f"source:{number // PER_SOURCE}")


def digest_of(number: int) -> bytes:
    """Return what stands for a record's digest."""
    return blake3(number.to_bytes(8, "little")).digest()


class LexicalIndex:
    """Documents by number, 0 and up; the number and one is the capture cursor."""

    def __init__(self, place: Path, *, readonly: bool = False) -> None:
        """Open an index, or make one."""
        self.place = place
        self._projection = LexicalProjection(KEY)
        self._key = TokenKey(KEY)
        self.weigher = Weigher(self._key, RECORD_FIELDS)
        self._environment = lmdb.open(
            str(place), map_size=limits.PROJECTION_MAP_SIZE_BYTES, max_dbs=len(self._projection.databases) + 1,
            sync=False, metasync=False, readonly=readonly, lib_version=0,
        )  # fmt: skip
        handles = {name: self._environment.open_db(name, create=not readonly) for name in self._projection.databases}
        self._databases = OpenTables(handles, {})
        self.documents = 0
        self.weighing_seconds = 0.0  # of what was added: tokenizing, counting, keying

    # --- writing ---------------------------------------------------------------------------------

    def arrival(self, number: int, text: str) -> Arrival:
        """Weigh a document."""
        began = time.perf_counter()
        document, cursor = document_of(number, text), number + 1
        arrival = Arrival(cursor, digest_of(number), *self.weigher.arriving(document, cursor))
        self.weighing_seconds += time.perf_counter() - began
        return arrival

    def build(self, texts: Sequence[str], segments: int) -> None:
        """Weigh and write documents, so many segments of the same size, none of which is merged."""
        size = -(-len(texts) // segments)
        with unmerged():
            for first in range(0, len(texts), size):
                part = texts[first : first + size]
                self._write(Delta(added=[self.arrival(number, text) for number, text in enumerate(part, first)]))
        self.documents = len(texts)

    def add(self, text: str) -> None:
        """Add a document in a transaction of its own, with the merges that are due."""
        self._write(Delta(added=[self.arrival(self.documents, text)]))
        self.documents += 1

    def put(self, number: int, text: str) -> None:
        """Add a document of any number in a transaction of its own, with the merges that are due."""
        self.put_all([(number, text)])

    def put_all(self, documents: Sequence[tuple[int, str]]) -> None:
        """Add documents of any numbers in one transaction, with the merges that are due."""
        self._write(Delta(added=[self.arrival(number, text) for number, text in documents]))

    def delete(self, number: int) -> None:
        """Take a document out in a transaction of its own."""
        with self._environment.begin(write=True) as txn:
            tables = WritableIndexTables(txn, self._databases)
            ordinal = tables.ordinal(number + 1)
            assert ordinal is not None
            writing.write_delta(tables, Delta(removed=[(number + 1, ordinal)]))

    def merge(self) -> None:
        """Do every merge that is due, a transaction each."""
        due = True
        while due:
            with self._environment.begin(write=True) as txn:
                due = self._projection.upkeep(txn, self._databases)

    def _write(self, delta: Delta) -> None:
        with self._environment.begin(write=True) as txn:
            writing.write_delta(WritableIndexTables(txn, self._databases), delta)

    # --- reading ---------------------------------------------------------------------------------

    def terms(self, query: str) -> tuple[str, ...]:
        """Return a query's terms."""
        return Question.of(query).terms

    def own(self, terms: Sequence[str]) -> Own:
        """Rank by a question's own words alone, pruned: the best ten."""
        with self._environment.begin(buffers=True) as txn:
            collection = Collection(IndexTables(txn, self._databases))
            return own_ranking(collection, collection.term_lists(self._key.tokens(terms)), BEST, None)

    def own_of(self, query: str) -> Own:
        """Do what ``own`` does, for a question that is text."""
        return self.own(self.terms(query))

    def ranked(self, query: str) -> Ranked:
        """Rank as a search does: by own words, context and priors."""
        with self._environment.begin(buffers=True) as txn:
            return self._projection.reader(txn, self._databases, 0).search(Question.of(query), BEST)

    def best(self, query: str) -> Found:
        """Return the pruned ranking by own words."""
        own = self.own_of(query)
        return [(int(cursor) - 1, int(score)) for cursor, score in zip(own.rows["cursor"], own.scores, strict=True)]

    @property
    def segments(self) -> int:
        """How many segments a query goes through."""
        with self._environment.begin() as txn:
            return len(IndexTables(txn, self._databases).segments())

    def size_bytes(self) -> int:
        """Return the bytes of the file, the free pages in it too."""
        return (self.place / "data.mdb").stat().st_size

    def copied(self, place: Path) -> LexicalIndex:
        """Return a copy, which can be written to by itself."""
        place.mkdir()
        shutil.copyfile(self.place / "data.mdb", place / "data.mdb")
        other = LexicalIndex(place)
        other.documents = self.documents
        return other

    def close(self) -> None:
        """Close the environment."""
        self._environment.close()


@contextmanager
def unmerged() -> Iterator[None]:
    """Let a write merge nothing."""

    def none_due(_tables: WritableIndexTables, *, inline: bool) -> bool:
        del inline
        return False

    with patch.object(writing, "merge_once", none_due):
        yield


class Scan:
    """Every document that holds a word, scored in full and sorted in full: no segments, no bounds, no pruning."""

    def __init__(self, documents: Sequence[Weighed]) -> None:
        """Take all weighed documents, by number."""
        held: dict[bytes, list[tuple[int, int]]] = {}
        for number, document in enumerate(documents):
            for token, impact in zip(document.token_list(), document.impacts, strict=True):
                held.setdefault(token, []).append((number, impact))
        self._held: dict[bytes, npt.NDArray[np.int64]] = {
            token: np.array(pairs, np.int64).T for token, pairs in held.items()
        }
        digests = [digest_of(number) for number in range(len(documents))]
        self._ranks = np.empty(len(documents), np.int64)  # by digest
        self._ranks[sorted(range(len(documents)), key=digests.__getitem__)] = np.arange(len(documents))

    def best(self, query: str) -> Found:
        """Return the best ten."""
        key, sums = TokenKey(KEY), np.zeros(self._ranks.size, np.int64)
        for token, times in Counter(key.tokens(Question.of(query).terms)).items():
            if token in self._held:
                numbers, impacts = self._held[token]
                sums[numbers] += impacts * term_weight(self._ranks.size, numbers.size, times)
        order = np.lexsort((self._ranks, -sums))[:BEST]
        return [(int(number), int(sums[number])) for number in order if sums[number]]


def differing(index: LexicalIndex, scan: Scan, queries: Sequence[str]) -> int:
    """Return how many queries the index answers otherwise than the scan."""
    return sum(index.best(query) != scan.best(query) for query in queries)
