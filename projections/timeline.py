"""The projection ``timeline``: when each message was said, by whom and where, and which of them stand.

Tables, all keys big-endian:

    subjects  message cursor (8) -> message id
    names     message id -> message cursor (8)
    chunks    chunk number (4) -> rows (below)
    recent    what changed lately (``projections.rows``)
    totals    "totals" -> msgpack ``Totals``

A row stands at the cursor of its MESSAGE; numbers are little-endian, names keyed (``projections.sealed``), 0 for none:

    state        u8   journal.messages.MessageState; 0 where the cursor is no message's
    known        u8   1 when what was said could be had; 2 when it was lost, 3 when the newest text was; else 0
    role         u8   1 user, 2 assistant
    created_at   i64  epoch ms
    owner, platform, model, device, tag, place, session   u64 each
    characters   u32  of the newest text
    text_cursor  u64  of the newest MESSAGE_REVISION, or of the MESSAGE
    tags_cursor  u64  of the newest MESSAGE_TAG, or 0

The owner is the principal that the MESSAGE was written for, whoever wrote the other events about it. An erased message
leaves its id, its cursor and its state. A MESSAGE_TAG whose content is lost changes nothing: the tags before it stay in
force. The digest covers subjects and chunks; the others follow from them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from journal.errors import BlobMissing, JournalCorrupt
from journal.events import EventType, Header
from journal.messages import LEGAL, MESSAGE_EVENTS, MessageState
from projections.port import FoldEvent, Reading, Tables, Writing
from projections.rows import ChangedRows, Newest, cursor_key, tables_digest
from projections.sealed import NONE, name_number, owner_number
from projections.timeline_reader import (
    CHUNKS,
    KNOWN,
    LAYOUT,
    LOST,
    NAMES,
    RECENT,
    ROLES,
    ROW,
    SUBJECTS,
    TEXT_LOST,
    TOTALS,
    Filter,
    MessageRow,
    TagUsage,
    TimelineReader,
    decode_totals,
    encode_totals,
    new_columns,
)  # fmt: skip

__all__ = ["NAME", "VERSION", "Filter", "MessageRow", "TagUsage", "Timeline", "TimelineReader"]

NAME = "timeline"
VERSION = 1
_FIELDS = {  # column -> key of the MESSAGE's content
    "platform": "agent_platform", "model": "agent_model", "device": "device_name", "place": "cwd",
    "session": "session_id",
}  # fmt: skip


class Timeline:
    """The projection ``timeline`` (``projections.port.Projection``)."""

    name: str = NAME
    version: int = VERSION
    databases: tuple[bytes, ...] = (SUBJECTS, NAMES, CHUNKS, RECENT, TOTALS)

    def __init__(self, key: bytes) -> None:
        """Take the projection's key, which hides the names (``Journal.projection_key``)."""
        self._key = key
        self._columns = Newest(new_columns)

    def fold(self, txn: Writing, databases: Tables, events: Sequence[FoldEvent]) -> None:
        """Apply events, in cursor order.

        Raises:
            JournalCorrupt: a transition that is not legal. EngramError: a payload that cannot be opened.
        """
        fold = _Fold(self._key, txn, databases)
        for event in events:
            if event.header.type in MESSAGE_EVENTS:
                fold.apply(event)
        if events:
            fold.finish(events[-1].header.cursor)

    def content_digest(self, txn: Reading, databases: Tables) -> bytes:
        """Return the BLAKE3 of subjects and chunks, in key order."""
        return tables_digest(txn, databases, (SUBJECTS, CHUNKS))

    def reader(self, txn: Reading, databases: Tables, cursor: int) -> TimelineReader:
        """Return what answers questions over the state at ``cursor``."""
        return TimelineReader(self._key, self._columns, txn, databases, cursor)


