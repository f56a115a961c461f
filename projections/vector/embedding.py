"""An embedding as it is sealed.

    model      32  what made the vector (``providers.port.model_digest``)
    text       32  BLAKE3 of the text that was embedded, UTF-8
    dimension  u32 le
    vector     float16 le each

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

_HEAD = struct.Struct("<32s32sI")
_NUMBER = np.dtype("<f2")

Vector = NDArray[np.float16]


def text_digest(text: str) -> bytes:
    """Return the 32 bytes by which a text is known to be the one that was embedded."""
    return blake3(text.encode("utf-8", "surrogatepass")).digest()


@dataclass(frozen=True, slots=True)
class Embedding:
    """A vector, and what it was made from."""

    model: bytes  # 32 bytes
    text: bytes  # 32 bytes
    vector: Vector

    def packed(self) -> bytes:
        """Return the bytes that are sealed."""
        return _HEAD.pack(self.model, self.text, len(self.vector)) + self.vector.astype(_NUMBER).tobytes()


def unpacked(plaintext: bytes, model: bytes, dimension: int) -> Embedding | None:
    """Return the embedding of these bytes; None where it is another model's, or no embedding that can be used."""
    if len(plaintext) != _HEAD.size + dimension * _NUMBER.itemsize:
        return None
    made_by, text, size = _HEAD.unpack_from(plaintext)
    vector = np.frombuffer(plaintext, _NUMBER, offset=_HEAD.size)
    if made_by != model or size != dimension or not np.isfinite(vector).all():
        return None
    return Embedding(made_by, text, vector)


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
