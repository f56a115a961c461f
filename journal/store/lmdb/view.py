"""A scope's indexes and events at one head, read through one LMDB transaction."""

from __future__ import annotations

from itertools import islice
from operator import lt
from typing import Any

import lmdb

from journal import limits
from journal.chain import EMPTY_HEAD, verify_next, verify_run
from journal.errors import CursorGap, JournalCorrupt
from journal.foreign import UNREADABLE
from journal.frames import GENESIS, decode_frame, frame_hash
from journal.indexes import Lookup, Table, cursor_key, decode_subject
from journal.scope import Scope
from journal.store.lmdb import tables
from journal.store.port import Committed, Head, Part, Subject
from journal.systemfaults import told


class LmdbView:
    """journal.store.port.View over an LMDB transaction."""

    def __init__(
        self, txn: lmdb.Transaction, databases: dict[bytes, Any], scope: Scope, head: Head | None = None
    ) -> None:
        """Take a transaction, and the head where it is ahead of the commit record that the transaction holds."""
        self._txn = txn
        self._databases = databases
        self._scope = scope
        self._head = head

    @property
    def head(self) -> Head:
        """The head that this view shows."""
        if self._head is not None:
            return self._head
        raw = tables.get(self._txn, self._databases[tables.HEADS], self._scope.tag)
        if raw is not None:
            return read_record(raw, self._scope).head
        if tables.prefix_rows(self._txn, self._databases[tables.EVENTS], self._scope.tag, limit=1):
            raise JournalCorrupt("a scope's commit record is missing")  # a fault is never an empty journal
        return EMPTY_HEAD

    def outcome(self, event_id: bytes) -> Committed | None:
        """Return the event that reserved this identity."""
        raw = self._row(Table.OUTCOME, event_id)
        if raw is None:
            return None
        event = self.event(_number(raw))
        if event is None or event.header.event_id != event_id:
            raise JournalCorrupt("the outcome index names an event that is not there")
        return event

    def event(self, cursor: int) -> Committed | None:
        """Return the event at a cursor, verified against the chain."""
        head = self.head
        frame = self._frame(cursor)
        if not 1 <= cursor <= head.cursor:
            if frame is not None:
                raise JournalCorrupt(f"the event at cursor {cursor} is beyond the head")
            return None
        if frame is None:
            raise CursorGap(f"the event at cursor {cursor} is missing")
        try:
            expected = self._hash_of(cursor, head)
        except (CursorGap, JournalCorrupt):
            # The one behind it is broken, and is found so where it is asked for; this one stands on its own.
            return verify_next(self._scope, cursor, None, frame)
        return verify_run(self._scope, cursor, [frame], None, expected)[0]

    def run(self, after: int, limit: int) -> list[Committed]:
        """Return at most ``limit`` events after a cursor, each verified against the chain."""
        head = self.head
        last = min(head.cursor, after + limit)
        if last <= after:
            return []
        frames = self._frames(max(after, 1), last)
        before = frame_hash(frames.pop(0)) if after else GENESIS
        return verify_run(self._scope, after + 1, frames, before, self._hash_of(last, head))

    def _hash_of(self, cursor: int, head: Head) -> bytes:
        """Return the hash that the event at a cursor must have, as whatever stands behind it says."""
        return head.hash if cursor == head.cursor else decode_frame(self._present(cursor + 1)).prev

    def _frames(self, first: int, last: int) -> list[bytes]:
        """Return the frames from one cursor to another, both included; in one scan, which is faster than look-ups."""
        tag, count = self._scope.tag, last - first + 1
        try:
            with self._txn.cursor(self._databases[tables.EVENTS]) as rows:
                there = rows.set_key(tables.event_key(tag, first))
                found = list(islice(rows.iternext(), count)) if there else []
        except lmdb.Error as error:
            raise told(error) from error
        if len(found) == count and _are_dense([bytes(key) for key, _ in found], tables.event_key(tag, last)):
            return [bytes(frame) for _, frame in found]
        return [self._present(cursor) for cursor in range(first, last + 1)]  # says which one is missing

    def _present(self, cursor: int) -> bytes:
        frame = self._frame(cursor)
        if frame is None:
            raise CursorGap(f"the event at cursor {cursor} is missing")
        return frame

    def _frame(self, cursor: int) -> bytes | None:
        return tables.get(self._txn, self._databases[tables.EVENTS], tables.event_key(self._scope.tag, cursor))

    def body(self, cursor: int, part: Part) -> bytes | None:
        """Return a sealed part's bytes, or None where the event has none."""
        return tables.get(self._txn, self._databases[part.value], tables.event_key(self._scope.tag, cursor))

    def subject(self, subject_id: str) -> Subject | None:
        """Return what is known of a candidate or confirmation."""
        raw = self._row(Table.SUBJECT, subject_id.encode())
        return None if raw is None else _decode_subject(raw)

    def candidate_of(self, record_id: str) -> str | None:
        """Return the candidate that became this record."""
        raw = self._row(Table.RECORD, record_id.encode())
        return None if raw is None else _name(raw)

    def tombstoned(self, guard: bytes) -> bool:
        """Whether a forgotten record of this scope had this guard digest."""
        return bool(self._rows(Table.TOMBSTONE, guard, limit=1))

    def open_request(self, request_id: bytes) -> str | None:
        """Return the id of the open confirmation request of an operation, by the keyed digest in its header."""
        raw = self._row(Table.REQUEST, request_id)
        return None if raw is None else _name(raw)

    def open_requests(self) -> list[str]:
        """Return the ids of all open confirmation requests, oldest first."""
        return [_name(value) for _, value in self._rows(Table.OPEN_REQUEST)]

    def pending_candidates(self) -> list[str]:
        """Return the ids of all pending candidates, oldest first."""
        return [_name(value) for _, value in self._rows(Table.PENDING)]

    def pending_destructions(self) -> list[tuple[int, bytes]]:
        """Return (cursor of the terminal event, key_id) of keys that still await destruction."""
        return [(int.from_bytes(key, "big"), value) for key, value in self._rows(Table.DESTROY)]

    def pending_erasures(self) -> list[tuple[int, str]]:
        """Return (cursor of the tombstone, candidate id) of forgettings without an erasure-done event."""
        return [(int.from_bytes(key, "big"), _name(value)) for key, value in self._rows(Table.ERASE)]

    def slot(self, key_id: bytes) -> int | None:
        """Return the slot number of a data key."""
        raw = self._row(Table.SLOT, key_id)
        return None if raw is None else _number(raw)

    def subjects(self, prefix: str = "") -> list[tuple[str, Subject]]:
        """Return every subject of the scope whose id begins so, with its id, in id order."""
        rows = self._rows(Table.SUBJECT, prefix.encode())
        return [(prefix + _name(key), _decode_subject(value)) for key, value in rows]

    def lookup(self) -> Lookup:
        """Return what journal.indexes.changes may ask."""
        return Lookup(self.subject, self._guards, self._marks)

    def _guards(self, cursor: int) -> tuple[bytes, ...]:
        return decode_frame(self._present(cursor)).guards

    def _marks(self, table: Table, up_to: int) -> list[bytes]:
        last = cursor_key(up_to)
        return [key for key, _ in self._rows(table) if key <= last]

    def _row(self, table: Table, key: bytes) -> bytes | None:
        # LMDB refuses a key that is too long; what nothing can be stored under is simply not there.
        full = self._scope.tag + key
        return tables.get(self._txn, self._databases[table.value], full) if len(full) <= tables.KEY_MAX_BYTES else None

    def _rows(self, table: Table, prefix: bytes = b"", limit: int = 0) -> list[tuple[bytes, bytes]]:
        return tables.prefix_rows(self._txn, self._databases[table.value], self._scope.tag + prefix, limit)


