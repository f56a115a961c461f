"""Signatures: which characters and pairs of neighbours a text holds, as a few hundred bits under a key.

A signature says of a text that it holds no such substring, or that it may. Its size goes by the text, in classes of
128 bytes and twice as much each, so that about a twelfth of the bits are set at most. Gram ``g`` sets bit ``h(g) mod
bits``, ``h`` being the first eight bytes, little-endian, of its keyed token.

A block holds the signatures of many texts turned round, so that a query reads the rows of its own bits alone: byte
``bit * rows / 8 + row // 8``, bit ``row % 8`` (least first) says whether ``bit`` is set in the signature of ``row``.
"""

from __future__ import annotations

from operator import add
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from journal import limits
from journal.identity import normalised
from journal.normal import beginning
from projections.lexical.keyed import TokenKey

Hashes = npt.NDArray[np.uint64]
Matrix = npt.NDArray[np.uint8]
GROUP_ROWS: Final = 64
"""So many signatures make a block; so many such blocks as fit make a large one."""


def grams(text: str) -> set[str]:
    """Return the characters of a normalised text and its pairs of neighbours."""
    return {*text, *map(add, text, text[1:])}


def text_hashes(key: TokenKey, text: str) -> Hashes:
    """Return the hashes of all grams of a text as it is written; none where it normalises to nothing."""
    return _hashes(key, list(grams(normalised(beginning(text, limits.SIGNATURE_TEXT_MAX_CHARACTERS)))))


def query_hashes(key: TokenKey, text: str) -> Hashes:
    """Return the hashes of as many grams of a normalised text as it takes, pairs first."""
    found = sorted(grams(text), key=lambda gram: (-len(gram), gram))
    return _hashes(key, found[: limits.MESSAGES_QUERY_GRAMS])


def _hashes(key: TokenKey, wanted: list[str]) -> Hashes:
    return np.frombuffer(b"".join(key.tokens(wanted)), "<u8")[::2]


def size_class(count: int) -> int:
    """Return the class for so many grams."""
    size = 0
    greatest = greatest_class()
    while size < greatest and count * limits.MESSAGES_SIGNATURE_BITS > 8 * class_bytes(size):
        size += 1
    return size


def class_bytes(size: int) -> int:
    """Return how many bytes a signature of a class has."""
    return limits.MESSAGES_SIGNATURE_LEAST_BYTES << size


def greatest_class() -> int:
    """Return the number of the greatest class."""
    return (limits.MESSAGES_SIGNATURE_MAX_BYTES // limits.MESSAGES_SIGNATURE_LEAST_BYTES).bit_length() - 1


def block_rows(size: int) -> int:
    """Return how many signatures a large block of a class holds."""
    return max(GROUP_ROWS, limits.MESSAGES_SIGNATURE_BLOCK_BYTES // class_bytes(size))


def positions(size: int, hashes: Hashes) -> npt.NDArray[np.int64]:
    """Return the distinct bits of hashes in a signature of a class."""
    return np.unique(hashes & np.uint64(8 * class_bytes(size) - 1)).astype(np.int64)


def signature(size: int, hashes: Hashes) -> bytes:
    """Return the signature of hashes in a class."""
    bits = np.zeros(8 * class_bytes(size), np.uint8)
    bits[positions(size, hashes)] = 1
    return np.packbits(bits, bitorder="little").tobytes()


def block_of(signatures: Matrix) -> bytes:
    """Return the block of signatures, one a row, in a number that eight divides."""
    bits = np.unpackbits(signatures, axis=1, bitorder="little")
    return np.packbits(bits.T, axis=1, bitorder="little").tobytes()


def signatures_of(block: Any, rows: int) -> Matrix:
    """Return the signatures of a block of so many rows, one a row."""
    bits = np.unpackbits(np.frombuffer(block, np.uint8).reshape(-1, rows // 8), axis=1, bitorder="little")
    return np.packbits(bits.T, axis=1, bitorder="little")


def rows_with(block: Any, rows: int, wanted: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the rows of a block in whose signatures all these bits are set."""
    found = np.bitwise_and.reduce(np.frombuffer(block, np.uint8).reshape(-1, rows // 8)[wanted], axis=0)
    if not found.any():
        return np.zeros(0, np.int64)
    return np.flatnonzero(np.unpackbits(found, bitorder="little"))
