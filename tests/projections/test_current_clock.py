"""When the searchable set moves: by events, and by the clock alone."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.clock import parse_instant
from journal.events import EventType
from journal.lifecycle import Operation, State
from tests.projections.folded import Folded
from tests.projections.histories import (
    NOON,
    SCOPE,
    Author,
    payload_of,
    scribble,
)


@pytest.fixture
def folded(author, tmp_path):
    return Folded(tmp_path, author.journal)


def version(folded):
    with folded.fold().reader() as reader:
        return reader.set_version


def test_the_set_version_moves_with_the_readable_set_and_with_nothing_else(author, folded):
    author.capture(1)
    assert version(folded) == 0
    author.control()
    assert version(folded) == 0
    moved = author.move(1, Operation.ACCEPT)
    assert version(folded) == moved
    author.capture(2)
    author.move(2, Operation.REJECT)
    assert version(folded) == moved
    for operation, moves in [
        (Operation.DISPUTE, True), (Operation.RESOLVE_DISPUTE, True), (Operation.DISPUTE, True),
        (Operation.MARK_NON_CURRENT, False), (Operation.TOMBSTONE, False),
    ]:  # fmt: skip
        cursor = author.move(1, operation)
        moved = cursor if moves else moved
        assert version(folded) == moved, operation


@pytest.mark.parametrize("operation", [Operation.EXPIRE, Operation.TOMBSTONE, Operation.DISPUTE])
@pytest.mark.parametrize(("late", "moves"), [(999, True), (1000, False), (1001, False)])
def test_an_event_about_a_record_that_the_clock_had_excluded_moves_nothing(author, folded, operation, late, moves):
    author.accepted(1, payload_of(expires_at=NOON + 1000))
    before = version(folded)
    cursor = author.move(1, operation, at=NOON + late)
    assert version(folded) == (cursor if moves else before)


@pytest.mark.parametrize(("early", "moves"), [(-1, False), (0, True)])
def test_accepting_what_is_not_valid_yet_moves_nothing(author, folded, early, moves):
    author.capture(1, payload_of(t=NOON), at=NOON - 10)
    cursor = author.move(1, Operation.ACCEPT, at=NOON + early)
    assert version(folded) == (cursor if moves else 0)


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        (NOON - 2, NOON - 1, False), (NOON - 1, NOON, True), (NOON, NOON + 1, False), (NOON, NOON + 1000, False),
        (NOON + 1000, NOON + 1001, True), (NOON + 1001, NOON + 9999, False), (NOON - 1, NOON + 9999, True),
        (NOON, NOON, False), (NOON + 1001, NOON + 1000, True),
    ],
)  # fmt: skip
def test_the_clock_changes_the_set_at_a_boundary(author, folded, since, until, expected):
    author.accepted(1, payload_of(t=NOON, t_end=NOON + 1000, expires_at=NOON + 5000), at=NOON - 100)
    with folded.fold().reader() as reader:
        assert reader.clock_changes(since, until) is expected


def test_boundaries_that_cannot_move_the_set_are_none(author, folded):
    author.accepted(1, payload_of(t=NOON - 500, t_end=NOON - 400), at=NOON)  # over before it was accepted
    author.accepted(2, payload_of(t=NOON + 500, expires_at=NOON + 400))  # expires before it begins
    author.accepted(3, payload_of(t=NOON + 700))
    author.move(3, Operation.MARK_NON_CURRENT)  # gone before it began
    with folded.fold().reader() as reader:
        assert not reader.clock_changes(NOON - 1000, NOON + 1000)


def test_a_boundary_that_took_a_record_out_is_remembered_when_the_record_expires(author, folded):
    author.accepted(1, payload_of(expires_at=NOON + 1000))
    author.move(1, Operation.EXPIRE, at=NOON + 2000)
    with folded.fold().reader() as reader:
        assert reader.clock_changes(NOON + 999, NOON + 3000)  # a first page then had the record
        assert not reader.clock_changes(NOON + 1000, NOON + 3000)


@given(seed=st.integers(0, 2**32), events=st.integers(1, 60), data=st.data())
def test_the_set_has_changed_exactly_when_it_has(tmp_path_factory, seed, events, data):
    """An oracle walks the whole time between two reads, millisecond by millisecond and event by event."""
    author, rng = Author(), random.Random(seed)
    author.now = NOON
    lived = Folded(tmp_path_factory.mktemp("lived"), author.journal)
    while author.journal.store.head(SCOPE).cursor < events:
        scribble(author, rng, 1)
        lived.fold()
    head = author.journal.store.head(SCOPE).cursor
    times = [event.header.recorded_at for event in author.journal.store.events]
    first = data.draw(st.integers(1, head))
    begin = data.draw(st.integers(times[first - 1], times[first] if first < head else times[-1] + 30))
    end = max(begin, times[-1]) + data.draw(st.integers(0, 200))
    changed = Oracle(author.journal).changed(first, begin, end)
    with lived.reader() as reader:
        assert reader.set_changed(first, begin, end) is changed
    with Folded(tmp_path_factory.mktemp("rebuilt"), author.journal).fold().reader() as reader:
        assert reader.set_changed(first, begin, end) or not changed  # it cannot tell all, but never misses a change


class Oracle:
    """The readable set at every moment, folded by hand. An event counts at its recorded_at."""

    def __init__(self, journal):
        self.headers = [event.header for event in journal.store.events]
        self.spans = {}
        for subject, payload in journal.payloads.items():
            expires_at = payload["retention"].get("expires_at")
            stop = payload["valid_time"].get("t_end", 2**62) + 1
            stop = stop if expires_at is None else min(stop, parse_instant(expires_at))
            self.spans[subject] = (payload["valid_time"]["t"], stop)

    def changed(self, first, begin, end):
        current: set[str] = set()
        previous, at = None, 0
        for moment in range(begin, end + 1):
            while True:
                if at >= first:
                    now = {subject for subject in current if self.spans[subject][0] <= moment < self.spans[subject][1]}
                    if previous is not None and now != previous:
                        return True
                    previous = now
                if at == len(self.headers) or (at >= first and self.headers[at].recorded_at > moment):
                    break
                header = self.headers[at]
                if header.type < 32:
                    current.discard(header.subject)
                    if header.to_state == State.ACCEPTED_CURRENT:
                        current.add(header.subject)
                    if header.type == EventType.REWIND:
                        current.discard(header.related)
                at += 1
        return False