class _Fold:
    """One call's fold. Chunks and totals are written when it is finished."""

    def __init__(self, key: bytes, txn: Writing, tables: Tables) -> None:
        self._key = key
        self._txn = txn
        self._tables = tables
        self._totals = decode_totals(txn.get(b"totals", db=tables[TOTALS]))
        self._rows = ChangedRows(LAYOUT, txn, chunks=tables[CHUNKS], recent=tables[RECENT])
        self._changes: dict[int, Callable[[Any, FoldEvent], None]] = {
            EventType.MESSAGE_REVISION: self._revise, EventType.MESSAGE_TAG: self._tag,
            EventType.MESSAGE_ERASED: self._erase,
        }  # fmt: skip

    def apply(self, event: FoldEvent) -> None:
        """Apply one event about a message."""
        header = event.header
        if header.type == EventType.MESSAGE:
            self._say(header, event)
            return
        row = self._rows.row(self._cursor_of(header.subject))
        _check(header, int(row["state"]))
        row["state"] = header.to_state
        change = self._changes.get(header.type)
        if change is not None:
            change(row, event)

    def _say(self, header: Header, event: FoldEvent) -> None:
        if header.subject is None:
            raise JournalCorrupt(f"the message at cursor {header.cursor} has no id")
        _check(header, MessageState.ABSENT)
        key, message_id = cursor_key(header.cursor), header.subject.encode()
        if not self._txn.put(message_id, key, overwrite=False, db=self._tables[NAMES]):
            raise JournalCorrupt(f"the message at cursor {header.cursor} repeats an id")
        self._txn.put(key, message_id, append=True, db=self._tables[SUBJECTS])
        self._totals.last_message = header.cursor
        owner = owner_number(self._key, header.actor.principal)
        row = self._rows.row(header.cursor)
        row["state"], row["owner"], row["text_cursor"] = header.to_state, owner, header.cursor
        try:
            said = event.payload()
        except BlobMissing:  # a lost message must not keep the others from being folded, nor be taken for none
            self._lose(row, LOST)
            return
        if said is None:  # erased since: a later event says so
            return
        row["known"] = KNOWN
        row["role"] = ROLES[said["role"]]
        row["created_at"] = said.get("created_at", header.recorded_at)
        row["characters"] = len(said["message"])
        for column, field in _FIELDS.items():
            row[column] = self._number(owner, column, said.get(field))

    def _revise(self, row: Any, event: FoldEvent) -> None:
        row["text_cursor"] = event.header.cursor
        try:
            said = event.payload()
        except BlobMissing:
            self._lose(row, TEXT_LOST)
            return
        if said is None:
            return
        row["characters"] = len(said["message"])
        if row["known"] == TEXT_LOST:  # the text that was lost is no longer the newest
            row["known"] = KNOWN
            self._totals.lost -= 1

    def _tag(self, row: Any, event: FoldEvent) -> None:
        try:
            said = event.payload()
        except BlobMissing:
            return
        if said is not None:
            row["tag"] = self._number(int(row["owner"]), "tag", said.get("p_tag"))
            row["tags_cursor"] = event.header.cursor

    def _erase(self, row: Any, event: FoldEvent) -> None:
        self._totals.lost -= int(row["known"] > KNOWN)
        for name in ROW.names or ():
            row[name] = 0
        row["state"] = event.header.to_state

    def _lose(self, row: Any, mark: int) -> None:
        """Mark a message as lost, unless it is already."""
        if row["known"] <= KNOWN:
            row["known"] = mark
            self._totals.lost += 1

    def _number(self, owner: int, field: str, name: str | None) -> int:
        return NONE if name is None else name_number(self._key, owner, field, name)

    def _cursor_of(self, message_id: str | None) -> int:
        found = None if message_id is None else self._txn.get(message_id.encode(), db=self._tables[NAMES])
        if found is None:
            raise JournalCorrupt("an event names a message that was never said")
        return int.from_bytes(found, "big")

    def finish(self, cursor: int) -> None:
        """Write what was kept back; ``cursor`` is the last event's."""
        if self._rows.write(cursor, self._totals):
            self._txn.put(b"totals", encode_totals(self._totals), db=self._tables[TOTALS])


def _check(header: Header, state: int) -> None:
    """Check a transition against the legal ones, and against the state that the fold knows."""
    legal = LEGAL.get((EventType(header.type), MessageState(state)), ())
    if header.from_state != state or header.to_state not in legal:
        raise JournalCorrupt(f"the event at cursor {header.cursor} is no legal transition of a message")
