"""The projection ``current``: states, eligibility to the millisecond, and when the searchable set moves."""

from __future__ import annotations

import random
from contextlib import contextmanager

import lmdb
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.clock import parse_instant
from journal.errors import JournalCorrupt
from journal.events import EventType
from journal.lifecycle import Operation, State
from projections.columns import CHUNK_ROWS
from projections.current import Current
from projections.tail import Tail
from tests.projections.histories import (
    NOON, PURPOSE, SCOPE, Author, MemoryJournal, candidate, payload_of, record, scribble,
)  # fmt: skip

OTHER = "purpose:other"


class Folded:
    """``current`` in an environment of its own, folded from a journal in batches of our choice."""

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


@pytest.fixture
def author():
    return Author()


@pytest.fixture
def folded(author, tmp_path):
    return Folded(tmp_path, author.journal)


def readable(folded, number, now, purposes=(PURPOSE,)):
    """Ask in both ways, which must agree."""
    with folded.reader() as reader:
        row = reader.lookup(record(number))
        one = row is not None and reader.is_readable(row, now, purposes)
        cursors = np.array([row.cursor if row is not None else 0], np.uint64)
        assert bool(reader.eligible(cursors, now, purposes)[0]) == one
        return one


# --- eligibility ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("now", "expected"),
    [(NOON - 1, False), (NOON, True), (NOON + 999, True), (NOON + 1000, True), (NOON + 1001, False)],
)
def test_validity_is_closed_at_both_ends(author, folded, now, expected):
    author.accepted(1, payload_of(t=NOON, t_end=NOON + 1000), at=NOON - 5000)
    assert readable(folded.fold(), 1, now) is expected


@pytest.mark.parametrize(("now", "expected"), [(NOON + 999, True), (NOON + 1000, False), (NOON + 1001, False)])
def test_exactly_at_expiry_is_expired(author, folded, now, expected):
    author.accepted(1, payload_of(t=NOON, expires_at=NOON + 1000))
    assert readable(folded.fold(), 1, now) is expected


@pytest.mark.parametrize(("now", "expected"), [(NOON - 1, False), (NOON, True), (NOON + 1, False)])
def test_an_instant_is_valid_for_one_millisecond(author, folded, now, expected):
    author.accepted(1, payload_of(t=NOON, t_end=NOON))
    assert readable(folded.fold(), 1, now) is expected


def test_without_an_end_a_record_stays_valid(author, folded):
    author.accepted(1, payload_of(t=-(2**53) + 1))
    folded.fold()
    assert readable(folded, 1, -(2**53) + 1)
    assert not readable(folded, 1, -(2**53))
    assert readable(folded, 1, 2**53 - 1)


def test_a_record_is_readable_under_its_own_purpose_and_those_asked_for(author, folded):
    author.accepted(1, payload_of(purpose=OTHER))
    folded.fold()
    assert not readable(folded, 1, NOON)
    assert readable(folded, 1, NOON, (OTHER,))
    assert readable(folded, 1, NOON, (PURPOSE, OTHER))
    assert not readable(folded, 1, NOON, ())


_PATHS = {
    State.PENDING: (),
    State.REJECTED: (Operation.REJECT,),
    State.WITHDRAWN: (Operation.WITHDRAW,),
    State.ACCEPTED_CURRENT: (Operation.ACCEPT,),
    State.ACCEPTED_DISPUTED: (Operation.ACCEPT, Operation.DISPUTE),
    State.HISTORICAL: (Operation.ACCEPT, Operation.MARK_NON_CURRENT),
    State.EXPIRED: (Operation.ACCEPT, Operation.EXPIRE),
    State.TRUST_INVALID: (Operation.ACCEPT, Operation.TRUST_INVALIDATE),
    State.TOMBSTONED: (Operation.ACCEPT, Operation.TOMBSTONE),
}


@pytest.mark.parametrize("state", _PATHS)
def test_only_accepted_current_is_readable(author, folded, state):
    cursor = author.capture(1)
    for operation in _PATHS[state]:
        author.move(1, operation)
    folded.fold()
    with folded.reader() as reader:
        row = reader.lookup(candidate(1))
        assert (row.cursor, row.state, row.candidate_id) == (cursor, state, candidate(1))
        assert reader.is_readable(row, NOON, (PURPOSE,)) is (state is State.ACCEPTED_CURRENT)
        assert reader.eligible(np.array([cursor]), NOON, (PURPOSE,)).tolist() == [state is State.ACCEPTED_CURRENT]
        assert reader.accepted_current == (state is State.ACCEPTED_CURRENT)
        assert [found.cursor for found in reader.rows([state])] == [cursor]
        has_record = Operation.ACCEPT in _PATHS[state]
        assert (reader.lookup(record(1)) is not None) is has_record
        assert (row.record_id == record(1)) is has_record


def test_rewinding_brings_the_record_back_and_makes_its_successor_historical(author, folded):
    author.accepted(1)
    author.accepted(2)
    author.move(1, Operation.SUPERSEDE, related=2)
    folded.fold()
    assert (readable(folded, 1, NOON), readable(folded, 2, NOON)) == (False, True)
    author.move(1, Operation.REWIND, related=2)
    folded.fold()
    assert (readable(folded, 1, NOON), readable(folded, 2, NOON)) == (True, False)
    with folded.reader() as reader:
        assert reader.accepted_current == 1
        assert reader.lookup(record(2)).state is State.HISTORICAL
        assert reader.lookup(record(2)).changed == folded.cursor


def test_what_is_unknown_is_nothing(author, folded):
    author.accepted(1)
    folded.fold()
    with folded.reader() as reader:
        assert reader.lookup("mem_" + "a" * 52) is None
        assert reader.lookup("") is None
        assert reader.at(2) is None  # the cursor of the acceptance, not of a capture
        assert reader.at(99) is None
        assert reader.record_ids([1, 2]) == [record(1), ""]


