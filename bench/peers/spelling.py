"""How terms are spelled for a peer: a word of its own script that every tokenizer leaves whole."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache


@lru_cache(maxsize=1 << 20)
def spelled(term: str) -> str:
    """Return ten hexadecimal digits for a term: 40 bits, as long as a word, and alike in all peers."""
    return hashlib.blake2b(term.encode(), digest_size=5).hexdigest()


def text_of(terms: Iterable[str]) -> str:
    """Return a text that a peer's tokenizer takes apart into these terms again."""
    return " ".join(map(spelled, terms))
