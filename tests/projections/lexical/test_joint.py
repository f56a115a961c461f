"""The joint segment holds what the segments do, in every state, and goes with what it was made of."""

from __future__ import annotations

import numpy as np
import pytest

from journal import limits
from projections.lexical import joint
from projections.lexical.collection import Collection
from projections.lexical.delta import Arrival, Delta
from projections.lexical.documents import Weighed
from projections.lexical.joint import JointSegment
from projections.lexical.postings import token_rows
from projections.lexical.tables import IndexTables, SegmentRow, WritableIndexTables
from projections.lexical.writing import merge_once, write_delta
from projections.overlay import Changes, Overlay
from projections.port import OpenTables
from tests.projections.lexical.indexes import Index

TOKENS = [number.to_bytes(8, "big") * 2 for number in range(40)]
TWIN = TOKENS[3][:8] + b"\xff" * 8  # shares its high half with another
FORGOTTEN = b"\x09" * 16


class Searched:
    """An index that is written and searched in this process, as an open generation is."""

    def __init__(self, path):
        self.index = Index(path)
        self.plain = dict(self.index.databases)
        self.databases = OpenTables(self.plain, {})
        self.random = np.random.default_rng(7)
        self.cursor = 0

    def delta(self, size, tokens=TOKENS):
        arrivals = []
        for _ in range(size):
            self.cursor += 1
            held = sorted(self.random.permutation(len(tokens))[: self.random.integers(1, 9)].tolist())
            weighed = Weighed(b"".join(tokens[at] for at in held), self.random.bytes(len(held)).replace(b"\0", b"\1"))
            arrivals.append(Arrival(self.cursor, self.random.bytes(32), weighed))
        return Delta(added=arrivals)

    def add(self, size, tokens=TOKENS):
        with self.index.env.begin(write=True) as txn:
            write_delta(WritableIndexTables(txn, self.databases), self.delta(size, tokens))

    def remove(self, cursors):
        with self.index.env.begin(write=True) as txn:
            tables = WritableIndexTables(txn, self.databases)
            found = [(cursor, tables.ordinal(cursor)) for cursor in cursors]
            write_delta(tables, Delta(removed=[(cursor, at) for cursor, at in found if at is not None]))

    def merge(self):
        with self.index.env.begin(write=True) as txn:
            return merge_once(WritableIndexTables(txn, self.databases), inline=False)

    def reading(self):
        return self.index.env.begin(buffers=True)

    def agrees(self, txn, tokens=TOKENS):
        """Whether the lists are those that a reader finds who keeps nothing; return how many segments are joint."""
        collection = Collection(IndexTables(txn, self.databases))
        assert told(collection, tokens) == told(Collection(IndexTables(txn, self.plain)), tokens)
        return sum(len(part.numbers) for part in collection._parts if isinstance(part, JointSegment))

    def close(self):
        self.index.close()


def told(collection, tokens):
    return [
        (term.token, term.count, term.greatest, b"".join(term.ids), b"".join(term.impacts), containing)
        for term, containing in collection.held(tokens)
    ]


def rows(*numbers):
    return [SegmentRow(number, 0, 0, 0, 0) for number in numbers]


def tokens_of(dictionary):
    return {bytes(token) for token in token_rows(dictionary.high, dictionary.low)}


@pytest.fixture
def searched(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "LEXICAL_JOINT_SEARCHES", 1)
    monkeypatch.setattr(limits, "LEXICAL_LEVEL_POSTINGS", 16)
    monkeypatch.setattr(limits, "LEXICAL_LOWEST_MERGE", 100)
    monkeypatch.setattr(limits, "LEXICAL_INLINE_POSTINGS", 1)  # no merge but by ``merge``
    monkeypatch.setattr(limits, "LEXICAL_CHUNK_POSTINGS", 30)
    monkeypatch.setattr(limits, "LEXICAL_PIECE_POSTINGS", 20)
    searched = Searched(tmp_path)
    yield searched
    searched.close()


def settled(searched, tokens=TOKENS):
    """Search until nothing more is joined; return how many segments are."""
    before = -1
    for _ in range(50):
        with searched.reading() as txn:
            now = searched.agrees(txn, tokens)
        if now == before and now:
            return now
        before = now
    return before


def test_a_segment_a_search_is_joined_and_the_lists_stay_what_they_are(searched):
    joint = []
    for _ in range(5):
        searched.add(20)
    for _ in range(8):
        with searched.reading() as txn:
            joint.append(searched.agrees(txn))
    assert joint == [0, 1, 2, 3, 4, 5, 5, 5]


def test_lists_stay_what_they_are_through_additions_removals_and_merges(searched):
    seen = set()
    for step in range(60):
        searched.add(int(searched.random.integers(1, 30)))
        if step % 3 == 0:
            searched.remove(searched.random.integers(1, searched.cursor, 10).tolist())
        if step % 7 == 0:
            while searched.merge():
                pass
        for _ in range(3):
            with searched.reading() as txn:
                seen.add(searched.agrees(txn))
    assert max(seen) > 2


def test_who_searches_but_a_few_times_joins_nothing(searched, monkeypatch):
    monkeypatch.setattr(limits, "LEXICAL_JOINT_SEARCHES", 3)
    searched.add(20)
    for _ in range(3):
        with searched.reading() as txn:
            assert searched.agrees(txn) == 0
    with searched.reading() as txn:
        assert searched.agrees(txn) == 1


