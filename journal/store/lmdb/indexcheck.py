"""The index tables against the events: what should stand there, what does, and how it is written anew.

LMDB does not protect bytes: a flipped bit can change a row or make it unfindable without an error. So each commit
record holds the row count and a keyed sum of every index table of its scope. ``broken_sums`` compares them with a walk
over the tables, at the cost of reading; ``check_indexes`` derives every row from the events and compares row by row;
``rebuild_indexes`` empties the tables and writes them from the events, by the same ``journal.indexes.changes`` that a
commit uses, so that a rebuilt table is byte for byte the one that was written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from journal import limits
from journal.errors import JournalCorrupt
from journal.indexes import Lookup, Table, changes, cursor_key, decode_subject
from journal.scope import TAG_BYTES
from journal.store.lmdb import tables
from journal.store.lmdb.view import LmdbView, read_record

if TYPE_CHECKING:
    import lmdb

    from journal.events import Header
    from journal.scope import Scope
    from journal.store.port import Subject

Located = Callable[["Scope"], Mapping[bytes, int]]
"""A scope's data keys: key_id -> slot number, as the slot file holds them (journal.keyring.Keyring.located)."""

Databases = dict[bytes, Any]


@dataclass(frozen=True, slots=True)
class IndexFinding:
    """What is wrong with a table of a scope: so many rows are missing, wrong or surplus, or its sum is off by them."""

    table: str
    kind: str  # "missing", "wrong", "surplus", "sum" or "names"
    rows: int


# --- sums ----------------------------------------------------------------------------------------


def broken_sums(txn: lmdb.Transaction, databases: Databases, sum_key: bytes) -> list[IndexFinding]:
    """Return the tables whose rows, walked over, are not what the commit records say they add up to.

    A row that the walk meets and a search by its key does not find counts as missing.
    """
    stated: dict[tuple[bytes, Table], tables.TableSum] = {}
    for tag, raw in tables.walk_prefix(txn, databases[tables.HEADS], b""):
        record = read_record(raw)
        for table in Table:
            stated[tag, table] = record.sums.get(table.value.decode(), tables.TableSum())
    found = []
    for table in Table:
        walked = _walked_sums(txn, databases[table.value], sum_key, table.value)
        tags = {tag for tag, of in stated if of is table} | set(walked)
        empty = tables.TableSum()
        wrong = [tag for tag in tags if walked.get(tag, empty) != stated.get((tag, table), empty)]
        if wrong:
            found.append(IndexFinding(table.value.decode(), "sum", len(wrong)))
    return found


def broken_sums_of(txn: lmdb.Transaction, databases: Databases, sum_key: bytes, scope: Scope) -> Iterator[IndexFinding]:
    """Yield the tables whose rows of one scope, walked over, are not what its commit record says they add up to.

    Raises:
        JournalCorrupt: the commit record is broken.
    """
    raw = tables.get(txn, databases[tables.HEADS], scope.tag)
    stated = {} if raw is None else read_record(raw, scope).sums
    empty = tables.TableSum()
    for table in Table:
        walked = _walked_sums(txn, databases[table.value], sum_key, table.value, scope.tag).get(scope.tag, empty)
        if walked != stated.get(table.value.decode(), empty):
            yield IndexFinding(table.value.decode(), "sum", 1)
    if not stated.keys() <= {table.value.decode() for table in Table}:
        yield IndexFinding(tables.HEADS.decode(), "names", 1)


def _walked_sums(
    txn: lmdb.Transaction, database: Any, sum_key: bytes, name: bytes, prefix: bytes = b""
) -> dict[bytes, tables.TableSum]:
    rows: Counter[bytes] = Counter()
    totals: Counter[bytes] = Counter()
    with txn.cursor(database) as walk:
        found = walk.iternext() if walk.set_range(prefix) else ()
        for key, value in ((bytes(key), bytes(value)) for key, value in found):
            if not key.startswith(prefix):
                break
            if tables.get(txn, database, key) == value:
                rows[key[:TAG_BYTES]] += 1
                totals[key[:TAG_BYTES]] += tables.row_sum(sum_key, name, key, value)
    return {tag: tables.add(tables.TableSum(), count, totals[tag]) for tag, count in rows.items()}


def broken_counts(txn: lmdb.Transaction, databases: Databases) -> list[IndexFinding]:
    """Return the tables whose row counts, which LMDB keeps, are not what the commit records say: it needs no walk."""
    stated: Counter[bytes] = Counter()
    for _, raw in tables.walk_prefix(txn, databases[tables.HEADS], b""):
        record = read_record(raw)
        stated[tables.EVENTS] += record.cursor
        stated.update({name.encode(): total.rows for name, total in record.sums.items()})
    names = (tables.EVENTS, *(table.value for table in Table))
    counted = {name: int(txn.stat(databases[name])["entries"]) for name in names}
    return [
        IndexFinding(name.decode(), "sum", abs(counted[name] - stated[name]))
        for name in names
        if counted[name] != stated[name]
    ]


# --- row by row ----------------------------------------------------------------------------------


