"""engram backup: the journal of every scope in one file, while the store is served."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from journal.errors import StoreUnavailable
from tools.cli import progress, terminal
from tools.cli.counting import counted
from tools.cli.failures import Refused
from tools.cli.opening import reading
from tools.cli.options import config_file, config_option, json_option
from tools.cli.output import give
from tools.cli.output import note as say
from tools.host.file import HostFile, load_host_file

if TYPE_CHECKING:
    from journal.log import Journal
    from replay.archive import Manifest


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--ledger", is_flag=True, help="The erasure ledger alone: what was forgotten, for an older backup.")
@config_option
@json_option
def command(*, file: Path, ledger: bool) -> None:
    """Write a backup of every scope to FILE, which must not exist, and check it. It holds no key.

    Keys travel separately: engram keys backup. A checkpoint is signed first, so that the backup carries it; where that
    contradicts an earlier one, the store is not the one that it was, and nothing is written.
    """
    from replay.backup import write
    from replay.known import Point
    from tools.cli.elsewhere import refuse_rolled_back
    from tools.host.outside import note

    path = Path.cwd() / file
    try:
        host_file = load_host_file(config_file())
        with reading(host_file) as journal, progress.bar("backup") as report_progress:
            refuse_rolled_back(journal, host_file.anchor)
            _sign(journal, host_file)
            manifest = write(journal, path, ledger_only=ledger, progress=report_progress)
            note(
                journal,
                {entry.scope.tag.hex(): Point(entry.head_cursor, entry.head_hash) for entry in manifest.scopes},
            )
    except FileExistsError as error:
        raise Refused(str(error)) from None
    give(_facts(path, manifest), lambda: _told(path, manifest))


def _sign(journal: Journal, host_file: HostFile) -> None:
    """Sign a checkpoint of every scope; where none can be kept, the backup goes without and says so."""
    from journal.checkpointing import Checkpoints

    made = Checkpoints(journal, host_file.anchor, host_file.checkpoint_every_events)
    for scope in journal.store.scopes():
        try:
            made.write(scope)
        except StoreUnavailable as error:
            say(f"engram: no checkpoint was kept before the backup: {error.detail}")


def _facts(path: Path, manifest: Manifest) -> dict[str, Any]:
    return {
        "file": str(path),
        "kind": manifest.kind,
        "store": manifest.store,
        "made_at": manifest.made_at,
        "scopes": [
            {
                "tenant_id": entry.tenant_id,
                "workspace_id": entry.workspace_id,
                "head_cursor": str(entry.head_cursor),
                "head_hash": entry.head_hash,
                "root": entry.root,
                "erasures": entry.erasures,
            }
            for entry in manifest.scopes
        ],
    }


def _told(path: Path, manifest: Manifest) -> str:
    lines = [f"{manifest.kind} of store {manifest.store}, written and checked: {path}"]
    lines += [
        f"scope {entry.tenant_id} / {entry.workspace_id}: up to cursor {entry.head_cursor}, "
        f"{counted(entry.erasures, 'ends')}"
        for entry in manifest.scopes
    ]
    return "\n".join(map(terminal.one_line, lines))
