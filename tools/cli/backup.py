"""engram backup: the journal of every scope in one file, while the store is served."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tools.cli import progress, terminal
from tools.cli.failures import Refused
from tools.cli.opening import opened_store
from tools.cli.options import config_option, json_option
from tools.cli.output import give

if TYPE_CHECKING:
    from replay.archive import Manifest


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--ledger", is_flag=True, help="The erasure ledger alone: what was forgotten, for an older backup.")
@config_option
@json_option
def command(*, file: Path, ledger: bool) -> None:
    """Write a backup of every scope to FILE, which must not exist, and check it. It holds no key.

    Keys travel separately: engram keys backup.
    """
    from replay.backup import write
    from replay.known import Point
    from tools.host.outside import note

    path = Path.cwd() / file
    try:
        with opened_store() as journal, progress.bar("backup") as report_progress:
            manifest = write(journal, path, ledger_only=ledger, progress=report_progress)
            note(
                journal,
                {entry.scope.tag.hex(): Point(entry.head_cursor, entry.head_hash) for entry in manifest.scopes},
            )
    except FileExistsError as error:
        raise Refused(str(error)) from None
    give(_facts(path, manifest), lambda: _told(path, manifest))


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
        f"scope {entry.tenant_id} / {entry.workspace_id}: up to cursor {entry.head_cursor}, {entry.erasures} ends"
        for entry in manifest.scopes
    ]
    return "\n".join(map(terminal.one_line, lines))
