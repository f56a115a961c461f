"""The proof that one event is in a scope's journal: a document that is checked with a public key and nothing else.

format       1
origin       engram/<scope tag>
cursor       decimal string
index        cursor - 1: the leaf's number
size         the tree's, as in the checkpoint
leaf_hash    hex; RFC 6962, over the frame
hashes       hex, the one nearest to the leaf first
frame        hex
checkpoint   the signed note
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from journal import checkpoints
from journal.checkpoints import Checkpoint
from journal.errors import InvalidDigest, InvalidSchema, JournalCorrupt, RegistryVersionUnavailable
from journal.foreign import UNREADABLE
from journal.frames import decode_frame, leaf_hash
from journal.proofs import inclusion_ranges, root_by_inclusion, roots_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from journal.events import Header
    from journal.notes import PublicKey
    from journal.store.port import Committed

FORMAT = 1


class Proof(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A proof of inclusion as it is written down."""

    format: int
    origin: str
    cursor: str
    index: int
    size: int
    leaf_hash: str
    hashes: tuple[str, ...]
    frame: str
    checkpoint: str


def prove(cursor: int, events: Iterator[Committed], checkpoint: Checkpoint, note: bytes) -> Proof:
    """Return the proof that the event at a cursor is under a checkpoint.

    Args:
        cursor: the event's, at most the checkpoint's size.
        events: the events from the first one on, up to the checkpoint's size.
        checkpoint: what the note says.
        note: the signed note.

    Raises:
        JournalCorrupt: the journal is another one than the checkpoint signed.
    """
    frames: list[bytes] = []

    def leaves() -> Iterator[bytes]:
        for event in events:
            if event.header.cursor == cursor:
                frames.append(event.frame)
            yield leaf_hash(event.frame)

    index = cursor - 1
    stream = leaves()
    path = roots_of(inclusion_ranges(index, checkpoint.size), stream)
    for _ in stream:  # the event may stand behind the last range
        pass
    leaf = leaf_hash(frames[0])
    if root_by_inclusion(index, checkpoint.size, leaf, path) != checkpoint.root:
        raise JournalCorrupt("the journal is another one than its newest checkpoint signed: run engram audit")
    return Proof(
        format=FORMAT, origin=checkpoint.origin, cursor=str(cursor), index=index, size=checkpoint.size,
        leaf_hash=leaf.hex(), hashes=tuple(each.hex() for each in path), frame=frames[0].hex(),
        checkpoint=note.decode(),
    )  # fmt: skip


def parsed(raw: bytes) -> Proof:
    """Return the proof that a document holds; nothing in it is believed yet.

    Raises:
        InvalidSchema: it is none. RegistryVersionUnavailable: its format is another.
    """
    try:
        proof = msgspec.json.decode(raw, type=Proof)
    except UNREADABLE as error:
        raise InvalidSchema("the file holds no proof of inclusion") from error
    if proof.format != FORMAT:
        raise RegistryVersionUnavailable(f"proof format {proof.format} is unknown; this release reads {FORMAT}")
    return proof


def verify(proof: Proof, key: PublicKey) -> Header:
    """Return the header of the event that a proof shows to be in the journal; only the key is taken on trust.

    Raises:
        InvalidDigest: the proof does not hold. JournalCorrupt, RegistryVersionUnavailable: its frame cannot be read.
    """
    checkpoint = checkpoints.verified(proof.checkpoint.encode(), key)
    try:
        frame, path = bytes.fromhex(proof.frame), [bytes.fromhex(each) for each in proof.hashes]
        leaf = leaf_hash(frame)
        root = root_by_inclusion(proof.index, checkpoint.size, leaf, path)
    except ValueError as error:
        raise InvalidDigest(f"the proof does not hold: {error}") from error
    if frame.hex() != proof.frame or tuple(each.hex() for each in path) != proof.hashes:
        raise InvalidDigest("the proof is not written in lower-case hex alone")
    if root != checkpoint.root or leaf.hex() != proof.leaf_hash:
        raise InvalidDigest("the proof does not hold: it leads to another root")
    header = decode_frame(frame)
    stated = (str(header.cursor), header.cursor - 1, checkpoint.size, checkpoint.origin)
    if stated != (proof.cursor, proof.index, proof.size, proof.origin):
        raise InvalidDigest("the proof states another place than it shows")
    if checkpoints.origin_of(header.scope) != checkpoint.origin:
        raise InvalidDigest("the proof's event is another scope's")
    return header
