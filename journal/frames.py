"""The frame: a header's bytes, and the two hashes taken over them.

A frame is the MessagePack array of ``Header``'s fields in their order (docs/design.md draws it). Everything in it is
authenticated twice: by the next event's ``prev`` (BLAKE3) and by the scope's Merkle tree (RFC 6962 SHA-256).
"""

from __future__ import annotations

import hashlib

import msgspec
from blake3 import blake3

from journal import legacy
from journal.digests import DIGEST_PREFIX
from journal.errors import JournalCorrupt
from journal.events import FORMAT, Header, known_type
from journal.foreign import UNREADABLE

GENESIS = bytes(32)
_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Header)
_PREFIX = msgspec.msgpack.Decoder()


def encode_frame(header: Header) -> bytes:
    """Return the header's frame."""
    return _ENCODER.encode(header)


def decode_frame(frame: bytes) -> Header:
    """Return the header of a frame, its format and type checked; an older format is upcast, its bytes stay.

    Raises:
        RegistryVersionUnavailable: a format or type that this release does not read.
        JournalCorrupt: not a frame.
    """
    try:
        header = _DECODER.decode(frame)
    except UNREADABLE as error:
        header = _upcast(frame, error)
    if header.format != FORMAT:
        header = _upcast(frame, None)
    known_type(header.type)
    return header


def _upcast(frame: bytes, error: Exception | None) -> Header:
    """Return the header of a frame of another format, as this release would have written it.

    Raises:
        RegistryVersionUnavailable: no upcaster leads from that format to this one. JournalCorrupt: not a frame.
    """
    try:
        fields = _PREFIX.decode(frame)
    except UNREADABLE:
        raise JournalCorrupt("a frame cannot be decoded") from error
    if not isinstance(fields, list) or not fields or not isinstance(fields[0], int) or fields[0] == FORMAT:
        raise JournalCorrupt("a frame cannot be decoded") from error
    try:
        return msgspec.convert(legacy.upcast(fields, FORMAT), Header)
    except UNREADABLE:
        raise JournalCorrupt("a frame of an older format cannot be read") from error


def frame_hash(frame: bytes) -> bytes:
    """Return the BLAKE3 of a frame: the next event's ``prev``."""
    return blake3(frame).digest()


def leaf_hash(frame: bytes) -> bytes:
    """Return the RFC 6962 leaf hash of a frame, SHA-256 over a zero byte and the frame."""
    return hashlib.sha256(b"\x00" + frame).digest()


def event_digest(frame: bytes) -> str:
    """Return the contract's ``event_digest``: ``sha256:`` and the leaf hash in hex."""
    return DIGEST_PREFIX + leaf_hash(frame).hex()


def part_digest(part: bytes) -> bytes:
    """Return the BLAKE3 of a sealed part's bytes, as a header holds it."""
    return blake3(part).digest()
