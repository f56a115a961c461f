"""Sealing: AES-256-GCM under a subkey of its own for each purpose.

A sealed part is ``nonce (12) || ciphertext || tag (16)``. The nonce is fresh and random each time. The associated data
binds a part to its format, purpose, scope, event and subject, so that no part can be moved to another place; it names
neither cursor nor record_id nor time, which are not known yet when a part is sealed.
"""

from __future__ import annotations

import hmac
from enum import Enum

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from journal import limits
from journal.errors import JournalCorrupt
from journal.events import FORMAT
from journal.scope import Scope

_AAD = msgspec.msgpack.Encoder()


class Purpose(Enum):
    """What a subkey is for. The value is the HKDF info and part of the associated data."""

    BODY = "body"
    LEDGER = "ledger"
    EMBEDDING = "embedding"
    NOTE = "note"


def subkey(key: bytes, info: str) -> bytes:
    """Return 32 bytes of HKDF-Expand (RFC 5869, SHA-256) of a random key: its one block, HMAC(key, info || 0x01)."""
    return hmac.digest(key, b"engram/" + info.encode() + b"\x01", "sha256")


def associated_data(purpose: Purpose, scope: Scope, event_id: bytes, subject: str | None) -> bytes:
    """Return the AAD: the MessagePack array [format, purpose, tenant, workspace, event_id, subject]."""
    return _AAD.encode((FORMAT, purpose.value, scope.tenant_id, scope.workspace_id, event_id, subject))


def seal(key: bytes, purpose: Purpose, aad: bytes, plaintext: bytes, nonce: bytes) -> bytes:
    """Return the sealed part of a plaintext under the key's subkey for a purpose; ``nonce`` is 12 random bytes."""
    return nonce + AESGCM(subkey(key, purpose.value)).encrypt(nonce, plaintext, aad)


def unseal(key: bytes, purpose: Purpose, aad: bytes, part: bytes) -> bytes:
    """Return the plaintext of a sealed part.

    Raises:
        JournalCorrupt: the part is not what was sealed under this key, purpose and place.
    """
    nonce, ciphertext = part[: limits.NONCE_BYTES], part[limits.NONCE_BYTES :]
    try:
        return AESGCM(subkey(key, purpose.value)).decrypt(nonce, ciphertext, aad)
    except (InvalidTag, ValueError) as error:
        raise JournalCorrupt(f"a sealed {purpose.value} part does not open") from error


def wrap(key: bytes | AESGCM, plain_key: bytes, aad: bytes, nonce: bytes) -> bytes:
    """Return a wrapped key: ``nonce (12) || ciphertext (32) || tag (16)``, 60 bytes for a 256-bit key.

    ``key`` is the wrapping key, or its cipher, for who wraps many.
    """
    cipher = key if isinstance(key, AESGCM) else AESGCM(key)
    return nonce + cipher.encrypt(nonce, plain_key, aad)


def unwrap(key: bytes | AESGCM, wrapped: bytes, aad: bytes) -> bytes | None:
    """Return the key that was wrapped, or None where it does not open; ``key``: its cipher, for who opens many."""
    try:
        cipher = key if isinstance(key, AESGCM) else AESGCM(key)
        return cipher.decrypt(wrapped[: limits.NONCE_BYTES], wrapped[limits.NONCE_BYTES :], aad)
    except (InvalidTag, ValueError):
        return None
