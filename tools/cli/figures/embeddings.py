"""Figures of a scope's embeddings by the model that the host names; nothing, where it names none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from journal import layout
from tools.cli.figures.store import size_bytes

if TYPE_CHECKING:
    from journal.log import Journal
    from journal.scope import Scope
    from projections.vector.providers.port import Identity
    from projections.vector.providers.settings import Settings


def model_of(settings: Settings) -> Identity | str | None:
    """Return what a host's embeddings are bound to, or why that cannot be told; None where it names no provider."""
    if settings.provider == "none":
        return None
    from projections.vector.providers import identity
    from projections.vector.providers.port import EmbeddingFailed

    try:
        return identity(settings)
    except (EmbeddingFailed, ValueError) as error:
        return f"{settings.provider} cannot be had: {error}"


def embedding_figures(journal: Journal, scope: Scope, model: Identity | str) -> dict[str, Any]:
    """Return {provider, model, serves, embedded, wanted, failed, ..., mend} as JSON, or {unavailable}."""
    if isinstance(model, str):
        return {"unavailable": model}
    from projections.vector.folders import Folders, folder_name
    from tools.cli.checkup import embeddings

    folder = folder_name(model.digest)
    looked = embeddings.found(journal.path, scope, folder, journal.store.view)
    path = Folders(journal.path / layout.PROJECTIONS, scope).path / folder
    return {
        "provider": model.name,
        "model": model.model,
        "dimension": model.dimension,
        "model_digest": model.digest.hex(),
        "serves": looked.serves,
        "other_models": looked.others,
        "embedded": looked.progress.embedded,
        "wanted": looked.progress.wanted,
        "failed": looked.progress.failed,
        "failed_by_reason": {why: looked.resting[why] for why in ("unavailable", "refused", "lost")},
        "readable": looked.readable,
        "size_bytes": size_bytes(path) if path.exists() else 0,
        "mend": _mend(looked),
    }


def _mend(looked: Any) -> str | None:
    if not looked.readable or looked.progress.failed:
        return looked.mend or "engram projections rebuild vector makes them anew"
    if looked.progress.wanted:
        return "engram serve embeds them behind its calls, engram projections rebuild vector does so now"
    return None


def told(figures: dict[str, Any]) -> str:
    """Return the figures for a person."""
    if "unavailable" in figures:
        return str(figures["unavailable"])
    line = f"{figures['provider']} ({figures['model']}): {figures['embedded']} embedded, {figures['wanted']} wanted"
    reasons = [f"{count} {why}" for why, count in figures["failed_by_reason"].items() if count]
    line += f", {figures['failed']} failed" + (f" ({', '.join(reasons)})" if reasons else "")
    return line + (f"; {figures['mend']}" if figures["mend"] else "")
