"""engram keys: the keys of a scope, the root key of the whole store, and copies that are sealed to a recipient."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from journal import limits
from journal.events import Actor
from tools.cli import terminal
from tools.cli.counting import counted
from tools.cli.failures import Refused
from tools.cli.opening import check_store, opened_engine, reading
from tools.cli.options import config_file, config_option, json_option, workspace_option
from tools.cli.output import give


@click.group()
@config_option
@json_option
@workspace_option
def command() -> None:
    """Rotate keys, replace the root key; seal a copy of them to a recipient; list the copies."""


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


@command.command("recipient")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@config_option
@json_option
def recipient(file: Path) -> None:
    """Make an identity in FILE, which must not exist, and print the recipient that key backups are sealed to.

    Keep the file away from the store and from its backups: whoever has it and a key backup has the keys.
    """
    from journal.recipients import create_identity_file

    try:
        made = create_identity_file(Path.cwd() / file)
    except FileExistsError:
        raise Refused(f"{file} exists; nothing is overwritten") from None
    give({"identity": str(Path.cwd() / file), "recipient": made.text()}, made.text)


@command.command("backup")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--to", "to", metavar="RECIPIENT", required=True, help="Who alone can open it: engram keys recipient.")
@click.option(
    "--days", type=click.IntRange(1, limits.KEY_BACKUP_MAX_DAYS), default=limits.KEY_BACKUP_DEFAULT_DAYS,
    show_default=True, help="How long it is good for.",
)  # fmt: skip
@config_option
@json_option
def backup(file: Path, to: str, days: int) -> None:
    """Write the keys of every scope, and the root key, to FILE, sealed to a recipient; list it in the store."""
    from journal import layout
    from journal.recipients import Recipient
    from journal.rootchange import root_key_in_force, steady_root
    from replay.keybackup import write
    from tools.host.file import load_host_file

    try:
        sealed_to = Recipient.parse(to)
    except ValueError as error:
        raise click.UsageError(f"--to: {error}") from None
    host_file = load_host_file(config_file())
    try:
        with reading(host_file) as journal, steady_root(journal.path / layout.KEYS):
            root_key = root_key_in_force(journal.path, host_file.root_key)
            listed = write(journal, root_key, Path.cwd() / file, sealed_to, days)
    except FileExistsError as error:
        raise Refused(str(error)) from None
    give(
        msgspec.to_builtins(listed),
        lambda: terminal.one_line(
            f"keys of {counted(listed.scopes, 'scopes')}, sealed, good until {listed.expires_at}: {file}"
        ),
    )


@command.command("list")
@config_option
@json_option
def listing() -> None:
    """List the key backups that were ever made of this store: what was forgotten may still be readable with one."""
    from replay.keybackup import listed
    from tools.host.file import load_host_file

    host_file = load_host_file(config_file())
    check_store(host_file)
    found = listed(host_file.store_path)
    give(
        [msgspec.to_builtins(one) for one in found],
        lambda: (
            "\n".join(
                terminal.one_line(f"{one.made_at}  until {one.expires_at}  {one.file}  {one.recipient}")
                for one in found
            )
            or "none was made"
        ),
    )
