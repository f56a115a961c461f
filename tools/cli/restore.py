"""engram restore: a store from a backup and its keys, with what was forgotten since; whole, or nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tools.cli import progress, terminal
from tools.cli.options import config_file, config_option, json_option
from tools.cli.output import give
from tools.host.file import HostFile, load_host_file

if TYPE_CHECKING:
    from replay.restore import Restored

_FILE = click.Path(path_type=Path)


@click.command()
@click.argument("file", metavar="FILE", type=_FILE)
@click.option("--keys", "keys", metavar="FILE", type=_FILE, required=True, help="The key backup.")
@click.option("--identity", metavar="FILE", type=_FILE, required=True, help="The identity it was sealed to.")
@click.option(
    "--ledger", "ledgers", metavar="FILE", type=_FILE, multiple=True,
    help="A newer erasure ledger, or a newer backup; may be repeated.",
)  # fmt: skip
@click.option("--to", "target", metavar="DIR", type=_FILE, help="A copy elsewhere, to look at; else the host's store.")
@click.option("--accept-loss", is_flag=True, help="Restore even where the key backup lacks keys of live contents.")
@config_option
@json_option
def command(
    *, file: Path, keys: Path, identity: Path, ledgers: tuple[Path, ...], target: Path | None, accept_loss: bool
) -> None:
    """Restore the store that the host file names, or a copy of it elsewhere. The place must be new or empty.

    What was forgotten stays forgotten: where more is known of the store than the files tell, this is refused.
    """
    from journal.recipients import load_identity
    from replay.restore import Plan, restore
    from replay.room import told_of_room
    from tools.host.outside import outside

    host_file = load_host_file(config_file())
    place = host_file.store_path if target is None else Path.cwd() / target
    root_key, before_naming, undo = _root_key(host_file)
    plan = Plan(
        backup=file, keys=keys, identity=load_identity(identity), ledgers=ledgers, target=place, root_key=root_key,
        outside=outside(host_file.anchor), replaces=target is None, accept_loss=accept_loss,
        before_naming=before_naming,
    )  # fmt: skip
    try:
        with told_of_room(place), progress.bar("restore") as report_progress:
            restored = restore(plan, report_progress)
    except BaseException:
        undo()
        raise
    give(_facts(place, restored), lambda: _told(place, restored))


def _root_key(host_file: HostFile) -> tuple[bytes | None, Any, Any]:
    """Return the host's root key, what writes the backed-up one where the host's file is missing, and its undoing."""
    from journal.rootchange import root_key_in_force
    from journal.rootkey import write_root_key_file

    source = host_file.root_key
    path = Path(source.where[0]) if source.kind == "file" else None
    if path is None or path.exists():
        # A copy elsewhere is made beside a store whose root key may be half replaced: the old one is on its way out.
        return root_key_in_force(host_file.store_path, source), lambda _: None, lambda: None
    written: list[Path] = []

    def write(root_key: bytes) -> None:
        write_root_key_file(path, root_key)
        written.append(path)

    def undo() -> None:
        for each in written:
            each.unlink(missing_ok=True)

    return None, write, undo


def _facts(place: Path, restored: Restored) -> dict[str, Any]:
    return {
        "path": str(place),
        "store": restored.store,
        "keys_destroyed": restored.keys_destroyed,
        "ended_again": restored.ended_again,
        "lost": restored.lost,
        "set_aside": [str(path) for path in restored.set_aside],
        "not_set_aside": [str(path) for path in restored.not_set_aside],
        "scopes": [scope.as_json() for scope in restored.scopes],
    }


def _told(place: Path, restored: Restored) -> str:
    lines = [f"restored and audited: {place}, store {restored.store}"]
    lines += [
        f"scope {one.scope.tenant_id} / {one.scope.workspace_id}: up to cursor {one.head.cursor}"
        for one in restored.scopes
    ]
    lines.append(f"forgotten since the backup, and again now: {restored.ended_again}")
    if restored.lost:
        lines.append(f"contents without a key, lost: {restored.lost}")
    lines += [f"set aside, checkpoints of the history that was given up: {path}" for path in restored.set_aside]
    lines += [
        f"could not be set aside, so that an audit will call the store rolled back: move it yourself: {path}"
        for path in restored.not_set_aside
    ]
    return "\n".join(map(terminal.one_line, lines))
