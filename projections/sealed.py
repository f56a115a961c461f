"""Words at rest: what stands for them in a projection's tables.

A word that is only compared becomes a number of eight bytes, keyed, so that it cannot be guessed from outside. What
belongs to an owner has the owner mixed in, so that equal words of two owners do not show as equal. Text that must be
read back is sealed: AES-256-GCM under a key derived from the projection's, as ``nonce (12) || ciphertext || tag (16)``.
The associated data is the table and the row's key, so that no value can be moved to another place. Nonces are random;
a digest of the content is therefore taken over what was sealed, never over the sealed bytes.
"""

from __future__ import annotations

import os

import msgspec
from blake3 import blake3
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from journal import limits
from journal.sealing import subkey
from projections.environment import Unusable
from projections.port import Reading, Tables, Value

NONE = 0
"""The number that stands for no word; no word has it."""

_KEY_INFO = "projection-at-rest"
_NAMED = msgspec.msgpack.Encoder()


def _number(key: bytes, *named: str | int) -> int:
    return int.from_bytes(blake3(_NAMED.encode(named), key=key).digest(8), "little") or 1


def owner_number(key: bytes, owner: str) -> int:
    """Return the keyed number that stands for an owner; it fits 64 bits unsigned and is never 0."""
    return _number(key, "owner", owner)


def name_number(key: bytes, owner: int, field: str, name: str) -> int:
    """Return the keyed number that stands for a name in one field of one owner, given as the owner's number."""
    return _number(key, field, owner, name)


class Sealer:
    """Seals and opens a projection's values."""

    def __init__(self, key: bytes) -> None:
        """Take the projection's key (``Journal.projection_key``)."""
        self._key = subkey(key, _KEY_INFO)

    def seal(self, table: bytes, row: bytes, plaintext: bytes) -> bytes:
        """Return the sealed value of a row of a table."""
        nonce = os.urandom(limits.NONCE_BYTES)
        return nonce + AESGCM(self._key).encrypt(nonce, plaintext, _place(table, row))

    def unseal(self, table: bytes, row: Value, sealed: Value) -> bytes:
        """Return what was sealed.

        Raises:
            Unusable: it is not what was sealed for this place.
        """
        nonce, ciphertext = bytes(sealed[: limits.NONCE_BYTES]), bytes(sealed[limits.NONCE_BYTES :])
        try:
            return AESGCM(self._key).decrypt(nonce, ciphertext, _place(table, bytes(row)))
        except (InvalidTag, ValueError) as error:
            raise Unusable("a sealed value does not open") from error

    def digest(self, txn: Reading, databases: Tables, table: bytes) -> bytes:
        """Return the BLAKE3 of a table of sealed values, in key order, over what was sealed; no value: a lost one."""
        hasher = blake3(table + b"\0")
        for key, value in txn.cursor(db=databases[table]).iternext():
            row = bytes(key)
            plaintext = self.unseal(table, row, value) if len(value) else b""
            for part in (row, plaintext):
                hasher.update(len(part).to_bytes(4, "big") + part)
        return hasher.digest()


def _place(table: bytes, row: bytes) -> bytes:
    return table + b"\0" + row
