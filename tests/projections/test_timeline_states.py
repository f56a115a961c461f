"""The timeline in any batches, in memory and on disk, before and after an erasing, and over kept columns."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.profile import Profile
from projections.tags import Tags
from projections.timeline import Filter, Timeline
from projections.timeline_reader import LAYOUT
from tests.projections.conversations import ALICE, ALICE_TOO, BOB, KEY, Talk, Told, only, scribble

_MAKERS = [Timeline, Tags, Profile]
_EVERYBODY = only(ALICE, BOB, ALICE_TOO)


def sight(reader):
    """Much of what a reader can tell."""
    chosen = [
        Filter(owners=owners, role=role, platform=platform, archived=archived, tags=tags)
        for owners in (only(ALICE), _EVERYBODY)
        for role in (None, "user")
        for platform in (None, "codex")
        for archived in (False, True)
        for tags in (None, only("a", "b"))
    ]
    loads = [
        reader.short_term(
            _EVERYBODY, platform="codex", model="ma", tags=only("a"), place="b", since=0, token_limit=limit
        )
        for limit in (5, 1_000)
    ]
    usage = [reader.tag_usage(one, "abcdef") for one in chosen]
    return [reader.newest(one, 7) for one in chosen], loads, usage, reader.lost, [reader.at(n) for n in range(90)]


@pytest.mark.parametrize("make", _MAKERS)
@given(seed=st.integers(0, 2**32), events=st.integers(1, 80), batch=st.integers(1, 90), upto=st.integers(0, 80))
def test_any_batches_and_places_give_equal_digests(tmp_path_factory, make, seed, events, batch, upto):
    talk = Talk()
    scribble(talk, random.Random(seed), events)
    one = Told(tmp_path_factory.mktemp("one"), talk, make(KEY)).fold()
    many = Told(tmp_path_factory.mktemp("many"), talk, make(KEY)).fold(batch=batch)
    part = Told(tmp_path_factory.mktemp("part"), talk, make(KEY)).fold(upto=min(upto, events))
    assert one.digest() == many.digest()
    with part.in_memory() as (state, _):
        assert part.projection.content_digest(state, part.tables) == one.digest()


@pytest.mark.parametrize("make", _MAKERS)
@given(seed=st.integers(0, 2**32))
def test_what_was_erased_since_leaves_no_trace_of_having_been_read(tmp_path_factory, make, seed):
    talk, rng = Talk(), random.Random(seed)
    lived = Told(tmp_path_factory.mktemp("lived"), talk, make(KEY))
    for _ in range(6):
        scribble(talk, rng, 12)
        lived.fold(batch=5)
    fresh = Told(tmp_path_factory.mktemp("fresh"), talk, make(KEY)).fold()
    assert fresh.digest() == lived.digest()
    if make is Timeline:
        with fresh.reader() as left, lived.reader() as right:
            assert sight(left) == sight(right)


@given(seed=st.integers(0, 2**32), data=st.data())
def test_kept_columns_answer_as_fresh_ones(tmp_path_factory, seed, data):
    talk, rng = Talk(), random.Random(seed)
    told = Told(tmp_path_factory.mktemp("timeline"), talk, Timeline(KEY))
    for _ in range(4):
        scribble(talk, rng, data.draw(st.integers(1, 40)))
        told.fold(batch=7)
        with told.reader() as reader, told.env.begin(buffers=True) as txn:
            fresh = Timeline(KEY).reader(txn, told.tables, told.cursor)
            assert sight(reader) == sight(fresh)


def test_an_older_snapshot_keeps_its_own_sight(tmp_path):
    talk = Talk()
    told = Told(tmp_path, talk, Timeline(KEY))
    first = talk.say()
    mine = Filter(owners=only(ALICE))
    with told.fold().reader() as older:
        held = older.mask(mine)
        talk.archive(first)
        second = talk.say()
        with told.fold().reader() as newer:
            assert newer.newest(mine, 9) == [second]
        assert held[first]
        assert older.newest(mine, 9) == [first]


def test_columns_that_lag_behind_the_list_of_changes_are_loaded_anew(tmp_path, monkeypatch):
    monkeypatch.setattr("projections.rows.RECENT_MAX", 3)
    talk = Talk()
    told = Told(tmp_path, talk, Timeline(KEY))
    cursors = [talk.say() for _ in range(3)]
    mine = Filter(owners=only(ALICE))
    with told.fold(batch=1).reader() as reader:
        assert reader.count(mine) == 3
    talk.archive(cursors[0])
    rest = [talk.say() for _ in range(LAYOUT.chunk_rows)]  # so that the newest changes lie in another chunk
    with told.fold(batch=1).reader() as reader:
        assert reader.newest(mine, 999) == (cursors[1:] + rest)[::-1]
    with told.env.begin() as txn:
        assert txn.stat(told.tables[b"recent"])["entries"] == 3


def test_a_batch_about_no_message_is_a_state_like_any_other(tmp_path):
    talk = Talk()
    told = Told(tmp_path, talk, Timeline(KEY))
    with told.fold().reader() as reader:
        assert reader.newest(Filter(owners=only(ALICE)), 9) == []
        assert reader.mask(Filter(owners=only(ALICE))).sum() == 0
    talk.idle()
    cursor = talk.say()
    talk.idle()
    with told.fold(batch=1).reader() as reader:
        assert reader.newest(Filter(owners=only(ALICE)), 9) == [cursor]
