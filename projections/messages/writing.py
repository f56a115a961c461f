"""Writing what a batch changes beside the index: messages' rows, owners' counts, signatures."""

from __future__ import annotations

from collections import Counter

from projections.messages.delta import Changes, Written
from projections.messages.shelves import WritableShelf
from projections.messages.signatures import signature, size_class
from projections.messages.tables import NOWHERE, MessageRow, Place, WritableMessageTables
from projections.port import Tables, Writing


def write_changes(txn: Writing, databases: Tables, messages: WritableMessageTables, changes: Changes) -> None:
    """Write the net effect of a batch."""
    shelved = _Shelved(txn, databases)
    owned: Counter[bytes] = Counter()
    for cursor, row in changes.gone:
        shelved.take_away(row)
        messages.delete_row(cursor)
        owned[row.owner] -= 1
    for written in changes.written:
        place = shelved.place(written)
        messages.put_row(written.cursor, MessageRow(written.owner, place, written.length, written.counts))
        owned[written.owner] += written.before is None
    for owner, more in owned.items():
        if more:
            messages.put_owned(owner, messages.owned(owner) + more)


class _Shelved:
    """The shelves that a batch changes."""

    def __init__(self, txn: Writing, databases: Tables) -> None:
        self._txn = txn
        self._databases = databases
        self._shelves: dict[tuple[bytes, int], WritableShelf] = {}

    def _shelf(self, owner: bytes, size: int) -> WritableShelf:
        shelf = self._shelves.get((owner, size))
        if shelf is None:
            shelf = self._shelves[owner, size] = WritableShelf(self._txn, self._databases, owner, size)
        return shelf

    def take_away(self, row: MessageRow) -> None:
        """Take a message's signature away."""
        if row.place != NOWHERE:
            self._shelf(row.owner, row.place.size).take_away(row.place)

    def place(self, written: Written) -> Place:
        """Put a message's signature in its place, unless it stands there; return the place."""
        if written.before is not None:
            if written.hashes is None:
                return written.before.place
            self.take_away(written.before)
        if written.hashes is None or not written.hashes.size:
            return NOWHERE
        size = size_class(written.hashes.size)
        shelf = self._shelf(written.owner, size)
        return shelf.add(signature(size, written.hashes), written.cursor, written.created_at)
