"""The projection ``current``: what state each candidate and record is in, and who may be read now.

Tables, all keys big-endian:

    subjects    capture cursor (8) -> msgpack [candidate id, record id or nil, cursor of the decision, newest cursor]
    names       candidate id, or record id -> capture cursor (8)
    chunks      chunk number (4) -> rows (``projections.columns``)
    boundaries  epoch ms + 2^63 (8), capture cursor (8) -> nothing
    recent      last cursor of a fold (8) -> numbers of the chunks that it changed (4 each); the newest 1,024 are kept
    totals      "totals" -> msgpack ``Totals``

A boundary is an instant at which the clock will bring an accepted_current record in (valid_time.t) or take it out
(t_end and a millisecond, or expires_at), as seen when it became accepted_current. What a rejected, withdrawn or
tombstoned subject leaves is its ids, cursors and state: nothing that came from its payload.

The digest covers subjects and chunks. The others follow from them, but for the set version: whether the clock had
excluded a record before it was forgotten cannot be told any more once its payload is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from journal.clock import parse_instant
from journal.errors import BlobMissing, JournalCorrupt
from journal.events import LIFECYCLE, Header
from journal.lifecycle import LEGAL, TERMINAL, Operation, State
from projections.columns import FOREVER, KNOWN, LAYOUT, LOST, Columns, stop_of
from projections.current_reader import (
    BOUNDARIES,
    CHUNKS,
    NAMES,
    RECENT,
    SUBJECTS,
    TOTALS,
    CurrentReader,
    SubjectRow,
    boundary_key,
    decode_subject,
    decode_totals,
    encode_subject,
    encode_totals,
    purpose_number,
)  # fmt: skip
from projections.port import FoldEvent, Reading, Tables, Writing
from projections.rows import ChangedRows, Newest, cursor_key, tables_digest

NAME = "current"
VERSION = 1

# Plain integers: to compare or to look up an enumeration's member takes longer than all else that a fold does with it.
_CAPTURE, _ACCEPT, _REWIND = int(Operation.CAPTURE), int(Operation.ACCEPT), int(Operation.REWIND)
_ABSENT, _PENDING, _ACCEPTED_CURRENT = int(State.ABSENT), int(State.PENDING), int(State.ACCEPTED_CURRENT)
_TERMINAL = frozenset(map(int, TERMINAL))
_LEGAL = {(int(operation), int(state)): int(after) for (operation, state), after in LEGAL.items()}

Known = tuple[int, int, int, int]
"""What is taken of an accepted record: t, t_end, expires_at (epoch ms, FOREVER for none), and its purpose's number."""


class Current:
    """The projection ``current`` (``projections.port.Projection``)."""

    name: str = NAME
    version: int = VERSION
    databases: tuple[bytes, ...] = (SUBJECTS, NAMES, CHUNKS, BOUNDARIES, RECENT, TOTALS)

    def __init__(self, key: bytes) -> None:
        """Take the projection's key, which hides the purposes (``Journal.projection_key``)."""
        self._key = key
        self._columns = Newest(Columns)

    def fold(self, txn: Writing, databases: Tables, events: Sequence[FoldEvent]) -> None:
        """Apply events, in cursor order.

        Raises:
            JournalCorrupt: a transition that the lifecycle table forbids. EngramError: a payload that cannot be opened.
        """
        fold = _Fold(self._key, txn, databases)
        for event in events:
            if event.header.type in LIFECYCLE:
                fold.apply(event)
        if events:
            fold.finish(events[-1].header.cursor)

    def prepare(self, events: Sequence[FoldEvent]) -> list[Known | None]:
        """Return what is known of each record that is accepted, once its payload is open."""
        purposes = _Purposes(self._key)
        return [_known(event, purposes) if event.header.type == _ACCEPT else None for event in events]

    def content_digest(self, txn: Reading, databases: Tables) -> bytes:
        """Return the BLAKE3 of subjects and chunks, in key order."""
        return tables_digest(txn, databases, (SUBJECTS, CHUNKS))

    def reader(self, txn: Reading, databases: Tables, cursor: int) -> CurrentReader:
        """Return what answers questions over the state at ``cursor``."""
        return CurrentReader(self._key, self._columns, txn, databases, cursor)


