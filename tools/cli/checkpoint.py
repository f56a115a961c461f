"""engram checkpoint: a signed checkpoint of the journal, in the store and outside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tools.cli import terminal
from tools.cli.failures import Refused
from tools.cli.opening import bound, reading
from tools.cli.options import config_option, json_option, workspace_option
from tools.cli.output import give, note

if TYPE_CHECKING:
    from journal.checkpointing import Written
    from journal.scope import Scope


@click.command()
@config_option
@json_option
@workspace_option
@click.option("--all", "every", is_flag=True, help="Of every scope of the store, not of the bound one alone.")
def command(*, every: bool) -> None:
    """Sign a checkpoint of the journal as it stands, keep it in the store and in the anchor outside, and print it.

    Nothing is signed that contradicts what was signed before: a store that was rolled back, cut or rewritten is
    refused.
    """
    from journal.checkpointing import Checkpoints
    from tools.cli.elsewhere import refuse_rolled_back

    command_bound = bound()
    host_file = command_bound.host_file
    with reading(host_file) as journal:
        refuse_rolled_back(journal, host_file.anchor)
        present = journal.store.scopes()
        scopes = present if every else [scope for scope in present if scope == command_bound.scope]
        if not scopes:
            raise Refused("there is no event yet, and so nothing to sign")
        made = Checkpoints(journal, host_file.anchor, host_file.checkpoint_every_events)
        written = [(scope, made.write(scope)) for scope in scopes]
    if host_file.anchor is None:
        note("engram: there is no anchor outside the store, so no roll-back can be found: name checkpoints.anchor")
    values = [_value(scope, one) for scope, one in written]
    give(values if every else values[0], lambda: "\n\n".join(_told(value) for value in values))


def _value(scope: Scope, written: Written) -> dict[str, Any]:
    return {
        "tenant_id": scope.tenant_id,
        "workspace_id": scope.workspace_id,
        "origin": written.checkpoint.origin,
        "size": written.checkpoint.size,
        "root": written.checkpoint.root.hex(),
        "public_key": written.key.text(),
        "anchor": None if written.anchor is None else str(written.anchor),
        "note": written.note.decode(),
    }


def _told(value: dict[str, Any]) -> str:
    facts = terminal.fields(
        [
            ("scope", terminal.scope_name(value)),
            ("public key", value["public_key"]),
            ("anchor", value["anchor"] or "none"),
        ]
    )
    return f"{facts}\n\n{value['note'].rstrip()}"
