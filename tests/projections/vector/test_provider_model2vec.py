"""A model out of a folder: four tokens, worked out by hand."""

import json
import sys
from typing import Any

import numpy as np
import pytest

from journal import limits
from projections.vector.providers import make
from projections.vector.providers.port import EmbeddingFailed
from projections.vector.providers.settings import Settings

VECTORS = np.array([[9, 9], [1, 0], [0, 1], [3, 4]], dtype="<f4")
TOKENS: dict[str, Any] = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [],
    "normalizer": None,
    "pre_tokenizer": {"type": "Whitespace"},
    "post_processor": None,
    "decoder": None,
    "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "a": 1, "b": 2, "\uac00": 3}, "unk_token": "[UNK]"},
}
KINDS = {"f4": "F32", "f2": "F16", "i8": "I64", "i1": "I8"}


def folder_of(place, config=None, tokens=TOKENS, **tensors):
    place.mkdir(exist_ok=True)
    header, numbers = {}, b""
    for name, each in {"embeddings": VECTORS, **tensors}.items():
        end = len(numbers) + each.nbytes
        header[name] = {
            "dtype": KINDS[each.dtype.str[1:]],
            "shape": each.shape,
            "data_offsets": [len(numbers), end],
        }
        numbers += each.tobytes()
    encoded = json.dumps(header).encode()
    (place / "model.safetensors").write_bytes(len(encoded).to_bytes(8, "little") + encoded + numbers)
    (place / "tokenizer.json").write_text(json.dumps(tokens), encoding="utf-8")
    if config is not None:
        (place / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return place


def made_of(place, **parts):
    pytest.importorskip("tokenizers", reason="an extra")
    provider = make(Settings(provider="model2vec", folder=folder_of(place / "tiny", **parts)))
    assert provider is not None
    return provider


def test_a_vector_is_the_mean_of_the_known_tokens_brought_to_length_one(tmp_path):
    provider = made_of(tmp_path)
    assert (provider.name, provider.model, provider.dimension) == ("model2vec", "tiny", 2)
    assert not provider.leaves_machine
    made = provider.documents(["a", "a b", "a unknown", "\uac00", "\u1100\u1161"])
    assert made.dtype == np.float32
    half = 0.5**0.5
    assert np.allclose(made, [[1, 0], [half, half], [1, 0], [0.6, 0.8], [0.6, 0.8]], atol=1e-6)
    assert np.array_equal(provider.queries(["a b"]), provider.documents(["a b"]))
    assert provider.documents([]).shape == (0, 2)


def test_a_text_without_a_known_token_says_nothing(tmp_path):
    half = 0.5**0.5
    assert np.allclose(made_of(tmp_path).documents(["", "unknown", "\ud800\0"]), [[half, half]] * 3)


def test_numbers_of_less_precision_are_read(tmp_path):
    for kind in ("<f2", "i1"):
        assert np.allclose(made_of(tmp_path, embeddings=VECTORS.astype(kind)).documents(["\uac00"]), [[0.6, 0.8]])


def test_a_quantised_vocabulary_maps_and_weighs_its_tokens(tmp_path):
    provider = made_of(
        tmp_path,
        embeddings=VECTORS[1:3],
        mapping=np.array([0, 1, 0, 1], dtype="<i8"),
        weights=np.array([1, 4, 3, 1], dtype="<f4"),
    )
    assert np.allclose(provider.documents(["a b"]), [[0.6, 0.8]])


def test_of_a_long_text_the_first_part_counts(monkeypatch, tmp_path):
    assert np.allclose(made_of(tmp_path, config={"max_length": 1}).documents(["a b"]), [[1, 0]])
    assert np.allclose(made_of(tmp_path, config={"max_length": None}).documents(["a b"]), [[0.5**0.5] * 2])
    monkeypatch.setattr(limits, "EMBEDDING_LOCAL_CHARACTERS", 2)
    assert np.allclose(made_of(tmp_path).documents(["a b"]), [[1, 0]])


def test_everything_that_decides_is_in_the_digest(tmp_path):
    other = json.loads(json.dumps(TOKENS).replace('"a": 1, "b": 2', '"a": 2, "b": 1'))
    parts = [{}, {"embeddings": VECTORS * 2}, {"tokens": other}, {"config": {"max_length": 7}}]
    digests = []
    for number, each in enumerate(parts):
        (tmp_path / str(number)).mkdir()
        digests.append(made_of(tmp_path / str(number), **each).digest)
    assert len(set(digests)) == len(parts)
    assert made_of(tmp_path / "0").digest == digests[0]


@pytest.mark.parametrize(
    "parts",
    [
        {"embeddings": VECTORS[:3]},
        {"embeddings": VECTORS.reshape(-1)},
        {"embeddings": VECTORS[:, :0]},
        {"mapping": np.array([0, 1, 2, 4], dtype="<i8")},
        {"mapping": np.array([0, 1, 2, -1], dtype="<i8")},
        {"mapping": np.array([0, 1, 2], dtype="<i8")},
        {"mapping": np.array([0, 1, 2, 3], dtype="<f4")},
        {"weights": np.array([1, 1, 1], dtype="<f4")},
        {"tokens": {}},
        {"config": {"max_length": "long"}},
    ],
)
def test_a_folder_that_does_not_fit_together_is_refused(tmp_path, parts):
    with pytest.raises(EmbeddingFailed) as caught:
        made_of(tmp_path, **parts)
    assert not caught.value.retryable


@pytest.mark.parametrize("missing", ["model.safetensors", "tokenizer.json"])
def test_a_folder_that_lacks_a_file_is_refused(tmp_path, missing):
    pytest.importorskip("tokenizers", reason="an extra")
    folder = folder_of(tmp_path / "tiny")
    (folder / missing).unlink()
    with pytest.raises(EmbeddingFailed, match="FileNotFoundError"):
        make(Settings(provider="model2vec", folder=folder))


def test_a_missing_package_is_told_with_the_mend(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(EmbeddingFailed) as caught:
        make(Settings(provider="model2vec", folder=folder_of(tmp_path / "tiny")))
    assert "pip install 'engram-journal[model2vec]'" in str(caught.value)
