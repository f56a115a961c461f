"""Reading the projection ``current``: who is eligible, what a record's state is, whether the searchable set moved.

A record is readable when it is accepted_current, its content is there, ``t <= now <= t_end``, ``now < expires_at``,
and it was captured for one of the purposes asked for. One read has one instant, so that ``now`` is the valid_as_of too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import msgspec
import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from journal.errors import JournalCorrupt
from journal.lifecycle import State
from projections.columns import CHUNK_ROWS, FOREVER, KNOWN, LAYOUT, LOST, ROW, Columns, Mask
from projections.environment import Unusable
from projections.port import Reading, Tables, Value
from projections.rows import Newest, StoredRows, cursor_key

SUBJECTS = b"subjects"
NAMES = b"names"
CHUNKS = b"chunks"
BOUNDARIES = b"boundaries"
RECENT = b"recent"
TOTALS = b"totals"
_BIAS = 2**63  # so that instants before 1970 sort before later ones


class SubjectRow(msgspec.Struct, array_like=True):
    """The strings and cursors of a candidate or record."""

    candidate_id: str
    record_id: str | None = None
    decided: int = 0
    changed: int = 0


class Totals(msgspec.Struct, array_like=True):
    """What is true of the whole state."""

    accepted_current: int = 0
    set_version: int = 0  # cursor of the newest event that brought a record into the readable set, or took one out
    departed_at: int = -FOREVER  # the newest boundary that took out a record which then ceased to be accepted_current
    last_capture: int = 0
    recent_floor: int = 0  # what was changed up to this cursor is no longer listed in ``recent``
    recent_entries: int = 0
    lost: int = 0  # accepted records whose content or key could not be had when they were folded, and still stand


_ENCODER = msgspec.msgpack.Encoder()
_SUBJECT = msgspec.msgpack.Decoder(SubjectRow)
_TOTALS = msgspec.msgpack.Decoder(Totals)


def encode_subject(subject: SubjectRow) -> bytes:
    """Return a subject's bytes."""
    return _ENCODER.encode(subject)


def decode_subject(raw: Value) -> SubjectRow:
    """Return the subject of these bytes."""
    return _SUBJECT.decode(raw)


def encode_totals(totals: Totals) -> bytes:
    """Return the totals' bytes."""
    return _ENCODER.encode(totals)


def decode_totals(raw: Value | None) -> Totals:
    """Return the totals of these bytes; of none, those of an empty state."""
    return Totals() if raw is None else _TOTALS.decode(raw)


def boundary_key(instant: int, cursor: int) -> bytes:
    """Return the key of an instant (epoch ms) at which the clock moves the record captured at ``cursor``."""
    return (instant + _BIAS).to_bytes(8, "big") + cursor_key(cursor)


def purpose_number(key: bytes, purpose_ref: str) -> int:
    """Return the keyed number that stands for a purpose."""
    return int.from_bytes(blake3(purpose_ref.encode(), key=key).digest(8), "little")


@dataclass(frozen=True, slots=True)
class Row:
    """What is known of a candidate or record. Instants are epoch milliseconds, None where there is none."""

    cursor: int  # of the capture
    candidate_id: str
    record_id: str | None  # from acceptance on
    state: State
    decided: int  # cursor of the acceptance, rejection or withdrawal; 0 while pending
    changed: int  # cursor of the newest event about it
    lost: bool  # whether its payload could not be had when it was accepted, though no event erased it
    known: bool  # whether the validity below was read from the payload: of an accepted record that is not erased
    t: int | None
    t_end: int | None  # closed
    expires_at: int | None  # open
    purpose: int


