"""The audit of the store's own bookkeeping: row keys, rows that belong to nothing, and the commit record."""

from __future__ import annotations

import pytest

from journal import layout
from journal.clock import SystemClock
from journal.errors import EngramError
from journal.store.lmdb import tables
from journal.store.lmdb.engine import LmdbStore
from replay.audit import audit_all_headers
from tests.replay.tampering import ACCEPT, CAPTURE, GONE, audited, change, tampered, told
from tests.tools.memory.world import OTHER, SCOPE, World

FLIP = 0x40


@pytest.fixture
def story(tmp_path):
    world = World(tmp_path / "store")
    yield told(world)
    world.close()


def stored(path, table):
    """Return every row of a table with its whole key."""
    with tampered(path, SCOPE) as opened:
        return tables.prefix_rows(opened.txn, opened.handles[table], b"")


def headers_audited(world):
    store = LmdbStore(world.path / layout.JOURNAL, SystemClock(), readonly=True)
    try:
        return audit_all_headers(store)
    finally:
        store.close()


def details(report):
    named = [finding.detail for scope in report.scopes for finding in scope.findings]
    return named + [finding.detail for finding in report.elsewhere]


def named(world, audit):
    """Whether an audit says that something is wrong: by a finding, or because it cannot begin."""
    try:
        return not audit(world).ok
    except EngramError:
        return True


def flip(path, row, offset, bit, original):
    """Flip a bit in the file itself, in every copy of a row, so that nothing is put in order again."""
    raw, start = bytearray(original), 0
    while (at := original.find(row, start)) >= 0:
        raw[at + offset] ^= bit
        start = at + 1
    assert raw != original
    (path / layout.JOURNAL / "data.mdb").write_bytes(raw)


def file_of(world):
    return (world.path / layout.JOURNAL / "data.mdb").read_bytes()


# The header pass reads the events and nothing else; all tables are the whole audit's.
EVERY = [name for name in tables.NAMES if name not in (tables.HEADS, tables.STORE)]
BY_CURSOR = [(audited, table) for table in (tables.EVENTS, *tables.PARTS)] + [(headers_audited, tables.EVENTS)]


# --- keys ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("audit", "table"), BY_CURSOR)
def test_every_flipped_byte_of_a_key_is_named(story, table, audit):
    silent = []
    rows = stored(story.path, table)
    original = file_of(story)
    for key, value in rows:
        for offset in (0, 7, 15, 16, 22, 23):
            flip(story.path, key + value, offset, FLIP, original)
            if not named(story, audit):
                silent.append((key[16:].hex(), offset))
    assert silent == []


def test_a_key_that_no_search_finds_is_found_by_the_header_pass(story):
    rows = stored(story.path, tables.EVENTS)
    original = file_of(story)
    for key, value in rows[1:-1]:
        flip(story.path, key + value, 0, FLIP, original)
        (scope,) = headers_audited(story).scopes
        assert ("CURSOR_GAP", int.from_bytes(key[16:], "big")) in [(each.code, each.cursor) for each in scope.findings]


# --- rows that belong to nothing ------------------------------------------------------------------------


@pytest.mark.parametrize(("audit", "table"), BY_CURSOR)
def test_a_row_beyond_the_head(story, table, audit):
    change(story, lambda opened: opened.put(table, 999, b"x" * 50))
    assert any(f"table {table.decode()}: 1 rows beyond the head" in each for each in details(audit(story)))


@pytest.mark.parametrize(("table", "cursor"), [(b"content", ACCEPT), (b"ledger", CAPTURE)])
def test_a_part_that_no_header_names(story, table, cursor):
    change(story, lambda opened: opened.put(table, cursor, b"x" * 50))
    assert any("that no header names" in each for each in details(audited(story)))


@pytest.mark.parametrize(("audit", "table"), [(audited, table) for table in EVERY] + [(headers_audited, tables.EVENTS)])
def test_a_row_of_no_scope(story, table, audit):
    change(story, lambda opened: opened.put(table, 1, b"x" * 8), OTHER)
    report = audit(story)
    assert not report.ok
    assert [each.detail for each in report.elsewhere] == [f"the table {table.decode()}: 1 rows of no scope"]


def test_a_commit_record_under_another_tag(story):
    def move(opened):
        raw = opened.txn.get(SCOPE.tag, db=opened.handles[tables.HEADS])
        opened.txn.put(OTHER.tag, raw, db=opened.handles[tables.HEADS])

    change(story, move)
    assert "the table heads: 1 rows under another scope's tag" in details(headers_audited(story))


# --- the commit record ----------------------------------------------------------------------------------


def rerecorded(world, **fields):
    def replace(opened):
        record = opened.record()
        for name, value in fields.items():
            setattr(record, name, value)
        opened.put_record(record)

    change(world, replace)


@pytest.mark.parametrize("audit", [audited, headers_audited])
@pytest.mark.parametrize("fields", [{"recorded_at": 0}, {"slot_generation": 0}, {"slot_generation": 1}], ids=str)
def test_a_commit_record_that_lies(story, fields, audit):
    assert audit(story).ok
    rerecorded(story, **fields)
    assert not audit(story).ok


def test_a_mirrored_generation_beyond_the_slot_file(story):
    rerecorded(story, slot_generation=1_000)
    assert any("older than the journal" in each for each in details(audited(story)))


@pytest.mark.parametrize("table", [b"outcome", b"subject", b"slot"])
@pytest.mark.parametrize("rows", [True, False])
def test_a_commit_record_that_lies_about_a_table(story, table, rows):
    with tampered(story.path, SCOPE) as opened:
        sums = opened.record().sums
    true = sums[table.decode()]
    lie = tables.TableSum(true.rows + 1, true.total) if rows else tables.TableSum(true.rows, bytes(16))
    rerecorded(story, sums={**sums, table.decode(): lie})
    assert any(f"the index {table.decode()}" in each for each in details(audited(story)))


def test_a_commit_record_that_names_a_table_that_there_is_not(story):
    with tampered(story.path, SCOPE) as opened:
        sums = opened.record().sums
    rerecorded(story, sums={**sums, "another": tables.TableSum()})
    assert any("names a table that there is not" in each for each in details(audited(story)))


def test_every_flipped_byte_of_a_commit_record_is_named(story):
    """But a mirrored slot generation that is lower and could be: alone it changes nothing, and no key is back."""
    ((key, value),) = stored(story.path, tables.HEADS)
    with tampered(story.path, SCOPE) as opened:
        record = opened.record()
    record.slot_generation -= 1
    (lower,) = [at for at, pair in enumerate(zip(value, tables.encode_record(record), strict=True)) if len({*pair}) > 1]
    original = file_of(story)
    silent = []
    for offset in range(len(key + value)):
        for bit in (0x01, 0x80):
            flip(story.path, key + value, offset, bit, original)
            if not named(story, audited):
                silent.append(offset)
    assert set(silent) <= {len(key) + lower}


def test_an_older_slot_file_is_named_by_the_key_that_is_back_too(tmp_path):
    world = World(tmp_path / "store")
    agent = world.caller()
    gone = agent.remember(GONE)
    (slots,) = (world.path / layout.KEYS).glob("*.slots")
    older = slots.read_bytes()
    agent.forget(gone)
    world.close()
    slots.write_bytes(older)
    rerecorded(world, slot_generation=2)
    assert any("was to be erased still opens" in each for each in details(audited(world)))
