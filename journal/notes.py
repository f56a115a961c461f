"""Signed notes (C2SP signed-note): a text, a blank line, and a line for each signature.

    text, ending in a line end
    <empty line>
    U+2014, space, key name, space, base64 of key id (4) || Ed25519 signature over the text (64)

    key id   the first 4 bytes of SHA-256(key name || 0x0A || 0x01 || public key)
    vkey     <key name>+<key id in hex>+<base64 of 0x01 || public key>: how a public key is handed on

Only what a known key signed may be believed; signatures of other keys, of witnesses for example, are passed over.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from journal import limits
from journal.errors import InvalidDigest

_ED25519 = b"\x01"
_DASH = "\u2014"
_KEY_ID_BYTES = 4


@dataclass(frozen=True, slots=True)
class PublicKey:
    """An Ed25519 public key (32 bytes) and the name under which it signs."""

    name: str
    raw: bytes

    @classmethod
    def of(cls, name: str, seed: bytes) -> PublicKey:
        """Return the public key of a 32-byte seed."""
        return cls(name, Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw())

    @classmethod
    def parse(cls, text: str) -> PublicKey:
        """Return the key that a vkey text gives.

        Raises:
            InvalidDigest: it is none, of another kind, or its key id is another key's.
        """
        name, _, rest = text.strip().partition("+")
        hexed, _, encoded = rest.partition("+")
        raw = _decoded(encoded)
        key = cls(name, raw[1:])
        if not _is_name(name) or raw[:1] != _ED25519 or len(key.raw) != limits.KEY_BYTES or key.key_id.hex() != hexed:
            raise InvalidDigest("not an Ed25519 public key as name+id+key")
        return key

    @property
    def key_id(self) -> bytes:
        """The 4 bytes that stand before a signature of this key."""
        return hashlib.sha256(self.name.encode() + b"\n" + _ED25519 + self.raw).digest()[:_KEY_ID_BYTES]

    @property
    def fingerprint(self) -> str:
        """16 hex digits that name this key in a path."""
        return hashlib.sha256(self.raw).hexdigest()[:16]

    def text(self) -> str:
        """Return the key as a vkey text, on one line and without a line end."""
        return f"{self.name}+{self.key_id.hex()}+{base64.b64encode(_ED25519 + self.raw).decode()}"

    def verifies(self, signature: bytes, text: str) -> bool:
        """Whether a signature over a text is this key's."""
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, text.encode())
        except (InvalidSignature, ValueError):
            return False
        return True


def signed(text: str, name: str, seed: bytes) -> str:
    """Return the note of a text, signed by a 32-byte Ed25519 seed. The same text always gives the same note.

    Raises:
        ValueError: the text cannot be one of a note.
    """
    if not text.endswith("\n") or not _is_clean(text) or not _is_name(name):
        raise ValueError("no text or key name of a note")
    signature = Ed25519PrivateKey.from_private_bytes(seed).sign(text.encode())
    encoded = base64.b64encode(PublicKey.of(name, seed).key_id + signature).decode()
    return f"{text}\n{_DASH} {name} {encoded}\n"


def opened(note: bytes, key: PublicKey) -> str:
    """Return the text of a note, verified by a key that is known.

    Signatures of unknown keys are passed over; one of the known key must be there, and each must verify.

    Raises:
        InvalidDigest: it is no note, or not signed by this key.
    """
    text, lines = _parted(note)
    own = [signature for name, key_id, signature in lines if (name, key_id) == (key.name, key.key_id)]
    if not own:
        raise InvalidDigest("a note without a signature of this key")
    if not all(key.verifies(signature, text) for signature in own):
        raise InvalidDigest("a note whose signature does not verify")
    return text


def unverified(note: bytes) -> str:
    """Return the text of a note, believed by nobody yet.

    Raises:
        InvalidDigest: it is no note.
    """
    return _parted(note)[0]


def _parted(note: bytes) -> tuple[str, list[tuple[str, bytes, bytes]]]:
    """Return a note's text, and (key name, key id, signature) of each line."""
    if len(note) > limits.NOTE_MAX_BYTES:
        raise InvalidDigest("a note is too long")
    try:
        whole = note.decode()
    except UnicodeDecodeError:
        raise InvalidDigest("a note is not UTF-8") from None
    text, gap, signatures = whole.rpartition("\n\n")
    if not gap or not signatures.endswith("\n") or not _is_clean(whole):
        raise InvalidDigest("not a signed note")
    return text + "\n", list(_signatures(signatures))


def _signatures(lines: str) -> Iterator[tuple[str, bytes, bytes]]:
    for line in lines[:-1].split("\n"):
        dash, _, rest = line.partition(" ")
        name, _, encoded = rest.partition(" ")
        raw = _decoded(encoded)
        if dash != _DASH or not _is_name(name) or len(raw) <= _KEY_ID_BYTES:
            raise InvalidDigest("a note has a line that is no signature")
        yield name, raw[:_KEY_ID_BYTES], raw[_KEY_ID_BYTES:]


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _is_clean(text: str) -> bool:
    """Whether a text has no ASCII control character but line ends."""
    return all(character >= " " or character == "\n" for character in text)


def _is_name(name: str) -> bool:
    return bool(name) and "+" not in name and not any(character.isspace() for character in name) and _is_clean(name)
