"""The provider onnx: the mean over the mask, inputs by name, a digest of every file, and words for what is missing."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from journal import limits
from projections.vector.providers import identity, make
from projections.vector.providers.port import EmbeddingFailed
from projections.vector.providers.settings import Settings
from tests.projections.vector.onnx_models import FLOAT, INT64, folder_of, looking_up, model, node, tensor, value

TABLE = np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 3, 4], [2, 0, 1]], np.float32)
KINDS = np.array([[0, 0, 0], [0, 0, 5]], np.float32)


def settings(folder, dimension=3):
    return Settings(provider="onnx", folder=folder, dimension=dimension)


def made_of(place, content=None, dimension=3, **parts):
    for package in ("onnxruntime", "tokenizers"):
        pytest.importorskip(package, reason="of the extra onnx")
    provider = make(settings(folder_of(place / "tiny", content or looking_up(TABLE), **parts), dimension))
    assert provider is not None
    return provider


def digest_of(folder, dimension=3):
    told = identity(settings(folder, dimension))
    assert told is not None
    return told.digest


def unit(*rows):
    mean = np.mean(rows, axis=0)
    return mean / np.linalg.norm(mean)


def refusal(place, **parts):
    with pytest.raises(EmbeddingFailed) as caught:
        made_of(place, **parts)
    assert not caught.value.retryable
    assert str(place) not in str(caught.value)
    return str(caught.value)


def test_a_vector_is_the_mean_of_what_the_tokens_give(tmp_path):
    provider = made_of(tmp_path)
    assert (provider.name, provider.model, provider.dimension, provider.leaves_machine) == ("onnx", "tiny", 3, False)
    made = provider.documents(["a", "a b", "a unknown", "\u1100\u1161"])
    assert made.dtype == np.float32
    cls, a, b, unknown, hangul = TABLE[1], TABLE[2], TABLE[3], TABLE[0], TABLE[4]
    wanted = [unit(cls, a), unit(cls, a, b), unit(cls, a, unknown), unit(cls, hangul)]
    assert np.allclose(made, wanted, atol=1e-6)
    assert np.array_equal(provider.queries(["a b"])[0], made[1]), "alike, and whatever stands beside it"
    assert provider.documents([]).shape == (0, 3)


def test_kinds_of_tokens_are_told_where_they_are_asked_for(tmp_path):
    (made,) = made_of(tmp_path, looking_up(TABLE, KINDS)).documents(["a"])
    assert np.allclose(made, unit(TABLE[1] + KINDS[0], TABLE[2] + KINDS[1]), atol=1e-6)


def test_what_the_mask_leaves_out_does_not_count(tmp_path):
    provider = made_of(tmp_path)
    real = provider._tokens.encode

    def padded(text):
        encoded = real(text)
        encoded.pad(6, pad_id=4)
        return encoded

    provider._tokens = type("Padding", (), {"encode": staticmethod(padded)})
    assert np.allclose(provider.documents(["a"])[0], unit(TABLE[1], TABLE[2]), atol=1e-6)


def test_an_output_of_another_name_is_found_by_its_shape(tmp_path):
    provider = made_of(tmp_path, looking_up(TABLE, output="whatever"))
    assert np.allclose(provider.documents(["a"])[0], unit(TABLE[1], TABLE[2]), atol=1e-6)


@pytest.mark.parametrize("by", ["limit", "config", "tokenizer"])
def test_of_a_long_text_what_the_model_reads_counts(tmp_path, monkeypatch, by):
    parts: dict[str, Any] = {}
    if by == "limit":
        monkeypatch.setattr(limits, "EMBEDDING_LOCAL_TOKENS", 2)
    elif by == "config":
        parts = {"config": {"max_position_embeddings": 2, "hidden_size": 3}}
    else:
        cut = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
        parts = {"truncation": cut}
    provider = made_of(tmp_path, **parts)
    assert np.array_equal(*provider.documents(["a", "a b b b"]))
    assert provider.documents(["a " * 10_000]).shape == (1, 3)


def test_every_file_is_in_the_digest_which_needs_no_library(tmp_path, monkeypatch):
    def digest(name, content=None, **parts):
        return digest_of(folder_of(tmp_path / name / "tiny", content or looking_up(TABLE), **parts))

    for name in ("one", "two", "three", "four"):
        (tmp_path / name).mkdir()
    with monkeypatch.context() as patched:
        for package in ("onnxruntime", "tokenizers"):
            patched.setitem(sys.modules, package, None)
        digests = [
            digest("one"),
            digest("two", looking_up(2 * TABLE)),
            digest("three", truncation={"max_length": 3}),
            digest("four", config={"max_position_embeddings": 3}),
        ]
        (tmp_path / "one" / "tiny" / "model.onnx_data").write_bytes(b"numbers")
        digests.append(digest_of(tmp_path / "one" / "tiny"))
        digests.append(digest_of(tmp_path / "one" / "tiny", 4))
        patched.setattr(limits, "EMBEDDING_LOCAL_TOKENS", 2)
        digests.append(digest_of(tmp_path / "one" / "tiny"))
    assert len(set(digests)) == len(digests)
    provider = made_of(tmp_path)
    assert digest_of(tmp_path / "tiny") == provider.digest == digests[0]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"no model", "no ONNX model"),
        (looking_up(TABLE)[:-20], "no ONNX model"),
        (model([node("Gather", ["t", "pixels"], "y")], [tensor("t", TABLE)], [value("pixels", INT64, "n", "m")],
               [value("y", FLOAT, "n", "m", 3)]), "other inputs"),
        (model([node("Gather", ["t", "input_ids"], "y")], [tensor("t", TABLE[:, 0])],
               [value("input_ids", INT64, "n", "m")], [value("y", FLOAT, "n", "m")]), "no numbers a token"),
    ],
    ids=["nonsense", "cut", "inputs", "outputs"],
)  # fmt: skip
def test_what_is_no_such_model_is_told(tmp_path, content, reason):
    assert reason in refusal(tmp_path, content=content)


def test_a_dimension_that_is_not_the_models_is_told(tmp_path):
    provider = made_of(tmp_path, dimension=4)
    with pytest.raises(EmbeddingFailed, match="3 numbers; the dimension is said to be 4"):
        provider.documents(["a"])


def test_a_text_that_the_model_cannot_read_is_a_failure_without_its_words(tmp_path):
    provider = made_of(tmp_path, looking_up(TABLE[:3]))
    with pytest.raises(EmbeddingFailed) as caught:
        provider.documents(["b"])
    assert "could not be run" in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_call_after_the_end_fails(tmp_path):
    provider = made_of(tmp_path)
    provider.close()
    with pytest.raises(EmbeddingFailed):
        provider.queries(["a"])


@pytest.mark.parametrize("package", ["onnxruntime", "tokenizers"])
def test_a_missing_package_is_told_with_the_mend(tmp_path, monkeypatch, package):
    folder = folder_of(tmp_path / "tiny", looking_up(TABLE))
    monkeypatch.setitem(sys.modules, package, None)
    if package == "onnxruntime":
        pytest.importorskip("tokenizers", reason="of the extra onnx")
    with pytest.raises(EmbeddingFailed, match=r"pip install 'engram-journal\[onnx\]'"):
        make(settings(folder))


def test_a_folder_without_a_file_is_told(tmp_path):
    with pytest.raises(EmbeddingFailed, match="FileNotFoundError"):
        make(settings(tmp_path / "nowhere"))
