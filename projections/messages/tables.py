"""The named databases of the projection ``messages`` beside those of its index, and the rows in them.

    messages         cursor u64 -> owner's tag 16 bytes | signature's class u8 | its place u32 | length of the text in
                     terms u32 | counts by part (``parts.COUNTS``), one row a token of the document's forward entry
    owners           owner's tag -> messages in force u64
    signature_sizes  owner's tag, class u8 -> places given out u64
    signature_rows   owner's tag, class u8, level u8, number u32 -> the rows of a block, or of one that is not yet full:
                     cursor u64 | created_at u64 each, the cursor 0 where the message is gone or has another text now
    signatures       owner's tag, class u8, level u8, number u32 -> a signature (level 0, by place), a block of 64
                     (level 1; 2 where the large ones are no larger), a large block (level 2); ``signatures`` tells
                     what is in a block

Integers are little-endian, in keys big-endian. A document's digest, which orders what scores alike, is 2^64 - 1 -
created_at (8 bytes, big-endian), then the first 24 bytes of the id of the MESSAGE event: the newest comes first.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from projections.environment import Unusable
from projections.lexical.tables import DATABASES as INDEX_DATABASES
from projections.messages.owners import OWNER_BYTES
from projections.port import Reading, Tables, Writing

MESSAGES: Final = b"messages"
OWNERS: Final = b"owners"
SIGNATURE_SIZES: Final = b"signature_sizes"
SIGNATURE_ROWS: Final = b"signature_rows"
SIGNATURES: Final = b"signatures"
DATABASES: Final = (*INDEX_DATABASES, MESSAGES, OWNERS, SIGNATURE_SIZES, SIGNATURE_ROWS, SIGNATURES)

_MESSAGE: Final = struct.Struct(f"<{OWNER_BYTES}sBII")
_U64: Final = struct.Struct("<Q")
_KEY64: Final = struct.Struct(">Q")
_INSTANT_MAX: Final = 2**64 - 1
_EVENT_BYTES: Final = 24


@dataclass(frozen=True, slots=True)
class Place:
    """Where a signature stands among those of its owner: class, and place in the order of adding."""

    size: int
    at: int


NOWHERE: Final = Place(255, 0)
"""The place of the signature of a text that normalises to nothing."""


@dataclass(frozen=True, slots=True)
class MessageRow:
    """What is kept of a message in force, beside its document."""

    owner: bytes
    place: Place
    length: int  # of its text, in terms
    counts: bytes  # by part

    @classmethod
    def unpacked(cls, value: bytes) -> MessageRow:
        """Return the row of a value.

        Raises:
            Unusable: it is cut.
        """
        if len(value) < _MESSAGE.size:
            raise Unusable("a message's row is cut")
        owner, size, at, length = _MESSAGE.unpack_from(value)
        return cls(owner, Place(size, at), length, value[_MESSAGE.size :])


def document_digest(created_at: int, event_id: bytes) -> bytes:
    """Return the 32 bytes by which messages that score alike are ordered, the newest first.

    An instant before 1970 counts as 1970, so that no imported message can stop the fold.
    """
    return _KEY64.pack(_INSTANT_MAX - min(max(created_at, 0), _INSTANT_MAX)) + event_id[:_EVENT_BYTES]


def created_at(digest: bytes) -> int:
    """Return the instant in a document's digest, epoch ms."""
    return _INSTANT_MAX - int(_KEY64.unpack_from(digest)[0])


class MessageTables:
    """Typed reading of messages' rows and owners' counts inside one transaction."""

    def __init__(self, txn: Reading, databases: Tables) -> None:
        self._reading = txn
        self._databases = databases

    def row(self, cursor: int) -> MessageRow | None:
        """Return the row of the message of a cursor, if it is in force."""
        value = self._reading.get(_KEY64.pack(cursor), db=self._databases[MESSAGES])
        return None if value is None else MessageRow.unpacked(bytes(value))

    def rows(self) -> Iterator[tuple[int, MessageRow]]:
        """Give (cursor, row) of every message in force, by cursor."""
        for key, value in self._reading.cursor(db=self._databases[MESSAGES]).iternext():
            yield int(_KEY64.unpack(key)[0]), MessageRow.unpacked(bytes(value))

    def owned(self, owner: bytes) -> int:
        """Return how many messages of an owner are in force."""
        value = self._reading.get(owner, db=self._databases[OWNERS])
        return 0 if value is None else int(_U64.unpack(value)[0])

    def owners(self) -> dict[bytes, int]:
        """Return how many messages each owner has who has any."""
        items = self._reading.cursor(db=self._databases[OWNERS]).iternext()
        return {bytes(key): int(_U64.unpack(value)[0]) for key, value in items}


class WritableMessageTables(MessageTables):
    """Typed writing of messages' rows and owners' counts."""

    def __init__(self, txn: Writing, databases: Tables) -> None:
        super().__init__(txn, databases)
        self._writing = txn

    def put_row(self, cursor: int, row: MessageRow) -> None:
        """Write a message's row."""
        value = _MESSAGE.pack(row.owner, row.place.size, row.place.at, row.length) + row.counts
        self._writing.put(_KEY64.pack(cursor), value, db=self._databases[MESSAGES])

    def delete_row(self, cursor: int) -> None:
        """Remove a message's row."""
        self._writing.delete(_KEY64.pack(cursor), db=self._databases[MESSAGES])

    def put_owned(self, owner: bytes, messages: int) -> None:
        """Write how many messages an owner has; none is no row."""
        if messages:
            self._writing.put(owner, _U64.pack(messages), db=self._databases[OWNERS])
        else:
            self._writing.delete(owner, db=self._databases[OWNERS])
