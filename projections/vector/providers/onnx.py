"""A model out of a folder in ONNX, with the tokenizer beside it: model.onnx, tokenizer.json, config.json.

A vector is the mean of what the model gives for a text's tokens, those that the attention mask counts, brought to
length 1. Inputs are told by name: ``input_ids``, ``attention_mask``, ``token_type_ids`` where it is asked for. Nothing
is put before a text. Each text is run alone: in a batch its numbers would depend on its neighbours' lengths.

The numbers may lie in a file beside the model, as large ones do. No operator but the runtime's own is loaded, so that a
model runs no code of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from projections.vector.providers.texts import first_part

NAME = "onnx"

_MODEL, _TOKENS, _CONFIG = "model.onnx", "tokenizer.json", "config.json"
_MEND = install_extra("onnx")
_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids"})
_OUTPUTS = ("last_hidden_state", "token_embeddings")
_OUTPUT_DIMENSIONS = 3  # texts, tokens, numbers
_SILENT = 4  # of the runtime's log levels: it may quote a path or a name out of the model


class _Config(msgspec.Struct):
    max_position_embeddings: int | None = None


class Onnx:
    """The provider "onnx". A question and a document are embedded alike."""

    name = NAME
    leaves_machine = False

    def __init__(self, folder: Path, dimension: int) -> None:
        """Load the model.

        Raises:
            EmbeddingFailed: a package or the folder is not there, or the folder holds no such model.
        """
        bound = identity(folder, dimension)
        self.model, self.dimension, self.digest = bound.model, bound.dimension, bound.digest
        self._tokens = _tokens_of(folder)
        self._session, self._output = _session_of(folder)
        self._inputs = [each.name for each in self._session.get_inputs()]
        self._closed = False

    def documents(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of texts that are to be found; of a long one its first part counts."""
        return self._embed(texts)

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of texts that are searched for; of a long one its first part counts."""
        return self._embed(texts)

    def close(self) -> None:
        """End a call under way at its next text. The model is let go with the object."""
        self._closed = True

    def _embed(self, texts: Sequence[str]) -> Vectors:
        rows: list[list[float]] = []
        for text in texts:
            if self._closed:
                raise EmbeddingFailed("the provider was closed", retryable=True)
            rows.append(self._mean(first_part(text, limits.EMBEDDING_LOCAL_CHARACTERS)).tolist())
        return unit_rows(rows, len(texts), self.dimension)

    def _mean(self, text: str) -> NDArray[np.float64]:
        encoded = self._tokens.encode(text)
        mask = np.array([encoded.attention_mask], np.int64)
        known = {
            "input_ids": np.array([encoded.ids], np.int64),
            "attention_mask": mask,
            "token_type_ids": np.array([encoded.type_ids], np.int64),
        }
        if not mask.any():
            return np.ones(self.dimension)  # a text without a token says nothing
        try:
            (given,) = self._session.run([self._output], {name: known[name] for name in self._inputs})
        except Exception as error:  # noqa: BLE001 - the runtime raises nothing narrower; its text may quote the input
            raise EmbeddingFailed(f"the model could not be run ({type(error).__name__})") from None
        if given.shape[:2] != mask.shape:
            raise EmbeddingFailed("the model gives something else than numbers a token")
        counted = mask[0].astype(np.float64)[:, np.newaxis]
        mean: NDArray[np.float64] = (given[0].astype(np.float64) * counted).sum(axis=0) / counted.sum()
        return mean


def identity(folder: Path, dimension: int) -> Identity:
    """Return what the vectors of a folder's model are bound to; the model is not loaded.

    Raises:
        EmbeddingFailed: the folder lacks a file.
    """
    try:
        digest = model_digest(NAME, folder.name, _digest(folder), dimension)
    except OSError as error:
        raise _no_model(type(error).__name__) from None
    return Identity(name=NAME, model=folder.name, dimension=dimension, digest=digest, leaves_machine=False)


def _digest(folder: Path) -> bytes:
    """Return 32 bytes over everything of the folder that decides what a vector is, by name."""
    beside = [file for file in folder.glob(f"{_MODEL}*") if file.is_file() and file.name != _MODEL]
    config = [folder / _CONFIG] if (folder / _CONFIG).exists() else []
    hasher = blake3()
    for file in sorted([folder / _MODEL, folder / _TOKENS, *beside, *config]):
        hasher.update(blake3(file.name.encode()).digest() + blake3().update_mmap(file).digest())
    for decides in (limits.EMBEDDING_LOCAL_CHARACTERS, limits.EMBEDDING_LOCAL_TOKENS):
        hasher.update(decides.to_bytes(8, "little"))
    return hasher.digest()


def _tokens_of(folder: Path) -> Any:
    """Return the tokenizer, which cuts a text where the model ends to read."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise EmbeddingFailed(f"the provider onnx is not installed: {_MEND}") from None
    try:
        tokens = Tokenizer.from_str((folder / _TOKENS).read_text(encoding="utf-8", errors="replace"))
        file = folder / _CONFIG
        config = msgspec.json.decode(file.read_bytes(), type=_Config) if file.exists() else _Config()
    except OSError as error:
        raise _no_model(type(error).__name__) from None
    except Exception:  # noqa: BLE001 - the library raises nothing narrower
        raise _no_model(f"{_TOKENS} or {_CONFIG} is not one") from None
    told = (tokens.truncation or {}).get("max_length"), config.max_position_embeddings
    tokens.no_padding()
    tokens.enable_truncation(min([limits.EMBEDDING_LOCAL_TOKENS, *(each for each in told if each and each > 0)]))
    return tokens


def _session_of(folder: Path) -> tuple[Any, str]:
    """Return the loaded model, and the name of the output that has the numbers of each token."""
    try:
        import onnxruntime
    except ImportError:
        raise EmbeddingFailed(f"the provider onnx is not installed: {_MEND}") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = limits.EMBEDDING_THREADS
    options.log_severity_level = _SILENT
    try:
        session = onnxruntime.InferenceSession(str(folder / _MODEL), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001 - the runtime raises nothing narrower
        raise _no_model(type(error).__name__) from None
    if not {"input_ids"} <= {each.name for each in session.get_inputs()} <= _INPUTS:
        raise _no_model("it asks for other inputs than tokens, their mask and their kind")
    outputs = {each.name: each.shape for each in session.get_outputs()}
    fitting = [name for name, shape in outputs.items() if len(shape) == _OUTPUT_DIMENSIONS]
    for name in (*_OUTPUTS, *fitting):
        if name in fitting:
            return session, name
    raise _no_model("it gives no numbers a token")


def _no_model(reason: str) -> EmbeddingFailed:
    return EmbeddingFailed(f"the folder holds no ONNX model that can be used ({reason})")