class _Expected:
    """The rows that a scope's events lead to, in memory; ``outcome`` rows are only counted, for none ever changes."""

    def __init__(self, guards: Callable[[int], tuple[bytes, ...]]) -> None:
        self.rows: dict[Table, dict[bytes, bytes]] = {table: {} for table in Table}
        self._lookup = Lookup(self._subject, guards, self._marks)

    def apply(self, header: Header) -> None:
        """Take over what an event changes."""
        for table, key, value in changes(header, self._lookup):
            if value is None:
                self.rows[table].pop(key, None)
            else:
                self.rows[table][key] = value

    def _subject(self, subject_id: str) -> Subject | None:
        raw = self.rows[Table.SUBJECT].get(subject_id.encode())
        return None if raw is None else decode_subject(raw)

    def _marks(self, table: Table, up_to: int) -> list[bytes]:
        last = cursor_key(up_to)
        return [key for key in self.rows[table] if key <= last]


def check_indexes(
    txn: lmdb.Transaction, databases: Databases, scope: Scope, located: Mapping[bytes, int]
) -> list[IndexFinding]:
    """Derive a scope's index rows from its events and compare them with what stands, row by row.

    Takes memory in proportion to the scope's events: about 700 bytes each.

    Raises:
        CursorGap, JournalCorrupt: the events themselves are broken.
    """
    view = LmdbView(txn, databases, scope)
    expected = _Expected(view.lookup().guards)
    standing_slots = dict(tables.walk_prefix(txn, databases[Table.SLOT.value], scope.tag))
    for header in _headers(view):
        expected.apply(header)
        slot = _slot_row(header, located, standing_slots)
        if slot is not None and header.key_id is not None:
            expected.rows[Table.SLOT][header.key_id] = slot
    found = []
    for table in Table:
        found += _compared(table, expected.rows[table], tables.walk_prefix(txn, databases[table.value], scope.tag))
    return found


def _compared(
    table: Table, expected: dict[bytes, bytes], standing: Iterator[tuple[bytes, bytes]]
) -> list[IndexFinding]:
    counts: Counter[str] = Counter()
    left = dict(expected)
    for key, value in standing:
        should = left.pop(key, None)
        if should is None:
            counts["surplus"] += 1
        elif should != value:
            counts["wrong"] += 1
    counts["missing"] = len(left)
    return [IndexFinding(table.value.decode(), kind, rows) for kind, rows in sorted(counts.items()) if rows]


def _headers(view: LmdbView) -> Iterator[Header]:
    """Yield every header of a scope, verified against the chain."""
    last = view.head.cursor
    for after in range(0, last, limits.READ_PAGE_EVENTS):
        for event in view.run(after, limits.READ_PAGE_EVENTS):
            yield event.header


def _slot_row(header: Header, located: Mapping[bytes, int], standing: Mapping[bytes, bytes]) -> bytes | None:
    """Return the slot row of an event's data key.

    A key that the slot file no longer holds keeps the row that stands: it says where the key was, and that it is lost.
    """
    if header.key_id is None:
        return None
    number = located.get(header.key_id)
    return standing.get(header.key_id) if number is None else number.to_bytes(8, "big")


# --- rebuilding ----------------------------------------------------------------------------------


def rebuild_indexes(txn: lmdb.Transaction, databases: Databases, sum_key: bytes, located: Located | None) -> None:
    """Empty every index table and write it anew from the events of every scope, inside a write transaction.

    The tables are emptied whole: in a damaged tree a row may stand where no search by its key can find it.

    Raises:
        CursorGap, JournalCorrupt: the events themselves are broken; the caller aborts the transaction.
    """
    standing = _standing_slots(txn, databases)
    for table in Table:
        txn.drop(databases[table.value], delete=False)
    for tag, raw in list(tables.walk_prefix(txn, databases[tables.HEADS], b"")):
        record = read_record(raw)
        if record.scope.tag != tag:
            raise JournalCorrupt("a commit record stands under another scope's tag")
        slots = {} if located is None else located(record.scope)
        record.sums = _written(txn, databases, sum_key, record, slots, standing)
        txn.put(tag, tables.encode_record(record), db=databases[tables.HEADS])


def _standing_slots(txn: lmdb.Transaction, databases: Databases) -> dict[bytes, bytes]:
    walked = tables.walk_prefix(txn, databases[Table.SLOT.value], b"")
    return {key[TAG_BYTES:]: value for key, value in walked if len(value) == len(cursor_key(0))}


def _written(
    txn: lmdb.Transaction, databases: Databases, sum_key: bytes, record: tables.CommitRecord,
    located: Mapping[bytes, int], standing: Mapping[bytes, bytes],
) -> dict[str, tables.TableSum]:  # fmt: skip
    """Write a scope's index rows; return the tables' sums."""
    tag, sums = record.scope.tag, dict[str, tables.TableSum]()
    view = LmdbView(txn, databases, record.scope)
    lookup = view.lookup()

    def change(table: Table, row: bytes, value: bytes | None) -> None:
        amount = tables.change_row(txn, databases, sum_key, table, tag + row, value)
        name = table.value.decode()
        sums[name] = tables.add(sums.get(name, tables.TableSum()), *amount)

    for header in _headers(view):
        for table, row, value in changes(header, lookup):
            change(table, row, value)
        slot = _slot_row(header, located, standing)
        if slot is not None and header.key_id is not None:
            change(Table.SLOT, header.key_id, slot)
    return sums
