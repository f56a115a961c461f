"""Checkpoints (C2SP tlog-checkpoint): what a scope's tree was at a size, signed by the scope's own key.

    engram/<scope tag, 32 hex digits>      the origin, which is also the name of the key
    <size>                                 decimal, without leading zeros
    <root>                                 base64 of the RFC 6962 root at that size
    <empty line>
    <signature line>                       journal.notes

Whoever has the public key, and a checkpoint that is kept where the store's writer cannot change it, finds a tail that
was cut, a history that was rewritten, and a copy that went another way: without any key of the store.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass

from journal import limits, notes
from journal.errors import InvalidDigest
from journal.notes import PublicKey
from journal.scope import Scope

_TEXT = re.compile(r"(engram/[0-9a-f]{32})\n(0|[1-9][0-9]{0,19})\n([A-Za-z0-9+/]{43}=)\n")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A tree of a scope: its origin, its number of leaves, its root (32 bytes)."""

    origin: str
    size: int
    root: bytes

    @property
    def tag(self) -> bytes:
        """The tag of the scope."""
        return bytes.fromhex(self.origin.removeprefix("engram/"))

    def text(self) -> str:
        """Return the note's text."""
        return f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode()}\n"


def origin_of(scope: Scope) -> str:
    """Return the origin of a scope's checkpoints."""
    return f"engram/{scope.tag.hex()}"


def public_key(scope: Scope, seed: bytes) -> PublicKey:
    """Return the public key of a scope's signing seed."""
    return PublicKey.of(origin_of(scope), seed)


def sign(scope: Scope, size: int, root: bytes, seed: bytes) -> bytes:
    """Return the signed note of a scope's tree."""
    checkpoint = Checkpoint(origin_of(scope), size, root)
    return notes.signed(checkpoint.text(), checkpoint.origin, seed).encode()


def verified(note: bytes, key: PublicKey) -> Checkpoint:
    """Return the checkpoint of a note that a known key signed.

    Raises:
        InvalidDigest: it is no checkpoint, or not signed by this key, or another scope's.
    """
    checkpoint = _parsed(notes.opened(note, key))
    if checkpoint.origin != key.name:
        raise InvalidDigest("a checkpoint whose origin is not the name of its key")
    return checkpoint


def unverified(note: bytes) -> Checkpoint:
    """Return what a note claims: to find out which key must have signed it.

    Raises:
        InvalidDigest: it is no checkpoint.
    """
    return _parsed(notes.unverified(note))


def _parsed(text: str) -> Checkpoint:
    found = _TEXT.fullmatch(text)
    if found is None:
        raise InvalidDigest("not a checkpoint of a scope")
    origin, size, root = found.groups()
    if int(size) > limits.CURSOR_MAX or base64.b64encode(base64.b64decode(root)).decode() != root:
        raise InvalidDigest("a checkpoint with an impossible size or root")
    return Checkpoint(origin, int(size), base64.b64decode(root))
