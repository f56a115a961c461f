"""Recipients: who can open what is sealed for them, by a key pair that no store holds.

Sealing is HPKE (RFC 9180), base mode, DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM: one shot, 32 bytes of
encapsulated key before the ciphertext. ``info`` is bound and not encrypted.

    recipient   engram-recipient-<64 hex digits>   public; may be written down anywhere
    identity    engram-identity-<64 hex digits>    secret; one line of a file of mode 0600, kept away from the store
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hpke
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from journal.errors import BackupInvalid, StoreUnavailable
from journal.rootkey import flush_directory

_RECIPIENT = re.compile(r"engram-recipient-([0-9a-f]{64})", re.ASCII)
_IDENTITY = re.compile(r"engram-identity-([0-9a-f]{64})", re.ASCII)
_TEXT_MAX_BYTES = 4_096
_SUITE = hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_256_GCM)


@dataclass(frozen=True, slots=True)
class Recipient:
    """A public key, 32 bytes."""

    raw: bytes

    @classmethod
    def parse(cls, text: str) -> Recipient:
        """Return the recipient of a text.

        Raises:
            ValueError: it is none.
        """
        found = _RECIPIENT.fullmatch(text.strip())
        if found is None:
            raise ValueError("a recipient is engram-recipient- and 64 hex digits")
        parsed = cls(bytes.fromhex(found[1]))
        try:
            parsed.seal(b"", b"")
        except ValueError:
            raise ValueError("this recipient is one that nobody can be: engram keys recipient makes one") from None
        return parsed

    def text(self) -> str:
        """Return the recipient as a text."""
        return f"engram-recipient-{self.raw.hex()}"

    def seal(self, plaintext: bytes, info: bytes) -> bytes:
        """Return what only this recipient's identity opens.

        Raises:
            ValueError: the key is one of the few that X25519 forbids.
        """
        return _SUITE.encrypt(plaintext, X25519PublicKey.from_public_bytes(self.raw), info=info)


@dataclass(frozen=True, slots=True)
class Identity:
    """A private key, 32 bytes."""

    raw: bytes = field(repr=False)

    @property
    def recipient(self) -> Recipient:
        """Who is sealed for to reach this identity."""
        return Recipient(X25519PrivateKey.from_private_bytes(self.raw).public_key().public_bytes_raw())

    def open(self, sealed: bytes, info: bytes) -> bytes:
        """Return what was sealed for this identity.

        Raises:
            BackupInvalid: it was not, or not with this info, or it was altered.
        """
        try:
            return _SUITE.decrypt(sealed, X25519PrivateKey.from_private_bytes(self.raw), info=info)
        except (InvalidTag, ValueError):
            raise BackupInvalid("what was sealed does not open: it was altered") from None


def create_identity_file(path: Path) -> Recipient:
    """Write a new identity, mode 0600, and return its recipient; an existing file is refused with FileExistsError."""
    identity = Identity(X25519PrivateKey.generate().private_bytes_raw())
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="ascii") as file:
        file.write(f"engram-identity-{identity.raw.hex()}\n")
        file.flush()
        os.fsync(file.fileno())
    flush_directory(path.parent)
    return identity.recipient


def load_identity(path: Path) -> Identity:
    """Return the identity of a file.

    Raises:
        StoreUnavailable: it cannot be read, is open to others, or holds no identity. The detail never holds it.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(_TEXT_MAX_BYTES)
    except OSError as error:
        raise StoreUnavailable(f"the identity file {path} cannot be read: {error.strerror}") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise StoreUnavailable(f"the identity file {path} is open to others: chmod 600 it")
    found = _IDENTITY.fullmatch(text.decode("ascii", "replace").strip())
    if found is None:
        raise StoreUnavailable(f"{path} holds no identity: engram keys recipient makes one")
    return Identity(bytes.fromhex(found[1]))
