"""The digest of a generation's logical content: what two rebuilds on two machines agree on.

BLAKE3 over three parts, each with its count as u64:

1. the candidates that are not terminal: rows of key (16 bytes) and capture cursor, by key;
2. the documents in force, by capture cursor: their row (``tables``), the size of the forward entry (u32), the forward
   entry;
3. the postings in force, by token, then capture cursor: rows of token (16 bytes), cursor, impact (u8).

Integers are little-endian. Part 3 has its count at its end, which a stream knows no sooner. Ordinals, segments, chunks
and the dead have no part in it, so that it is independent of batches, merges and order. Parts 2 and 3 say the same
twice, so that a damage to either is seen. What else a search relies on is checked besides (``consistency``): a
generation that contradicts itself, or cannot be read, has a digest that no generation has.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
import numpy.typing as npt
from blake3 import blake3

from projections.lexical.consistency import UNREADABLE, is_consistent
from projections.lexical.keyed import TOKEN_BYTES
from projections.lexical.merging import merged
from projections.lexical.postings import Lists, token_rows
from projections.lexical.tables import IndexTables

_POSTING_ROW: Final = np.dtype([("token", f"V{TOKEN_BYTES}"), ("cursor", "<u8"), ("impact", "u1")])
_U64: Final = struct.Struct("<Q")
_U32: Final = struct.Struct("<I")


def content_digest(tables: IndexTables) -> bytes:
    """Return the 32-byte digest of what a generation holds."""
    try:
        if is_consistent(tables):
            return _digest(tables)
    except UNREADABLE:
        pass
    return blake3(b"a generation that contradicts itself").digest()


def _digest(tables: IndexTables) -> bytes:
    hasher = blake3()
    subjects = b"".join(key + cursor for key, cursor in tables.subjects())
    hasher.update(_U64.pack(len(subjects) // (TOKEN_BYTES + _U64.size)) + subjects)
    cursors = _hash_documents(hasher, tables)
    _hash_postings(hasher, tables, cursors)
    return hasher.digest()


def _hash_documents(hasher: blake3, tables: IndexTables) -> npt.NDArray[np.uint64]:
    """Hash the documents in force; return the capture cursor of every ordinal, 0 where none is in force."""
    cursors = np.zeros(tables.state().next_ordinal, np.uint64)
    in_force = list(tables.in_force())
    hasher.update(_U64.pack(len(in_force)))
    ordinals = np.array([ordinal for _, ordinal in in_force], np.uint32)
    for (cursor, ordinal), row in zip(in_force, tables.rows(ordinals), strict=True):
        entry = tables.forward(ordinal).forward
        hasher.update(row.tobytes() + _U32.pack(len(entry)) + entry)
        cursors[ordinal] = cursor
    return cursors


def _hash_postings(hasher: blake3, tables: IndexTables, cursors: npt.NDArray[np.uint64]) -> None:
    """Hash the postings in force, and at the end their count."""
    rows = tables.segments()
    count = 0
    for piece in merged([tables.segment(row.number) for row in rows], tables.dead(rows)):
        hasher.update(_posting_rows(piece, cursors).tobytes())
        count += piece.ids.size
    hasher.update(_U64.pack(count))


def _posting_rows(piece: Lists, cursors: npt.NDArray[np.uint64]) -> npt.NDArray[np.void]:
    """Return the rows of a piece, each list by cursor."""
    counts = np.diff(piece.starts)
    list_of = np.repeat(np.arange(counts.size), counts)
    order = np.lexsort((cursors[piece.ids], list_of))
    rows = np.empty(piece.ids.size, _POSTING_ROW)
    rows["token"] = token_rows(piece.high, piece.low)[list_of]
    rows["cursor"] = cursors[piece.ids][order]
    rows["impact"] = piece.impacts[order]
    return rows
