"""Keys an owner: what one principal's words and substrings are hashed under says nothing about another's.

An owner's tag is 16 bytes of the keyed BLAKE3 of its principal. The keys of its tokens and of its signatures are made
of the tag, so that a message can be written again by whoever may revise it.
"""

from __future__ import annotations

import threading
from typing import Final, NamedTuple

from blake3 import blake3

from journal import limits
from journal.sealing import subkey
from projections.lexical.keyed import TokenKey

OWNER_BYTES: Final = 16


class OwnerKeys(NamedTuple):
    """The keys of one owner."""

    words: TokenKey
    grams: TokenKey


class Owners:
    """The owners of one scope. Safe to share between threads; the keys of the latest are kept, with their memos."""

    def __init__(self, key: bytes) -> None:
        """Take the projection's 32-byte key.

        Raises:
            ValueError: not 32 bytes.
        """
        if len(key) != limits.KEY_BYTES:
            raise ValueError(f"a projection key has {limits.KEY_BYTES} bytes")
        self._tag_key = subkey(key, "messages owner")
        self._words_key = subkey(key, "messages words")
        self._grams_key = subkey(key, "messages grams")
        self._mutex = threading.Lock()
        self._kept: dict[bytes, OwnerKeys] = {}

    def __repr__(self) -> str:
        """Show nothing of the keys."""
        return "Owners(...)"

    def tag(self, principal: str) -> bytes:
        """Return the 16-byte tag of an owner."""
        return blake3(principal.encode("utf-8", "surrogatepass"), key=self._tag_key).digest(length=OWNER_BYTES)

    def keys(self, tag: bytes) -> OwnerKeys:
        """Return the keys of an owner's tag."""
        with self._mutex:
            keys = self._kept.pop(tag, None)
            if keys is None:
                words = blake3(tag, key=self._words_key).digest()
                keys = OwnerKeys(TokenKey(words), TokenKey(blake3(tag, key=self._grams_key).digest()))
            self._kept[tag] = keys
            if len(self._kept) > limits.MESSAGES_OWNERS_KEPT:
                del self._kept[next(iter(self._kept))]
            return keys
