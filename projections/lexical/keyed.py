"""Keyed tokens: what stands in the index in the place of words.

A token is the first 16 bytes of the BLAKE3 of a term under the scope's token key. Without the key no term can be
tested against the index, and the index of one scope says nothing about another's.
"""

from __future__ import annotations

import string
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
        self._memo = _Tokens(key)

    def __repr__(self) -> str:
        """Show nothing of the key."""
        return "TokenKey(...)"

    def tokens(self, terms: Iterable[str]) -> list[bytes]:
        """Return the 16-byte tokens of terms, in their order."""
        return list(map(self._memo.__getitem__, terms))


def is_met_again(word: str) -> bool:
    """Whether a word is worth remembering: long ones and long numbers are seldom met twice."""
    size = len(word)
    if size > limits.LEXICAL_MEMO_WORD_CHARACTERS:
        return False
    return size < limits.LEXICAL_MEMO_NUMBER_DIGITS or not word.strip(string.punctuation).isdigit()


class _Tokens(dict[str, bytes]):
    """The tokens of terms, each hashed when first asked for."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def __missing__(self, term: str) -> bytes:
        """Hash a term and remember its token. A lone surrogate is hashed as it stands."""
        token = blake3(term.encode("utf-8", "surrogatepass"), key=self._key).digest(length=TOKEN_BYTES)
        if is_met_again(term):
            if len(self) >= limits.LEXICAL_MEMO_WORDS:
                self.clear()
            self[term] = token
        return token