def _are_dense(keys: list[bytes], last: bytes) -> bool:
    """Whether keys, as many as there are cursors from the first to ``last``, are those of just these cursors.

    LMDB does not protect them, and a walk meets rows that no search by their key finds. Keys of one length that grow
    from each to the next leave no other choice in between.
    """
    return keys[-1] == last and all(map(lt, keys, keys[1:])) and set(map(len, keys)) == {len(last)}


def read_record(raw: bytes, scope: Scope | None = None) -> tables.CommitRecord:
    """Return a commit record, checked to be this scope's.

    Raises:
        JournalCorrupt: it is broken or another scope's.
    """
    try:
        record = tables.decode_record(raw)
    except UNREADABLE as error:
        raise JournalCorrupt("a commit record cannot be decoded") from error
    if scope is not None and record.scope != scope:
        raise JournalCorrupt("a commit record belongs to another scope")
    return record


def _decode_subject(raw: bytes) -> Subject:
    try:
        return decode_subject(raw)
    except UNREADABLE as error:
        raise JournalCorrupt("a subject row cannot be decoded") from error


def _name(raw: bytes) -> str:
    """Return the id that a row holds; JournalCorrupt where it is none."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise JournalCorrupt("an index row holds no id") from error


def _number(raw: bytes) -> int:
    """Return the cursor or slot number that a row holds; JournalCorrupt where it is none."""
    number = int.from_bytes(raw, "big")
    if len(raw) != 8 or number > limits.SLOT_NUMBER_MAX:  # noqa: PLR2004 - eight bytes, as they are written
        raise JournalCorrupt("an index row holds no number")
    return number