class CurrentReader:
    """The projection ``current`` at one cursor."""

    def __init__(self, key: bytes, columns: Newest[Columns], txn: Reading, tables: Tables, cursor: int) -> None:
        self.cursor = cursor
        self._key = key
        self._cache = columns
        self._txn = txn
        self._tables = tables
        self._totals = decode_totals(txn.get(b"totals", db=tables[TOTALS]))
        self._stored = StoredRows(LAYOUT, txn, chunks=tables[CHUNKS], recent=tables[RECENT])

    # --- the set ---------------------------------------------------------------------------------

    @property
    def accepted_current(self) -> int:
        """The number of records that are accepted_current by journal state, whatever the clock says."""
        return self._totals.accepted_current

    @property
    def lost(self) -> int:
        """How many records stand whose content is lost: not erased, for no event says so."""
        return self._totals.lost

    @property
    def set_version(self) -> int:
        """A number that moves exactly when an event brings a record into the readable set or takes one out.

        It is the cursor of that event. One that the clock had excluded by the event's recorded_at moves nothing.
        """
        return self._totals.set_version

    def clock_changes(self, since: int, until: int) -> bool:
        """Whether the clock moved a record in or out between two instants (epoch ms), in ``(since, until]``."""
        low, high = min(since, until), max(since, until)
        if low < self._totals.departed_at <= high:
            return True
        cursor = self._txn.cursor(db=self._tables[BOUNDARIES])
        return cursor.set_range(boundary_key(low + 1, 0)) and bytes(cursor.key()) < boundary_key(high + 1, 0)

    def set_changed(self, since_cursor: int, since: int, until: int) -> bool:
        """Whether the readable set changed between a read at ``since_cursor`` and ``since`` and one here at ``until``.

        It asks for the earlier read's cursor, not for the set version that it saw: a generation that was rebuilt after
        a forgetting may show a greater one, though no event after the earlier read changed the set.
        """
        return self.set_version > since_cursor or self.clock_changes(since, until)

    # --- eligibility -----------------------------------------------------------------------------

    def mask(self, now: int, purposes: Iterable[str]) -> Mask:
        """Return which records are readable at ``now`` (epoch ms) under these purposes: booleans by capture cursor.

        The array reaches over every capture of this state and is never changed again.
        """
        numbers = frozenset(purpose_number(self._key, purpose) for purpose in purposes)
        return self._cache.read(self.cursor, self._bring, lambda columns: columns.mask(now, numbers))

    def in_force(self) -> NDArray[np.uint64]:
        """Return the capture cursors of the records that are accepted_current and not lost, whatever the clock says."""
        return self._cache.read(self.cursor, self._bring, lambda columns: columns.in_force())

    def eligible(self, cursors: NDArray[np.integer], now: int, purposes: Iterable[str]) -> Mask:
        """Return for each capture cursor whether its record is readable at ``now`` under these purposes."""
        chosen: Mask = self.mask(now, purposes)[cursors]
        return chosen

    def is_readable(self, row: Row, now: int, purposes: Iterable[str]) -> bool:
        """Whether one record is readable at ``now`` (epoch ms) under these purposes."""
        if row.state != State.ACCEPTED_CURRENT or row.t is None or not row.known:
            return False
        valid = row.t <= now and (row.t_end is None or now <= row.t_end)
        kept = row.expires_at is None or now < row.expires_at
        return valid and kept and row.purpose in {purpose_number(self._key, purpose) for purpose in purposes}

    def _bring(self, columns: Columns) -> None:
        """Bring columns of an older state to this one, reloading what changed since."""
        if columns.cursor == self.cursor:
            return
        chunks, whole = self._stored.since(columns.cursor, self._totals)
        columns.reload(self.cursor, self._totals.last_capture + 1, chunks, whole=whole)

    # --- single subjects -------------------------------------------------------------------------

    def lookup(self, name: str) -> Row | None:
        """Return a record by its record id, or a candidate by its candidate id."""
        found = self._txn.get(name.encode(), db=self._tables[NAMES]) if name else None
        return None if found is None else self.at(int.from_bytes(found, "big"))

    def at(self, cursor: int) -> Row | None:
        """Return the candidate or record that was captured at a cursor."""
        raw = self._txn.get(cursor_key(cursor), db=self._tables[SUBJECTS])
        if raw is None:
            return None
        return _row(cursor, decode_subject(raw), self._stored.at(cursor))

    def record_ids(self, cursors: Iterable[int]) -> list[str]:
        """Return the record ids of accepted records by their capture cursors, in the order given."""
        return [self._named(int(cursor)).record_id or "" for cursor in cursors]

    def _named(self, cursor: int) -> SubjectRow:
        """Return the subject captured at a cursor, whose ids lead back to it: LMDB's pages are not protected.

        Raises:
            Unusable: it is not there, or they do not.
        """
        raw = self._txn.get(cursor_key(cursor), db=self._tables[SUBJECTS])
        if raw is None:
            raise Unusable("a capture has no row")
        subject = decode_subject(raw)
        for name in (subject.candidate_id, subject.record_id):
            if name is not None and self._txn.get(name.encode(), db=self._tables[NAMES]) != cursor_key(cursor):
                raise Unusable("a subject's ids do not lead back to it")
        return subject

    def rows(self, states: Collection[State], after: int = 0) -> Iterator[Row]:
        """Yield the candidates and records in these states, oldest capture first, from captures over ``after``."""
        for number, raw in self._stored.all():
            first = number * CHUNK_ROWS
            if first + CHUNK_ROWS <= after:
                continue
            block = np.frombuffer(raw, ROW)
            for at in np.flatnonzero(np.isin(block["state"], [int(state) for state in states if state])):
                cursor = first + int(at)
                if cursor > after:
                    yield _row(cursor, self._subject(cursor), block[at])

    def expired(self, states: Collection[State], now: int, limit: int) -> list[Row]:
        """Return records in these states whose expires_at is at or before ``now`` (epoch ms), oldest first."""
        found: list[Row] = []
        for number, raw in self._stored.all():
            block = np.frombuffer(raw, ROW)
            passed = (block["known"] == KNOWN) & (block["expires_at"] <= now)
            for at in np.flatnonzero(passed & np.isin(block["state"], [int(state) for state in states])):
                cursor = number * CHUNK_ROWS + int(at)
                found.append(_row(cursor, self._subject(cursor), block[at]))
                if len(found) == limit:
                    return found
        return found

    def _subject(self, cursor: int) -> SubjectRow:
        raw = self._txn.get(cursor_key(cursor), db=self._tables[SUBJECTS])
        if raw is None:
            raise JournalCorrupt(f"the subject captured at cursor {cursor} has no row")
        return decode_subject(raw)

    def erased(self) -> list[Row]:
        """Return the records that are accepted in this state but whose content has been erased since.

        Empty at the journal's head; a state of the past may have some.
        """
        accepted = [state for state in State if state >= State.ACCEPTED_CURRENT and state != State.TOMBSTONED]
        return [row for row in self.rows(accepted) if not row.known and not row.lost]


def _row(cursor: int, subject: SubjectRow, row: np.void) -> Row:
    known = bool(row["known"] == KNOWN)

    def instant(name: str) -> int | None:
        return int(row[name]) if known and row[name] != FOREVER else None

    return Row(
        cursor=cursor, candidate_id=subject.candidate_id, record_id=subject.record_id, state=State(int(row["state"])),
        decided=subject.decided, changed=subject.changed, lost=bool(row["known"] == LOST), known=known, t=instant("t"),
        t_end=instant("t_end"), expires_at=instant("expires_at"), purpose=int(row["purpose"]),
    )  # fmt: skip
