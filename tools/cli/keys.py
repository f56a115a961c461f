"""engram keys: the keys of a scope, and the root key of the whole store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from journal.events import Actor
from tools.cli.failures import Refused
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
@click.option(
    "--erase", is_flag=True, help="Replace the root key too, for all scopes: what is left of destroyed keys is useless."
)
@click.option(
    "--new-root-key",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="With --erase, where the root key stands in no file: the file with the new one, made if it is not there.",
)
@config_option
@json_option
@workspace_option
def rotate(*, erase: bool, new_root_key: Path | None) -> None:
    """Make a new wrapping key for the scope and wrap every data key anew. Nothing that was sealed changes.

    With --erase every scope of the store gets one, under a new root key that takes the old one's place. What a disk
    may still hold of old key slots then opens only with the old root key: keep no copy of that. Servers that have the
    store open go on as soon as they find the new one where the host file says; one that cannot, as with a variable of
    its environment, answers STORE_UNAVAILABLE until it is restarted.
    """
    if erase:
        _replace(new_root_key)
        return
    if new_root_key is not None:
        raise click.UsageError("--new-root-key goes with --erase.")
    with opened_engine(readonly=False) as (engine, bound):
        epoch = engine.journal.rotate_keys(bound.scope, Actor(f"operator:{bound.operator}"))
    value = {"tenant_id": bound.scope.tenant_id, "workspace_id": bound.scope.workspace_id, "epoch": epoch}
    give(value, lambda: f"rotated: the wrapping key is now number {epoch}")


def _replace(new_root_key: Path | None) -> None:
    from journal.errors import StoreUnavailable
    from journal.rootchange import plan_for

    with opened_engine(readonly=False) as (engine, bound):
        source = bound.host_file.root_key
        try:
            plan = plan_for(source, new_root_key)
        except StoreUnavailable as error:
            raise Refused(error.detail or "") from None
        epochs = engine.journal.replace_root_key(plan, Actor(f"operator:{bound.operator}"))
    scopes = [
        {"tenant_id": scope.tenant_id, "workspace_id": scope.workspace_id, "epoch": epoch}
        for scope, epoch in epochs.items()
    ]
    value: dict[str, Any] = {"root_key": source.kind, "scopes": scopes}
    give(value, lambda: "\n".join(_said(source.kind, plan.new_file, len(scopes))))


def _said(kind: str, new_file: str, scopes: int) -> list[str]:
    lines = [f"replaced: a new root key, and new wrapping keys for {scopes} scope{'' if scopes == 1 else 's'}"]
    if kind == "file":
        return [
            *lines,
            "copies of the old root key open nothing here any more: replace the one that you keep elsewhere",
        ]
    where = {"env": "the environment variable", "command": "what the command reads", "keyring": "the OS keyring"}[kind]
    return [
        *lines,
        f"now put the key in {new_file} into {where}, remove that file, and restart what has the store open",
    ]
