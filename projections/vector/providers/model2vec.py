"""A model2vec folder: a text's vector is the mean of its tokens' vectors, so a text takes well under a millisecond.

The folder holds model.safetensors (embeddings; of a model with a quantised vocabulary also mapping and weights),
tokenizer.json and, if it likes, config.json. Unknown tokens are left aside, as the model's own library does. A text
without one known token gets a vector that says nothing: all its numbers are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from journal import limits
from journal.extras import install_extra
from projections.vector.providers.port import EmbeddingFailed, Identity, Vectors, model_digest
from projections.vector.providers.rows import unit_rows
from projections.vector.providers.tensors import NoTensors, tensors_of
from projections.vector.providers.texts import first_part

_WEIGHTS, _TOKENS, _CONFIG = "model.safetensors", "tokenizer.json", "config.json"
_MEND = install_extra("model2vec")
_TABLE_DIMENSIONS = 2


class _Config(msgspec.Struct):
    max_length: int | None = 512  # the default of the model's own library


class Model2Vec:
    """The provider "model2vec". A question and a document are embedded alike."""

    name = "model2vec"
    leaves_machine = False

    def __init__(self, folder: Path) -> None:
        """Open the model; its numbers stay in the file, which must not change meanwhile.

        Raises:
            EmbeddingFailed: the package or the folder is not there, or the folder holds no such model.
        """
        self.model = folder.name
        with _told():
            self._tokens, self._unknown = _tokens_of(folder)
            tensors = tensors_of(folder / _WEIGHTS)
            self._table, self._rows, self._weights = _parts(tensors, self._tokens.get_vocab_size())
            self.dimension = int(self._table.shape[1])
            self.digest = model_digest(self.name, self.model, _digest(folder), self.dimension)

    def documents(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of texts that are to be found; of a long one its first part counts."""
        return self._embed(texts)

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of texts that are searched for; of a long one its first part counts."""
        return self._embed(texts)

    def close(self) -> None:
        """Do nothing: the file is let go with the object."""

    def _embed(self, texts: Sequence[str]) -> Vectors:
        rows = np.empty((len(texts), self.dimension), dtype=np.float64)
        for row, text in zip(rows, texts, strict=True):
            row[:] = self._mean(first_part(text, limits.EMBEDDING_LOCAL_CHARACTERS))
        return unit_rows(rows, len(texts), self.dimension)

    def _mean(self, text: str) -> NDArray[np.float64]:
        tokens = [each for each in self._tokens.encode(text, add_special_tokens=False).ids if each != self._unknown]
        ids = np.array(tokens, dtype=np.int64)
        vectors = self._table[ids if self._rows is None else self._rows[ids]].astype(np.float64)
        if self._weights is not None:
            vectors *= self._weights[ids, np.newaxis]
        mean: NDArray[np.float64] = vectors.mean(axis=0) if len(ids) else np.zeros(self.dimension)
        return mean if mean.any() else np.ones(self.dimension)


def identity(folder: Path) -> Identity:
    """Return what the vectors of a folder's model are bound to; of its numbers none is read but for the digest.

    Raises:
        EmbeddingFailed: the folder is not there, or holds no such model.
    """
    with _told():
        dimension = int(_table_of(tensors_of(folder / _WEIGHTS)).shape[1])
        digest = model_digest(Model2Vec.name, folder.name, _digest(folder), dimension)
    return Identity(
        name=Model2Vec.name, model=folder.name, dimension=dimension, digest=digest, leaves_machine=False
    )  # fmt: skip


@contextmanager
def _told() -> Iterator[None]:
    """Say of a folder that cannot be read why, without a word of what it holds."""
    try:
        yield
    except (OSError, NoTensors) as error:
        reason = str(error) if isinstance(error, NoTensors) else type(error).__name__
        raise EmbeddingFailed(f"the folder holds no model2vec model that can be read ({reason})") from None


def _tokens_of(folder: Path) -> tuple[Any, int | None]:
    """Return the tokenizer, and the token that stands for what is unknown."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise EmbeddingFailed(f"the provider model2vec is not installed: {_MEND}") from None
    content = (folder / _TOKENS).read_text(encoding="utf-8", errors="replace")
    config_file = folder / _CONFIG
    try:
        tokens = Tokenizer.from_str(content)
        config = msgspec.json.decode(config_file.read_bytes(), type=_Config) if config_file.exists() else _Config()
    except OSError:
        raise
    except Exception:  # noqa: BLE001 - the library raises nothing narrower
        raise NoTensors(f"{_TOKENS} or {_CONFIG} is not one") from None
    tokens.no_padding()
    if config.max_length is None:
        tokens.no_truncation()
    else:
        tokens.enable_truncation(max(1, config.max_length))
    model = msgspec.json.decode(tokens.to_str())["model"]
    unknown = model.get("unk_token")
    return tokens, model.get("unk_id") if unknown is None else tokens.token_to_id(unknown)


def _parts(
    tensors: dict[str, NDArray[Any]], vocabulary: int
) -> tuple[NDArray[Any], NDArray[Any] | None, NDArray[Any] | None]:
    """Return the vectors, which of them is a token's, and what it weighs; None: its own, and as much as any other."""
    table, rows, weights = _table_of(tensors), tensors.get("mapping"), tensors.get("weights")
    if rows is None and len(table) < vocabulary:
        raise NoTensors("there are fewer embeddings than tokens")
    if rows is not None:
        integral = rows.dtype.kind == "i" and rows.shape == (max(vocabulary, len(rows)),)
        if not integral or not len(rows) or rows.min() < 0 or rows.max() >= len(table):
            raise NoTensors("the mapping does not fit the tokens or the embeddings")
    if weights is not None and (weights.ndim != 1 or len(weights) < vocabulary):
        raise NoTensors("the weights do not fit the tokens")
    return table, rows, weights


def _table_of(tensors: dict[str, NDArray[Any]]) -> NDArray[Any]:
    table = tensors.get("embeddings")
    if table is None or table.ndim != _TABLE_DIMENSIONS or not 1 <= table.shape[1] <= limits.EMBEDDING_DIMENSION_MAX:
        raise NoTensors("there is no table of embeddings")
    return table


def _digest(folder: Path) -> bytes:
    """Return 32 bytes over everything of the folder that decides what a vector is."""
    files = [folder / name for name in (_WEIGHTS, _TOKENS, _CONFIG)]
    digests = [blake3().update_mmap(file).digest() if file.exists() else bytes(32) for file in files]
    return blake3(b"".join(digests) + limits.EMBEDDING_LOCAL_CHARACTERS.to_bytes(8, "little")).digest()
