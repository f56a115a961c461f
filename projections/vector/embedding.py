"""An embedding as it is sealed.

    model      32  what made the vector (``providers.port.model_digest``)
    text       32  BLAKE3 of the text that was embedded, UTF-8
    dimension  u32 le
    vectors    float16 le each, one after the other: of the text's parts (``parts``)

Vectors of two models are never compared: one that names another model or another dimension than is asked for counts as
absent.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from projections.vector.parts import PARTS_MAX

_HEAD = struct.Struct("<32s32sI")
_NUMBER = np.dtype("<f2")

Vectors = NDArray[np.float16]
"""A row each part."""


def text_digest(text: str) -> bytes:
    """Return the 32 bytes by which a text is known to be the one that was embedded."""
    return blake3(text.encode("utf-8", "surrogatepass")).digest()


@dataclass(frozen=True, slots=True)
class Embedding:
    """The vectors of a text, and what they were made from."""

    model: bytes  # 32 bytes
    text: bytes  # 32 bytes
    vectors: Vectors

    def packed(self) -> bytes:
        """Return the bytes that are sealed."""
        return _HEAD.pack(self.model, self.text, self.vectors.shape[1]) + self.vectors.astype(_NUMBER).tobytes()


def unpacked(plaintext: bytes, model: bytes, dimension: int) -> Embedding | None:
    """Return the embedding of these bytes; None where it is another model's, or no embedding that can be used."""
    row_bytes = dimension * _NUMBER.itemsize
    count, rest = divmod(len(plaintext) - _HEAD.size, row_bytes)
    if rest or not 0 < count <= PARTS_MAX:
        return None
    made_by, text, size = _HEAD.unpack_from(plaintext)
    vectors = np.frombuffer(plaintext, _NUMBER, offset=_HEAD.size).reshape(count, dimension)
    if made_by != model or size != dimension or not np.isfinite(vectors).all():
        return None
    return Embedding(made_by, text, vectors)


def packable(rows: NDArray[Any], count: int, dimension: int) -> NDArray[np.float16] | None:
    """Return a provider's rows as they are kept, each brought to length 1; None where they cannot be used."""
    if rows.shape != (count, dimension) or not np.isfinite(rows).all():
        return None
    exact = rows.astype(np.float64)
    lengths = np.sqrt(np.sum(exact * exact, axis=1, keepdims=True))
    if not (lengths > 0).all():
        return None
    kept: NDArray[np.float16] = (exact / lengths).astype(np.float16)
    return kept
