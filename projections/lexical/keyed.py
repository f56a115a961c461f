"""Keyed tokens: what stands in the index in the place of words.

A token is the first 16 bytes of the BLAKE3 of a term under the scope's token key. Without the key no term can be
tested against the index, and the index of one scope says nothing about another's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from blake3 import blake3

from journal import limits

TOKEN_BYTES: Final = 16


class TokenKey:
    """A scope's 32-byte token key, and a bounded memo of terms already hashed. Safe to share between threads."""

    def __init__(self, key: bytes) -> None:
        """Take the key.

        Raises:
            ValueError: not 32 bytes.
        """
        if len(key) != limits.KEY_BYTES:
            raise ValueError(f"a token key has {limits.KEY_BYTES} bytes")
        self._hasher = blake3(key=key)
        self._memo: dict[str, bytes] = {}

    def __repr__(self) -> str:
        """Show nothing of the key."""
        return "TokenKey(...)"

    def tokens(self, terms: Iterable[str]) -> list[bytes]:
        """Return the 16-byte tokens of terms, in their order."""
        remembered, hashed = self._memo.get, self._hash
        return [remembered(term) or hashed(term) for term in terms]

    def _hash(self, term: str) -> bytes:
        """Hash a term and remember its token. A lone surrogate is hashed as it stands."""
        hasher = self._hasher.copy()
        hasher.update(term.encode("utf-8", "surrogatepass"))
        token = hasher.digest(length=TOKEN_BYTES)
        if len(term) <= limits.LEXICAL_MEMO_WORD_CHARACTERS:
            if len(self._memo) >= limits.LEXICAL_MEMO_WORDS:
                self._memo.clear()
            self._memo[term] = token
        return token