class _Purposes(dict[str, int]):
    """The numbers of purposes, each found when first asked for: there are few."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def __missing__(self, purpose_ref: str) -> int:
        number = self[purpose_ref] = purpose_number(self._key, purpose_ref)
        return number


def _opened(event: FoldEvent, purposes: _Purposes) -> Known | None:
    """Return what is known of an accepted record, None where it was forgotten since.

    Raises:
        BlobMissing: its payload is lost.
    """
    payload = event.payload()
    if payload is None:
        return None
    valid, expires_at = payload["valid_time"], payload["retention"].get("expires_at")
    until = FOREVER if expires_at is None else parse_instant(expires_at)
    return valid["t"], valid.get("t_end", FOREVER), until, purposes[payload["purpose_ref"]]


def _known(event: FoldEvent, purposes: _Purposes) -> Known | None:
    try:
        return _opened(event, purposes)
    except BlobMissing:  # who folds it finds that himself
        return None


class _Fold:
    """One call's fold. Chunks, subjects and totals are written when it is finished."""

    def __init__(self, key: bytes, txn: Writing, tables: Tables) -> None:
        self._key = key
        self._txn = txn
        self._tables = tables
        self._totals = decode_totals(txn.get(b"totals", db=tables[TOTALS]))
        self._rows = ChangedRows(LAYOUT, txn, chunks=tables[CHUNKS], recent=tables[RECENT])
        self._captured: dict[str, int] = {}  # candidate -> cursor of its capture, of those in this fold
        self._subjects: dict[int, SubjectRow] = {}  # all that are new or changed
        self._purposes = _Purposes(key)

    def apply(self, event: FoldEvent) -> None:
        """Apply one lifecycle event."""
        header = event.header
        kind = header.type
        if kind == _CAPTURE:
            self._capture(header)
            return
        cursor = self._cursor_of(header.subject)
        row = self._rows.row(cursor)
        self._check(header, int(row["state"]))
        self._touch(cursor, header, decided=header.from_state == _PENDING)
        if kind == _ACCEPT:
            self._accept(header, cursor, row, event)
        self._move(cursor, row, header.to_state, header)
        if kind == _REWIND and header.related is not None:
            self._retire(header)

    def _capture(self, header: Header) -> None:
        if header.subject is None:
            raise JournalCorrupt(f"the capture at cursor {header.cursor} has no subject")
        self._check(header, _ABSENT)
        key = cursor_key(header.cursor)
        if not self._txn.put(header.subject.encode(), key, overwrite=False, db=self._tables[NAMES]):
            raise JournalCorrupt(f"the capture at cursor {header.cursor} repeats a subject")
        self._captured[header.subject] = header.cursor
        self._subjects[header.cursor] = SubjectRow(header.subject, changed=header.cursor)
        self._rows.row(header.cursor)["state"] = _PENDING
        self._totals.last_capture = header.cursor

    def _touch(self, cursor: int, header: Header, *, decided: bool) -> None:
        """Note in a subject's row that this event was about it."""
        subject = self._subjects.get(cursor)
        if subject is None:
            raw = self._txn.get(cursor_key(cursor), db=self._tables[SUBJECTS])
            if raw is None:
                raise JournalCorrupt(f"the subject captured at cursor {cursor} has no row")
            subject = self._subjects[cursor] = decode_subject(raw)
        subject.changed = header.cursor
        if decided:
            subject.decided, subject.record_id = header.cursor, header.record_id

    def _accept(self, header: Header, cursor: int, row: np.void, event: FoldEvent) -> None:
        if header.record_id is None:
            raise JournalCorrupt(f"the acceptance at cursor {header.cursor} names no record")
        self._txn.put(header.record_id.encode(), cursor_key(cursor), db=self._tables[NAMES])
        try:
            known = event.prepared.get(NAME) or _opened(event, self._purposes)
        except BlobMissing:  # a lost record must not keep the others from being folded, nor be taken for none
            row["known"] = LOST
            self._totals.lost += 1
            return
        if known is not None:  # else forgotten since: a later event says so
            row["known"] = KNOWN
            row["t"], row["t_end"], row["expires_at"], row["purpose"] = known

    def _retire(self, header: Header) -> None:
        """The successor of a rewound record becomes historical in the same event."""
        cursor = self._cursor_of(header.related)
        self._touch(cursor, header, decided=False)
        self._move(cursor, self._rows.row(cursor), int(State.HISTORICAL), header)

    def _move(self, cursor: int, row: np.void, to_state: int, header: Header) -> None:
        """Change a row's state, and what follows from it for the readable set."""
        was, will = int(row["state"]) == _ACCEPTED_CURRENT, to_state == _ACCEPTED_CURRENT
        if was != will:
            self._totals.accepted_current += 1 if will else -1
            start, stop, now = int(row["t"]), stop_of(row), header.recorded_at
            readable = start <= now < stop
            if readable or not row["known"]:
                self._totals.set_version = header.cursor
            if will and row["known"] and start < stop:
                self._bound(cursor, now, (start, stop))
            elif was:
                self._unbound(cursor, now, (start, stop), readable=readable)
        row["state"] = to_state
        if to_state in _TERMINAL:
            self._totals.lost -= int(row["known"] == LOST)
            for name in ("known", "t", "t_end", "expires_at", "purpose"):
                row[name] = 0

    def _bound(self, cursor: int, now: int, instants: Iterable[int]) -> None:
        for instant in instants:
            if now < instant < FOREVER:
                self._txn.put(boundary_key(instant, cursor), b"", db=self._tables[BOUNDARIES])

    def _unbound(self, cursor: int, now: int, instants: Iterable[int], *, readable: bool) -> None:
        """Forget a record's boundaries. One that had passed and taken it out is remembered, without its name."""
        for instant in instants:
            there = self._txn.delete(boundary_key(instant, cursor), db=self._tables[BOUNDARIES])
            if there and not readable and instant <= now:
                self._totals.departed_at = max(self._totals.departed_at, instant)

    def _check(self, header: Header, state: int) -> None:
        """Check a transition against the lifecycle table, and against the state that the fold knows."""
        legal = _LEGAL.get((header.type, state))
        if legal is None or header.from_state != state or header.to_state != legal:
            label = State(state).label
            raise JournalCorrupt(f"the event at cursor {header.cursor} is no legal transition from {label}")

    def _cursor_of(self, name: str | None) -> int:
        captured = None if name is None else self._captured.get(name)
        if captured is not None:
            return captured
        found = None if name is None else self._txn.get(name.encode(), db=self._tables[NAMES])
        if found is None:
            raise JournalCorrupt("an event names a subject that was never captured")
        return int.from_bytes(found, "big")

    def finish(self, cursor: int) -> None:
        """Write what was kept back; ``cursor`` is the last event's."""
        born = set(self._captured.values())
        for captured, subject in sorted(self._subjects.items()):
            row, is_new = encode_subject(subject), captured in born
            self._txn.put(cursor_key(captured), row, append=is_new, db=self._tables[SUBJECTS])
        if self._rows.write(cursor, self._totals):
            self._txn.put(b"totals", encode_totals(self._totals), db=self._tables[TOTALS])
