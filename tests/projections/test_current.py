"""The projection ``current``: states, eligibility to the millisecond, and what forgetting leaves."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from journal.errors import JournalCorrupt
from journal.events import EventType
from journal.lifecycle import Operation, State
from projections.columns import CHUNK_ROWS
from projections.current import Current
from projections.current_reader import SUBJECTS
from projections.environment import Unusable
from projections.rows import cursor_key
from projections.tail import Tail
from tests.projections.folded import OTHER, Folded, readable
from tests.projections.histories import (
    NOON,
    PURPOSE,
    SCOPE,
    MemoryJournal,
    candidate,
    payload_of,
    record,
)


@pytest.fixture
def folded(author, tmp_path):
    return Folded(tmp_path, author.journal)


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
        assert reader.record_ids([1]) == [record(1)]


@pytest.mark.parametrize("harm", ["another id", "no row"])
def test_a_row_whose_ids_do_not_lead_back_to_it_is_not_served(author, folded, harm):
    author.accepted(1)
    folded.fold()
    key, table = cursor_key(1), folded.tables[SUBJECTS]
    with folded.env.begin(write=True) as txn:
        raw = bytes(txn.get(key, db=table))
        assert record(1).encode() in raw
        if harm == "another id":
            txn.put(key, raw.replace(record(1).encode(), record(2).encode()), db=table)
        else:
            txn.delete(key, db=table)
    with folded.reader() as reader, pytest.raises(Unusable):
        reader.record_ids([1])


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
