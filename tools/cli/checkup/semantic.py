"""The source of embeddings that the host file names: whether it can be had here. It is asked for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from projections.vector.providers import identity, make
from projections.vector.providers.port import EmbeddingFailed
from tools.cli.checkup.finding import Finding, fault, note

if TYPE_CHECKING:
    from projections.vector.providers.settings import Settings

_SETTING = "semantic.provider"


def check(settings: Settings) -> Iterator[Finding]:
    """Yield why searches cannot ask for meaning, or that what is remembered goes elsewhere."""
    try:
        provider = make(settings)
    except (EmbeddingFailed, ValueError) as error:
        yield fault(
            "SEMANTIC_UNAVAILABLE", _SETTING, f"{settings.provider} cannot be had: {error}",
            "do what it says, or set semantic.provider to none; searches by words work all the same",
        )  # fmt: skip
        return
    if provider is None:
        return
    if provider.leaves_machine:
        yield note(
            "SEMANTIC_ELSEWHERE", _SETTING, "what is remembered is sent to an endpoint that is not this machine",
            "name a provider on this machine, if that is not meant",
        )  # fmt: skip
    provider.close()


def embeddings_of(settings: Settings) -> dict[str, str] | None:
    """Return the folder in which these embeddings are kept, and how their model is told; no model is loaded.

    None where there are none, or where that cannot be told; ``check`` says why.
    """
    from projections.vector.folders import folder_name

    try:
        model = identity(settings)
    except (EmbeddingFailed, ValueError):
        return None
    return None if model is None else {"folder": folder_name(model.digest), "model": str(model)}