def test_a_segment_that_is_small_beside_the_others_waits_until_it_has_cost_as_much(searched, monkeypatch):
    monkeypatch.setattr(joint, "_POSTINGS_A_SEARCH", 50)
    searched.add(200)
    assert settled(searched) == 1
    with searched.reading() as txn:
        postings = IndexTables(txn, searched.databases).segments()[0].postings
    searched.add(10)
    numbers = []
    for _ in range(postings // 50 + 3):
        with searched.reading() as txn:
            numbers.append(searched.agrees(txn))
    assert numbers == [1] * (postings // 50) + [2] * 3


def test_a_reader_of_an_older_state_is_not_served_from_a_newer_one(searched):
    for _ in range(4):
        searched.add(20)
    with searched.reading() as old:
        assert settled(searched) == 4
        assert searched.agrees(old) == 4
        assert searched.merge()
        newer = 0
        for _ in range(5):
            with searched.reading() as txn:
                newer = searched.agrees(txn)
        assert newer
        assert searched.agrees(old) == 0
        with searched.reading() as txn:
            assert searched.agrees(txn) == newer  # and the older one took nothing away


def test_a_segment_folded_in_memory_is_not_taken_for_the_one_persisted_under_its_number(searched):
    for _ in range(3):
        searched.add(20)
    with searched.reading() as txn:
        overlay = Overlay(txn, searched.databases, Changes(object(), 0, bytes(32)))
        write_delta(WritableIndexTables(overlay, searched.databases), searched.delta(40))
        assert searched.agrees(overlay) == 0
        searched.add(35)  # under the number that the tail has in memory
        assert settled(searched) == 4
        assert searched.agrees(overlay) == 0  # four segments of the same numbers, one of which is another


def test_a_tail_in_memory_reads_what_is_joint_below_it(searched):
    for _ in range(3):
        searched.add(20)
    assert settled(searched) == 3
    with searched.reading() as txn:
        overlay = Overlay(txn, searched.databases, Changes(object(), 0, bytes(32)))
        write_delta(WritableIndexTables(overlay, searched.databases), searched.delta(40))
        assert searched.agrees(overlay) == 3


def test_tokens_that_share_their_high_half_are_looked_up_in_their_segments(searched):
    searched.add(40)
    searched.add(40, [*TOKENS[:10], TWIN])
    searched.add(40)
    assert settled(searched, [*TOKENS, TWIN]) == 1
    with searched.reading() as txn:
        assert TWIN in {term.token for term, _ in Collection(IndexTables(txn, searched.databases)).held([TWIN])}


def test_no_more_postings_are_kept_than_the_bound(searched, monkeypatch):
    monkeypatch.setattr(limits, "LEXICAL_JOINT_POSTINGS", 300)
    for _ in range(4):
        searched.add(30)
    assert settled(searched) == 2


def test_what_was_forgotten_is_left_out(searched):
    searched.add(30)
    searched.add(5, [FORGOTTEN])
    searched.add(30)
    assert settled(searched, [*TOKENS, FORGOTTEN]) == 3
    kept = next(iter(searched.databases.kept.values()))
    assert FORGOTTEN in tokens_of(kept.known(rows(0, 1, 2)))
    with searched.index.env.begin(write=True) as txn:
        tables = WritableIndexTables(txn, searched.databases)
        found = [(cursor, tables.ordinal(cursor)) for cursor in range(31, 36)]
        write_delta(tables, Delta(removed=[(cursor, ordinal) for cursor, ordinal in found if ordinal is not None]))
        searched.index.projection.purge(txn, searched.databases)
    assert settled(searched) == 2
    assert kept.known(rows(0, 1, 2)) is None
    left = kept.known(rows(0, 2))
    assert left is not None
    assert FORGOTTEN not in tokens_of(left)


def test_what_is_cut_is_that_of_the_segments_left(searched):
    for _ in range(4):
        searched.add(20)
    with searched.reading() as txn:
        tables = IndexTables(txn, searched.databases)
        states = [JointSegment.of_nothing()]
        for row in tables.segments():
            joined = states[-1].joined(row, tables.segment(row.number))
            assert joined is not None
            states.append(joined)
        for size, state in enumerate(states):
            cut = states[-1].cut(size)
            assert (cut.numbers, cut.firsts) == (state.numbers, state.firsts)
            for name in ("high", "rest", "ids", "impacts"):
                assert np.array_equal(getattr(cut, name), getattr(state, name)), name


def test_segments_without_a_word_are_joined_like_others(searched):
    with searched.index.env.begin(write=True) as txn:
        write_delta(
            WritableIndexTables(txn, searched.databases), Delta(added=[Arrival(90, bytes(32), Weighed(b"", b""))])
        )
    searched.cursor = 90
    searched.add(30)
    assert settled(searched) == 2


def test_threads_that_search_together_wait_for_nobody(searched):
    searched.add(20)
    joining = joint.Joining()
    with joining._mutex, searched.reading() as txn:
        tables = IndexTables(txn, searched.databases)
        assert joining.joint(b"", tables.segments(), 1, tables.segment) is None
