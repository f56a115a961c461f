"""The options that every command has. They may stand at the command or at its group, in either order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

_F = TypeVar("_F", bound=Callable[..., Any])
_CONFIG = "engram.config"
_JSON = "engram.json"
_WORKSPACE = "engram.workspace"
_TENANT = "engram.tenant"


def _remember(key: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    """Return a callback that keeps a given value where every nested context finds it."""

    def keep(ctx: click.Context, _parameter: click.Parameter, value: Any) -> None:
        if value:
            ctx.meta[key] = value

    return keep


def config_option(command: _F) -> _F:
    """Add ``--config FILE``."""
    return click.option(
        "--config",
        metavar="FILE",
        type=click.Path(path_type=Path),
        expose_value=False,
        callback=_remember(_CONFIG),
        help="The host file; else $ENGRAM_CONFIG, else the user's configuration folder.",
    )(command)


def json_option(command: _F) -> _F:
    """Add ``--json``."""
    return click.option(
        "--json",
        is_flag=True,
        expose_value=False,
        callback=_remember(_JSON),
        help="Print one JSON document.",
    )(command)


def workspace_option(command: _F) -> _F:
    """Add ``--workspace NAME`` and ``--tenant NAME``: together they name a scope."""
    add = click.option(
        "--workspace",
        metavar="NAME",
        expose_value=False,
        callback=_remember(_WORKSPACE),
        help="A workspace that the host file lists; else the one of the working directory's .engram-scope, else the "
        "host file's own.",
    )
    return add(tenant_option(command))


def tenant_option(command: _F) -> _F:
    """Add ``--tenant NAME``."""
    return click.option(
        "--tenant",
        metavar="NAME",
        expose_value=False,
        callback=_remember(_TENANT),
        help="A tenant that the host file binds somebody of; else the host file's own.",
    )(command)


def config_file() -> Path | None:
    """Return what ``--config`` named."""
    named: Path | None = _meta(_CONFIG)
    return named


def wants_json() -> bool:
    """Whether ``--json`` was given."""
    return bool(_meta(_JSON))


def workspace_name() -> str | None:
    """Return what ``--workspace`` named."""
    named: str | None = _meta(_WORKSPACE)
    return named


def tenant_name() -> str | None:
    """Return what ``--tenant`` named."""
    named: str | None = _meta(_TENANT)
    return named


def _meta(key: str) -> Any:
    return click.get_current_context().meta.get(key)


def check_size(name: str, text: str | None, max_bytes: int) -> None:
    """Refuse a text that a person types for the journal where it is empty, too long, or no text.

    Raises:
        click.UsageError: it is; ``name`` is what it is told by. None, for nothing given, is well.
    """
    try:
        size_bytes = 1 if text is None else len(text.encode())
    except UnicodeEncodeError:  # bytes on the command line that are no UTF-8
        size_bytes = 0
    if not 1 <= size_bytes <= max_bytes:
        raise click.UsageError(f"{name} takes 1 to {max_bytes} bytes of UTF-8")
