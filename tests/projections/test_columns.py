"""The columns in memory and on disk: any batches, kept masks, older snapshots."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.lifecycle import Operation, State
from projections.columns import CHUNK_ROWS
from projections.current import Current
from tests.projections.folded import OTHER, Folded
from tests.projections.histories import (
    NOON,
    PURPOSE,
    SCOPE,
    Author,
    record,
    scribble,
)


@pytest.fixture
def folded(author, tmp_path):
    return Folded(tmp_path, author.journal)


@given(seed=st.integers(0, 2**32), events=st.integers(1, 80), batch=st.integers(1, 90))
def test_any_batches_give_equal_digests_and_totals(tmp_path_factory, seed, events, batch):
    author = Author()
    scribble(author, random.Random(seed), events)
    one = Folded(tmp_path_factory.mktemp("one"), author.journal).fold()
    many = Folded(tmp_path_factory.mktemp("many"), author.journal).fold(batch=batch)
    assert one.digest() == many.digest()
    with one.reader() as left, many.reader() as right:
        assert (left.set_version, left.accepted_current) == (right.set_version, right.accepted_current)


@given(seed=st.integers(0, 2**32), data=st.data())
def test_masks_kept_over_events_and_time_are_those_of_a_fresh_reader(tmp_path_factory, seed, data):
    author = Author()
    folded = Folded(tmp_path_factory.mktemp("current"), author.journal)
    rng = random.Random(seed)
    for _ in range(4):
        scribble(author, rng, data.draw(st.integers(1, 40)))
        folded.fold(batch=7)
        for _ in range(3):
            now = author.now + data.draw(st.integers(-300, 500))
            purposes = data.draw(st.sampled_from([(PURPOSE,), (OTHER,), (PURPOSE, OTHER)]))
            with folded.reader() as reader, folded.env.begin(buffers=True) as txn:
                fresh = Current(folded.journal.projection_key(SCOPE, "current", 1))
                other = fresh.reader(txn, folded.tables, folded.cursor)
                captures = [row.cursor for row in reader.rows(list(State))]
                rows = [reader.at(cursor) for cursor in captures]
                kept = reader.mask(now, purposes)[captures].tolist()
                assert kept == other.mask(now, purposes)[captures].tolist()
                assert kept == [reader.is_readable(row, now, purposes) for row in rows]


def test_an_older_snapshot_keeps_its_own_mask(author, folded):
    author.accepted(1)
    folded.fold()
    with folded.reader() as older:
        held = older.mask(NOON, (PURPOSE,))
        assert held[1]
        author.move(1, Operation.DISPUTE)
        author.accepted(2)
        folded.fold()
        with folded.reader() as newer:
            assert newer.mask(NOON, (PURPOSE,))[[1, 4]].tolist() == [False, True]
        assert held[1]
        assert older.mask(NOON, (PURPOSE,))[1]
        assert not held.flags.writeable


def test_columns_that_lag_behind_the_list_of_changes_are_loaded_anew(author, folded, monkeypatch):
    monkeypatch.setattr("projections.rows.RECENT_MAX", 3)
    for number in range(1, 4):
        author.accepted(number)
    with folded.fold(batch=1).reader() as reader:
        assert reader.mask(NOON, (PURPOSE,))[[1, 3, 5]].all()
    author.move(1, Operation.DISPUTE)
    for number in range(4, 4 + CHUNK_ROWS):  # so that the newest changes lie in another chunk
        author.capture(number)
    with folded.fold(batch=1).reader() as reader:
        assert reader.mask(NOON, (PURPOSE,))[[1, 3, 5]].tolist() == [False, True, True]
    with folded.env.begin() as txn:
        assert txn.stat(folded.tables[b"recent"])["entries"] == 3


def test_a_large_scope_spans_chunks(author, folded):
    cursors = [author.accepted(number) for number in range(CHUNK_ROWS)]
    with folded.fold(batch=100).reader() as reader:
        assert reader.eligible(np.array(cursors), NOON, (PURPOSE,)).all()
        assert reader.mask(NOON, (PURPOSE,)).sum() == len(cursors)
        assert reader.record_ids(cursors[-2:]) == [record(CHUNK_ROWS - 2), record(CHUNK_ROWS - 1)]
