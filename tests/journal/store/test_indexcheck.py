"""The index tables can be derived from the events, at any time and byte for byte."""

from __future__ import annotations

import random
from contextlib import contextmanager

import hypothesis
import hypothesis.strategies as st
import pytest

from journal.errors import JournalCorrupt
from journal.events import EventType
from journal.indexes import Table
from journal.lifecycle import State
from journal.store.lmdb import tables
from journal.store.lmdb.engine import LmdbStore
from journal.store.lmdb.indexcheck import broken_counts, broken_sums, rebuild_indexes
from journal.testing import ManualClock
from tests.journal.store.history import HERE, THERE, History, named


@pytest.fixture
def directory(tmp_path):
    place = tmp_path / "journal"
    place.mkdir()
    return place


@pytest.fixture
def store(directory):
    store = LmdbStore(directory, ManualClock(), durable=False)
    yield store
    store.close()


def located(store, scope):
    """Return what the slot file of a scope would say: every key that an event names, where its draft put it."""
    with store.view(scope) as view:
        last = view.head.cursor
        found = {}
        for event in store.read(scope, 0, last):
            if event.header.key_id is not None and (slot := view.slot(event.header.key_id)) is not None:
                found[event.header.key_id] = slot
    return found


def rows(store):
    """Return every row of every index table, and the commit records."""
    with store.environment.reading() as (txn, databases):
        names = [table.value for table in Table] + [tables.HEADS]
        return {name: dict(tables.walk_prefix(txn, databases[name], b"")) for name in names}


def findings(store):
    with store.environment.reading() as (txn, databases):
        return broken_sums(txn, databases, store.sum_key), broken_counts(txn, databases)


@contextmanager
def writing(store):
    with store.environment.begin(write=True) as txn:
        yield txn, store.environment.databases


def rebuild(store, slots):
    with writing(store) as (txn, databases):
        rebuild_indexes(txn, databases, store.sum_key, slots)


@hypothesis.settings(max_examples=25)
@hypothesis.given(seed=st.integers(0, 2**32), steps=st.integers(1, 80))
def test_whatever_the_history_what_is_rebuilt_is_what_was_written(tmp_path_factory, seed, steps):
    directory = tmp_path_factory.mktemp("any") / "journal"
    directory.mkdir()
    store = LmdbStore(directory, ManualClock(), durable=False)
    source = random.Random(seed)
    for scope in (HERE, THERE):
        History(scope).live_at_random(store, source, steps)
    slots = {scope: located(store, scope) for scope in (HERE, THERE)}
    written = rows(store)
    assert findings(store) == ([], [])
    for scope in (HERE, THERE):
        assert store.check_indexes(scope, slots[scope]) == []
    rebuild(store, slots.__getitem__)
    assert rows(store) == written
    assert findings(store) == ([], [])
    store.close()


@pytest.fixture
def lived(store):
    """A store with rows in every table."""
    history = History(HERE)
    history.live_at_random(store, random.Random(7), 120)
    history.bring(store, State.TOMBSTONED)
    history.bring(store, State.PENDING)
    history.write(store, history.request(named("operation", 1)))
    History(THERE).live_at_random(store, random.Random(8), 30)
    assert all(rows(store)[table.value] for table in Table)
    return store


@pytest.mark.parametrize("table", Table, ids=lambda table: table.name.lower())
@pytest.mark.parametrize("damage", ["removed", "changed", "added"])
def test_a_damaged_row_is_found_and_mended(lived, table, damage):
    slots = {scope: located(lived, scope) for scope in (HERE, THERE)}
    written = rows(lived)
    with writing(lived) as (txn, databases):
        key, value = next(tables.walk_prefix(txn, databases[table.value], HERE.tag))
        database = databases[table.value]
        if damage == "removed":
            assert txn.delete(HERE.tag + key, db=database)
        elif damage == "changed":
            assert txn.put(HERE.tag + key, bytes([value[0] ^ 1]) + value[1:], db=database)
        else:
            assert txn.put(HERE.tag + key[:-1] + bytes([key[-1] ^ 1]), value, db=database, overwrite=False)
    by_sum, by_count = findings(lived)
    assert [finding.table for finding in by_sum] == [table.value.decode()]
    assert [finding.table for finding in by_count] == ([] if damage == "changed" else [table.value.decode()])
    kind = {"removed": "missing", "changed": "wrong", "added": "surplus"}[damage]
    found = lived.check_indexes(HERE, slots[HERE])
    assert [(one.table, one.kind, one.rows) for one in found] == [(table.value.decode(), kind, 1)]
    assert lived.check_indexes(THERE, slots[THERE]) == []
    rebuild(lived, slots.__getitem__)
    assert rows(lived) == written


