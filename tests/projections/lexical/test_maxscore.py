"""Pruned and unpruned are equal, over lists long enough to be pruned."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from journal import limits
from projections.lexical import maxscore
from projections.lexical.collection import Collection
from projections.lexical.delta import Arrival, Delta
from projections.lexical.documents import Weighed
from projections.lexical.scoring import term_weight
from projections.lexical.tables import IndexTables, WritableIndexTables
from projections.lexical.writing import write_delta
from tests.projections.lexical.indexes import Index

TOKENS = [number.to_bytes(8, "big") * 2 for number in range(60)]


class Collected:
    """Documents with Zipf-distributed tokens, in an index and in plain dictionaries."""

    def __init__(self, index, seed, documents=600):
        self._index = index
        self._random = np.random.default_rng(seed)
        self.documents = {}
        self._cursor = 0
        self.add(documents)

    def add(self, size):
        """Add documents, in one batch."""
        arrivals = []
        for _ in range(size):
            self._cursor += 1
            held = sorted({min(59, int(token)) for token in self._random.zipf(1.2, 12)})
            impacts = self._random.choice([60, 61, 120, 200, 255], len(held)).tolist()
            digest = self._random.bytes(32)
            tokens = b"".join(TOKENS[at] for at in held)
            self.documents[self._cursor] = digest, dict(zip((TOKENS[at] for at in held), impacts, strict=True))
            arrivals.append(Arrival(self._cursor, digest, Weighed(tokens, bytes(impacts))))
        self._write(Delta(added=arrivals))

    def remove(self, size):
        """Remove documents, in one batch."""
        gone = self._random.choice(list(self.documents), size, replace=False).tolist()
        with self._index.env.begin() as txn:
            tables = IndexTables(txn, self._index.databases)
            removed = [(cursor, ordinal) for cursor in gone if (ordinal := tables.ordinal(cursor)) is not None]
        assert len(removed) == size
        self._write(Delta(removed=removed))
        for cursor in gone:
            del self.documents[cursor]

    def _write(self, delta):
        with self._index.env.begin(write=True) as txn:
            write_delta(WritableIndexTables(txn, self._index.databases), delta)

    def query(self):
        """Return the tokens of a query, rare and common ones, some of them twice."""
        return [TOKENS[at] for at in self._random.integers(0, 60, self._random.integers(1, 9)).tolist()]

    def search(self, tokens, limit, eligible=None):
        with self._index.env.begin(buffers=True) as txn:
            collection = Collection(IndexTables(txn, self._index.databases))
            own = maxscore.own_ranking(collection, collection.term_lists(tokens), limit, eligible)
            return list(zip(own.rows["cursor"].tolist(), own.scores.tolist(), strict=True))

    def scan(self, tokens, limit, eligible=lambda cursor: True):
        """Score every document."""
        frequencies = Counter(token for _, impacts in self.documents.values() for token in impacts)
        scored = []
        for cursor, (digest, impacts) in self.documents.items():
            score = sum(
                impacts[token] * term_weight(len(self.documents), frequencies[token], times)
                for token, times in Counter(tokens).items()
                if token in impacts
            )
            if score and eligible(cursor):
                scored.append((-score, digest, cursor))
        return [(cursor, -score) for score, _, cursor in sorted(scored)[:limit]]


@pytest.fixture
def index(tmp_path):
    index = Index(tmp_path)
    yield index
    index.close()


@pytest.mark.parametrize("joined", [1, 100, 65_536])
@pytest.mark.parametrize("seed", [1, 2])
def test_pruned_equals_unpruned(index, monkeypatch, joined, seed):
    monkeypatch.setattr(limits, "LEXICAL_JOIN_POSTINGS", joined)
    monkeypatch.setattr(limits, "LEXICAL_LEVEL_POSTINGS", 500)
    monkeypatch.setattr(limits, "LEXICAL_PIECE_POSTINGS", 300)
    monkeypatch.setattr(limits, "LEXICAL_CHUNK_POSTINGS", 700)
    collected = Collected(index, seed)
    for size in (40, 3, 200, 1):
        collected.add(size)
        collected.remove(size // 2)
        for _ in range(30):
            tokens = collected.query()
            for limit in (1, 10, 200):
                assert collected.search(tokens, limit) == collected.scan(tokens, limit)


@pytest.mark.parametrize("modulus", [2, 50, 1_000_000])
def test_eligibility_is_asked_before_the_cut(index, modulus):
    collected = Collected(index, 3)
    for _ in range(10):
        tokens = collected.query()
        found = collected.search(tokens, 10, lambda cursors: cursors % modulus == 0)
        assert found == collected.scan(tokens, 10, lambda cursor: cursor % modulus == 0)


def test_eligibility_is_asked_once_of_each(index):
    collected = Collected(index, 4)
    asked = []

    def nobody(cursors):
        asked.extend(cursors.tolist())
        return np.zeros(cursors.size, bool)

    assert collected.search(TOKENS[:20], 10, nobody) == []
    assert len(asked) == len(set(asked)) == len(collected.scan(TOKENS[:20], 10_000))


def test_ties_are_ordered_by_record_digest(index):
    collected = Collected(index, 5, documents=0)
    collected.documents = {cursor: (bytes([255 - cursor]) * 32, {TOKENS[0]: 100}) for cursor in range(1, 201)}
    arrivals = [
        Arrival(cursor, digest, Weighed(TOKENS[0], b"d")) for cursor, (digest, _) in collected.documents.items()
    ]
    collected._write(Delta(added=arrivals))
    assert [cursor for cursor, _ in collected.search([TOKENS[0]], 5)] == [200, 199, 198, 197, 196]
    assert collected.search([TOKENS[0]], 5) == collected.scan([TOKENS[0]], 5)


def test_a_long_list_is_not_scanned_when_its_bound_cannot_reach_the_best(index, monkeypatch):
    monkeypatch.setattr(limits, "LEXICAL_JOIN_POSTINGS", 1)
    collected = Collected(index, 6, documents=0)
    rare, common = TOKENS[:2]
    arrivals = [Arrival(cursor, bytes([cursor % 256]) * 32, Weighed(common, b"\x80")) for cursor in range(1, 2_001)]
    arrivals += [
        Arrival(cursor, bytes([7]) * 32, Weighed(rare + common, b"\xff\x80")) for cursor in range(2_001, 2_012)
    ]
    collected._write(Delta(added=arrivals))
    scanned: list[bytes] = []
    real = maxscore._add

    def recorded(sums, terms, dead):
        scanned.extend(term.token for term in terms)
        real(sums, terms, dead)

    monkeypatch.setattr(maxscore, "_add", recorded)
    assert {cursor for cursor, _ in collected.search([rare, common], 10)} <= set(range(2_001, 2_012))
    assert scanned == [rare]
    assert len(collected.search([rare, common], 20)) == 20  # more than the rare list has: the common one counts
    assert scanned == [rare, rare, common]


def test_a_document_that_only_a_long_list_has_can_still_tie(index, monkeypatch):
    monkeypatch.setattr(limits, "LEXICAL_JOIN_POSTINGS", 1)
    collected = Collected(index, 9, documents=0)
    held = {cursor: TOKENS[0] if cursor < 40 else TOKENS[1] for cursor in range(1, 79)}  # two lists of one length
    collected.documents = {cursor: (bytes([255 - cursor]) * 32, {token: 255}) for cursor, token in held.items()}
    arrivals = [Arrival(cursor, bytes([255 - cursor]) * 32, Weighed(token, b"\xff")) for cursor, token in held.items()]
    collected._write(Delta(added=arrivals))
    for limit in (1, 10, 39):
        assert collected.search(TOKENS[:2], limit) == collected.scan(TOKENS[:2], limit)


def test_sums_over_32_bits_are_exact(index):
    collected = Collected(index, 7, documents=0)
    arrivals = [Arrival(cursor, bytes([cursor]) * 32, Weighed(TOKENS[cursor], b"\xff")) for cursor in range(1, 50)]
    collected._write(Delta(added=arrivals))
    tokens = TOKENS[1:3] * 20_000 + TOKENS[3:4]
    (_, most), (_, second), (_, third) = collected.search(tokens, 3)
    assert most == second == 20_000 * third
    assert most > 2**32


def test_a_query_of_nothing_finds_nothing(index):
    collected = Collected(index, 8)
    assert collected.search([], 10) == []
    assert collected.search([bytes(16), b"\xff" * 16], 10) == [(c, s) for c, s in collected.scan([bytes(16)], 10)]
