"""engram keys: the keys of a scope."""

from __future__ import annotations

import click

from journal.events import Actor
from tools.cli.opening import opened_engine
from tools.cli.options import config_option, json_option, workspace_option
from tools.cli.output import give


@click.group()
@config_option
@json_option
@workspace_option
def command() -> None:
    """Rotate keys."""


@command.command("rotate")
@config_option
@json_option
@workspace_option
def rotate() -> None:
    """Make a new wrapping key for the scope and wrap every data key anew. Nothing that was sealed changes."""
    with opened_engine(readonly=False) as (engine, bound):
        epoch = engine.journal.rotate_keys(bound.scope, Actor(f"operator:{bound.operator}"))
    value = {"tenant_id": bound.scope.tenant_id, "workspace_id": bound.scope.workspace_id, "epoch": epoch}
    give(value, lambda: f"rotated: the wrapping key is now number {epoch}")