def test_the_slot_file_says_where_a_key_is(lived):
    slots = located(lived, HERE)
    with writing(lived) as (txn, databases):
        for key, _ in list(tables.walk_prefix(txn, databases[Table.SLOT.value], HERE.tag)):
            txn.put(HERE.tag + key, (999_999).to_bytes(8, "big"), db=databases[Table.SLOT.value])
    (found,) = lived.check_indexes(HERE, slots)
    assert (found.table, found.kind) == ("slot", "wrong")
    rebuild(lived, {HERE: slots, THERE: dict[bytes, int]()}.__getitem__)
    assert located(lived, HERE) == slots


def test_a_key_that_the_slot_file_lost_keeps_its_row(lived):
    """It says where the key was, and so that it is lost, and not that it never was."""
    written = rows(lived)
    rebuild(lived, lambda _: {})
    assert rows(lived) == written
    assert lived.check_indexes(HERE, {}) == []


def test_rows_of_no_scope_are_found_and_taken_away(lived):
    slots = {scope: located(lived, scope) for scope in (HERE, THERE)}
    written = rows(lived)
    with writing(lived) as (txn, databases):
        txn.put(bytes(16) + bytes(32), bytes(8), db=databases[Table.OUTCOME.value])
    assert [finding.table for finding in findings(lived)[0]] == ["outcome"]
    rebuild(lived, slots.__getitem__)
    assert rows(lived) == written


def test_indexes_are_never_built_from_damaged_events(lived):
    written = rows(lived)
    with writing(lived) as (txn, databases):
        key = tables.event_key(HERE.tag, 5)
        frame = bytearray(tables.get(txn, databases[tables.EVENTS], key) or b"")
        frame[-1] ^= 1
        txn.put(key, bytes(frame), db=databases[tables.EVENTS])
    with pytest.raises(JournalCorrupt):
        rebuild(lived, lambda _: {})
    assert rows(lived) == written, "the transaction was aborted whole"


def test_the_sums_depend_on_the_stores_own_key(lived):
    with lived.environment.reading() as (txn, databases):
        assert len(broken_sums(txn, databases, bytes(32))) == len(Table)


def test_the_order_of_rows_and_commits_does_not_matter(directory, tmp_path):
    """Two stores with the same key, one fed one by one and one in one transaction: the same rows, the same sums."""
    other = tmp_path / "other"
    other.mkdir()
    stores = [LmdbStore(place, ManualClock()) for place in (directory, other)]
    for store in stores:
        with writing(store) as (txn, databases):
            txn.put(tables.SUM_KEY, bytes(32), db=databases[tables.STORE])
        store._sum_key = bytes(32)
    drafts = [History().capture(named("event", number)) for number in range(20)]
    for draft in drafts:
        History().write(stores[0], draft)
    History().write(stores[1], *drafts)
    assert rows(stores[0]) == rows(stores[1])
    for store in stores:
        store.close()


def test_an_erasure_of_all_keys_leaves_no_mark(store):
    history = History(HERE)
    for _ in range(3):
        history.bring(store, State.WITHDRAWN)
    history.write(store, history.control(EventType.ERASURE_DONE, related=str(store.head(HERE).cursor)))
    assert rows(store)[Table.DESTROY.value] == {}
    assert findings(store) == ([], [])