def test_rows_come_in_order_and_after_a_cursor(author, folded):
    cursors = [author.capture(number) for number in range(CHUNK_ROWS + 20)]
    author.move(3, Operation.REJECT)
    folded.fold()
    with folded.reader() as reader:
        assert [row.cursor for row in reader.rows([State.PENDING])] == cursors[:3] + cursors[4:]
        assert [row.cursor for row in reader.rows([State.PENDING], after=CHUNK_ROWS)] == cursors[CHUNK_ROWS:]
        assert [row.cursor for row in reader.rows([State.PENDING, State.REJECTED], after=2)] == cursors[2:]


# --- forgetting ----------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [(Operation.ACCEPT, Operation.TOMBSTONE), (Operation.REJECT,), (Operation.WITHDRAW,)])
def test_a_terminal_state_leaves_nothing_of_the_payload(author, folded, end):
    t, t_end, expires_at = NOON + 0x123456, NOON + 0x234567, NOON + 0x345678
    author.capture(1, payload_of(t=t, t_end=t_end, expires_at=expires_at))
    author.move(1, end[0])
    folded.fold()
    with folded.reader() as reader:
        purpose = reader.lookup(candidate(1)).purpose
    for operation in end[1:]:
        author.move(1, operation)
    folded.fold()
    held = [instant.to_bytes(8, "little") for instant in (t, t_end, expires_at)]
    held += [(instant + 2**63).to_bytes(8, "big") for instant in (t, t_end + 1, expires_at)]
    held += [purpose.to_bytes(8, "little")] if purpose else []
    with folded.env.begin() as txn:
        rows = [
            bytes(key + value) for table in folded.tables.values() for key, value in txn.cursor(db=table).iternext()
        ]
    assert rows
    assert not [row for row in rows for word in held if word in row]


def test_a_purpose_is_nowhere_in_clear(author, folded):
    author.accepted(1)
    folded.fold()
    with folded.env.begin() as txn:
        rows = [key + value for table in folded.tables.values() for key, value in txn.cursor(db=table).iternext()]
    assert not [row for row in rows if PURPOSE.encode() in row]
    other = Current(b"another key".ljust(32))
    with folded.env.begin() as txn:
        assert not other.reader(txn, folded.tables, folded.cursor).eligible(np.array([1]), NOON, (PURPOSE,))[0]


def test_folding_after_a_forgetting_gives_the_digest_of_folding_before(author, tmp_path):
    author.accepted(1)
    author.accepted(2)
    lived = Folded(tmp_path / "lived", author.journal).fold()
    author.move(1, Operation.TOMBSTONE)
    lived.fold()
    fresh = Folded(tmp_path / "fresh", author.journal).fold()
    assert fresh.digest() == lived.digest()
    assert not readable(fresh, 1, NOON)


def test_the_past_names_what_was_erased_since(author, folded):
    author.accepted(1)
    cursor = author.accepted(2)
    upto = author.journal.store.head(SCOPE).cursor
    author.move(2, Operation.TOMBSTONE)
    folded.fold(upto=upto)
    with folded.reader() as reader:
        assert [(row.cursor, row.record_id, row.state) for row in reader.erased()] == [
            (cursor, record(2), State.ACCEPTED_CURRENT)
        ]
        assert reader.accepted_current == 2
    assert not readable(folded, 2, NOON)
    folded.fold()
    with folded.reader() as reader:
        assert reader.erased() == []


# --- the set version and the clock ----------------------------------------------------------------


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
        current, previous, at = set(), None, 0
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


# --- batches, masks, caches -----------------------------------------------------------------------


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
    monkeypatch.setattr("projections.current._RECENT_MAX", 3)
    for number in range(1, 4):
        author.accepted(number)
    with folded.fold(batch=1).reader() as reader:
        assert reader.mask(NOON, (PURPOSE,))[[1, 3, 5]].all()
    author.move(1, Operation.DISPUTE)
    for number in range(4, 9):
        author.accepted(number)
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


# --- what must not be -----------------------------------------------------------------------------


def forged(author, **changes):
    """The journal's last event, changed; the fold does not look at hashes."""
    events = Tail(author.journal, SCOPE).page(0).events
    last = events[-1]
    return [*events[:-1], type(last)(msgspec.structs.replace(last.header, **changes), last.payload)]


@pytest.mark.parametrize(
    "changes",
    [
        {"from_state": State.ACCEPTED_DISPUTED}, {"to_state": State.HISTORICAL}, {"subject": candidate(9)},
        {"record_id": None}, {"type": EventType.CAPTURE, "from_state": 0, "to_state": 1}, {"subject": None},
        {"type": EventType.TOMBSTONE, "to_state": State.TOMBSTONED},
    ],
    ids=["from", "to", "unknown subject", "no record", "captured twice", "no subject", "illegal"],
)  # fmt: skip
def test_what_the_lifecycle_forbids_is_a_corrupt_journal(author, folded, changes):
    author.accepted(1)
    events = forged(author, **changes)
    with folded.env.begin(write=True) as txn:
        with pytest.raises(JournalCorrupt):
            folded.projection.fold(txn, folded.tables, events)
        txn.abort()


def test_payloads_are_opened_at_acceptance_alone(author, folded):
    author.capture(1)
    author.accepted(2)
    author.move(2, Operation.DISPUTE)
    author.move(2, Operation.RESOLVE_DISPUTE)
    folded.fold()
    assert author.journal.opened == [candidate(2)]


def test_a_journal_in_memory_is_read_like_any_other():
    assert MemoryJournal().store.head(SCOPE).cursor == 0
