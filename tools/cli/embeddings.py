"""What ``engram projections`` says and does of the embeddings: nothing, where the host names no provider of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from tools.cli import progress, terminal
from tools.cli.failures import CannotRun
from tools.cli.options import config_file
from tools.host.file import load_host_file

if TYPE_CHECKING:
    from journal.log import Journal
    from journal.scope import Scope
    from projections.catchup import Projections
    from projections.vector.providers.port import Identity
    from projections.vector.providers.settings import Settings

NAME = "vector"


def named() -> Settings | None:
    """Return what the host file says of embeddings; None where it names no provider."""
    settings = load_host_file(config_file()).semantic
    return None if settings.provider == "none" else settings


def usable() -> Settings | None:
    """Return what ``named`` does; None, and a word of it on stderr, where its model cannot be had."""
    settings = named()
    if settings is None:
        return None
    try:
        _model(settings)
    except CannotRun as error:
        click.echo(f"engram: embeddings are left out: {error}", err=True)
        return None
    return settings


def are_kept(journal: Journal, scope: Scope) -> bool:
    """Whether any embedding of a scope may be there, of whatever model."""
    from replay import embeddings

    return embeddings.are_kept(journal, scope)


def status(journal: Journal, scope: Scope, settings: Settings) -> dict[str, Any]:
    """Return the row of ``status``, without the scope's name. No model is loaded."""
    from replay import embeddings

    model = _model(settings)
    found = embeddings.status(journal, scope, model)
    state = "absent" if found.digest is None and found.progress.total else found.progress.told()
    return {
        "version": embeddings.VERSION, "cursor": str(found.head_cursor if found.digest else 0),
        "head_cursor": str(found.head_cursor), "digest": found.digest, "state": state,
        **_figures(found, model),
    }  # fmt: skip


def verify(journal: Journal, scope: Scope, settings: Settings) -> dict[str, Any]:
    """Return the row of ``verify``, without the scope's name. No model is loaded."""
    from replay import embeddings

    found = embeddings.verify(journal, scope, _model(settings))
    return {
        "ok": found.ok, "live_digest": found.live_digest, "replayed_digest": found.replayed_digest, "rebuilt": False
    }  # fmt: skip


def rebuild(journal: Journal, projections: Projections, settings: Settings) -> dict[str, Any]:
    """Embed what is wanted, what rests too, and return the row of ``rebuild``, without the scope's name."""
    from projections.vector.providers import make
    from projections.vector.providers.port import EmbeddingFailed
    from replay import embeddings

    try:
        provider = make(settings)
    except (EmbeddingFailed, ValueError) as error:
        raise CannotRun(f"{settings.provider} cannot be had: {error}") from error
    assert provider is not None
    try:
        with progress.bar(f"embed by {provider.name}") as report:
            found = embeddings.rebuild(journal, projections, provider, report=report)
        if found.refusal:
            click.echo(f"engram: {provider.name}: {terminal.one_line(found.refusal)}", err=True)
        return {
            "version": embeddings.VERSION, "generation": found.folder, "cursor": str(found.head_cursor), "held": [],
            "state": found.progress.told(), **_figures(found, provider),
        }  # fmt: skip
    finally:
        provider.close()


def invalidate(journal: Journal, scope: Scope) -> None:
    """Throw the embeddings of a scope away, of whatever model."""
    from replay import embeddings

    embeddings.invalidate(journal, scope)


def is_whole(rows: Iterable[dict[str, Any]]) -> bool:
    """Whether nothing of the rows of ``rebuild`` is left to embed."""
    return not any(row.get("wanted") or row.get("failed") for row in rows)


def _model(settings: Settings) -> Identity:
    from projections.vector.providers import identity
    from projections.vector.providers.port import EmbeddingFailed

    try:
        model = identity(settings)
    except (EmbeddingFailed, ValueError) as error:
        raise CannotRun(f"{settings.provider} cannot be had: {error}") from error
    assert model is not None
    return model


def _figures(found: Any, model: Any) -> dict[str, Any]:
    return {
        "provider": model.name, "model": model.model, "embedded": found.progress.embedded,
        "wanted": found.progress.wanted, "failed": found.progress.failed,
    }  # fmt: skip
