"""The digest of a generation's logical content: what two rebuilds on two machines agree on.

BLAKE3 over the digest of the index (``lexical.contents``), then two parts, each with its count as u64:

1. the owners: rows of tag (16 bytes) and count of messages in force (u64), by tag;
2. the messages in force, by cursor: cursor u64, tag, length of the text in terms (u32), the counts by part (their size
   as u32 first), the BLAKE3 of the signature (of nothing where the text normalises to nothing).

Integers are little-endian. Places, blocks and what is gone have no part in it. What a search relies on besides is
checked: a generation that contradicts itself, or cannot be read, has a digest that no generation has.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from typing import Final

import numpy as np
from blake3 import blake3

from projections.environment import Unusable
from projections.lexical import contents as index_contents
from projections.lexical.consistency import UNREADABLE
from projections.lexical.tables import IndexTables
from projections.messages.parts import COUNTS, Parts
from projections.messages.shelves import Shelf, shelf_names
from projections.messages.tables import NOWHERE, MessageRow, MessageTables, Place, created_at
from projections.port import Reading, Tables

_U64: Final = struct.Struct("<Q")
_OWNER: Final = struct.Struct("<16sQ")
_MESSAGE: Final = struct.Struct("<Q16sI")
_U32: Final = struct.Struct("<I")
Signed = tuple[bytes, Place, int, bytes]
"""What stands on the shelves of a message: owner, place, created_at, and the BLAKE3 of the signature."""


def content_digest(txn: Reading, databases: Tables) -> bytes:
    """Return the 32-byte digest of what a generation holds."""
    try:
        return _digest(txn, databases)
    except UNREADABLE:
        return blake3(b"messages that contradict themselves").digest()


def _digest(txn: Reading, databases: Tables) -> bytes:
    index, messages = IndexTables(txn, databases), MessageTables(txn, databases)
    hasher = blake3(index_contents.content_digest(index))
    rows = dict(messages.rows())
    owners = messages.owners()
    _agree(owners == Counter(row.owner for row in rows.values()))
    hasher.update(_U64.pack(len(owners)) + b"".join(_OWNER.pack(*item) for item in sorted(owners.items())))
    hasher.update(_U64.pack(len(rows)))
    signed = dict(_signed(txn, databases))
    for (cursor, row), (document, ordinal) in zip(rows.items(), index.in_force(), strict=True):
        _agree(cursor == document)
        _agree(_weighs_alike(index, ordinal, row))
        hasher.update(_MESSAGE.pack(cursor, row.owner, row.length))
        hasher.update(_U32.pack(len(row.counts)) + row.counts)
        instant = created_at(index.rows(np.array([ordinal], np.uint32))[0]["digest"].tobytes())
        if row.place == NOWHERE:
            hasher.update(blake3().digest())
            continue
        *standing, bits = signed.pop(cursor, (b"", NOWHERE, 0, b""))
        _agree(standing == [row.owner, row.place, instant])
        hasher.update(bits)
    _agree(not signed)
    return hasher.digest()


def _weighs_alike(index: IndexTables, ordinal: int, row: MessageRow) -> bool:
    """Whether a document's forward entry is what its counts weigh."""
    document = index.forward(ordinal)
    if len(row.counts) != COUNTS.itemsize * len(document.impacts):
        return False
    return Parts.of(document, row.length, row.counts).weighed() == (document, row.counts)


def _signed(txn: Reading, databases: Tables) -> Iterator[tuple[int, Signed]]:
    """Give what stands on the shelves, by cursor."""
    seen: set[int] = set()
    for owner, size in shelf_names(txn, databases):
        shelf = Shelf(txn, databases, owner, size)
        rows = shelf.all_rows()
        _agree(rows.size == shelf.size)
        for first, signatures in shelf.stretches():
            for at, signature in enumerate(signatures, first):
                cursor = int(rows["cursor"][at])
                if not cursor:
                    continue
                _agree(cursor not in seen)
                seen.add(cursor)
                bits = blake3(signature.tobytes()).digest()
                yield cursor, (owner, Place(size, at), int(rows["created_at"][at]), bits)


def _agree(agreed: bool) -> None:  # noqa: FBT001 - it reads as what it says
    """Refuse a generation that contradicts itself.

    Raises:
        Unusable: it does.
    """
    if not agreed:
        raise Unusable("messages that contradict themselves")
