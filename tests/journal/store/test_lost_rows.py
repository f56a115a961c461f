"""A branch that leads a search past rows: whatever the walk finds of it, the checks of the audit find too.

A search with a cursor that is used again is answered in the page where the cursor stands, and would find such rows.
"""

from __future__ import annotations

import struct

import pytest

from journal.errors import JournalCorrupt
from journal.indexes import Table
from journal.store.lmdb import quarantine, tables
from journal.store.lmdb.environment import Environment
from journal.store.lmdb.indexcheck import broken_sums
from journal.store.lmdb.rowcheck import check_rows
from tests.corruption.pages import PAGE_BYTES, DataFile
from tests.journal.store.places import content

_HEADER = struct.Struct("<QHHHH")
_NODE = struct.Struct("<HHHH")


def separators(data):
    """Yield (offset, key) of each key of a branch page but the first, which a search does not compare."""
    raw = data.read_bytes()
    for page in DataFile(data, data.name).pages("branch"):
        at = page * PAGE_BYTES
        for place in range(_HEADER.size + 2, _HEADER.unpack_from(raw, at)[3], 2):
            node = at + int.from_bytes(raw[at + place : at + place + 2], "little")
            key_bytes = _NODE.unpack_from(raw, node)[3]
            start = node + _NODE.size
            yield start, raw[start : start + key_bytes]


def rows_before(directory, key):
    """Return {table: the key before this one} of the tables that have it, where it can be written over the key."""
    found = {}
    for name, rows in content(directory).items():
        keys = sorted(rows)
        if key in rows and (at := keys.index(key)) and len(keys[at - 1]) == len(key):
            found[name] = keys[at - 1]
    return found


def walked(txn, databases):
    try:
        return quarantine.walk(txn, databases) != []
    except JournalCorrupt:
        return True


def found_in(directory, name, row):
    """Return the tables in which the audit's checks find something; None where a search still finds the row."""
    environment = Environment(directory, readonly=True)
    try:
        with environment.reading() as (txn, databases):
            if tables.get(txn, databases[name], row) is not None:
                return None
            assert walked(txn, databases)
            sum_key = tables.get(txn, databases[tables.STORE], tables.SUM_KEY)
            assert sum_key is not None
            found = {each.table for each in check_rows(txn, databases, {})}
            return found | {each.table for each in broken_sums(txn, databases, sum_key)}
    finally:
        environment.close()


def test_a_row_that_no_branch_leads_to_is_found_by_each_check(directory):
    data = directory / "data.mdb"
    whole, seen = data.read_bytes(), set()
    led = [(start, key, *each) for start, key in separators(data) for each in rows_before(directory, key).items()]
    for start, key, name, before in led:
        data.write_bytes(whole[:start] + before + whole[start + len(key) :])
        found = found_in(directory, name, before)
        if found is not None:  # else it is the key of another table, which has the same
            assert name.decode() in found
            seen.add(name)
    assert tables.EVENTS in seen
    assert seen & {table.value for table in Table}


@pytest.mark.parametrize("table", [tables.EVENTS, Table.SUBJECT.value])
def test_a_search_finds_what_is_there_and_nothing_else(directory, table):
    environment = Environment(directory, readonly=True)
    try:
        with environment.reading() as (txn, databases):
            key = next(iter(tables.walk_prefix(txn, databases[table], b"")))[0]
            assert tables.is_found(txn, databases[table], key)
            assert not tables.is_found(txn, databases[table], key + b"\0")
    finally:
        environment.close()
