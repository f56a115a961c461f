"""engram prove: that an event is in the journal, for somebody who does not trust the store; and the check of it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from journal import checkpoints, inclusion, limits
from journal.checkpointfiles import Anchor
from journal.checkpointing import Checkpoints, events_after
from journal.clock import instant
from journal.errors import EngramError, InvalidDigest
from journal.notes import PublicKey
from tools.cli import terminal
from tools.cli.claims import public_key
from tools.cli.failures import CannotRun, Refused
from tools.cli.opening import bound, reading
from tools.cli.options import config_file, config_option, json_option, workspace_option
from tools.cli.output import as_json, give
from tools.host.exceptions import HostFileError
from tools.host.file import load_host_file
from tools.host.place import default_anchor

if TYPE_CHECKING:
    from journal.events import Header
    from journal.log import Journal
    from journal.scope import Scope


@click.command()
@config_option
@json_option
@workspace_option
@click.argument("cursor", type=click.IntRange(min=1, max=limits.CURSOR_MAX), required=False)
@click.option(
    "--verify",
    "file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Check a proof instead; no store and no key of it is needed, only the public key.",
)
@click.option(
    "--public-key", "key", metavar="KEY", help="With --verify: the key, or a file with it; else the anchor's."
)
def command(cursor: int | None, file: Path | None, key: str | None) -> None:
    """Print the proof that the event at CURSOR is in the journal, as JSON; or check one.

    Exit codes: 0 it is proven, 1 it is not, 2 could not run.
    """
    if (cursor is None) == (file is None):
        raise click.UsageError("give either a cursor or --verify FILE")
    if file is not None:
        _verify(file, key)
        return
    assert cursor is not None
    if key is not None:
        raise click.UsageError("--public-key goes with --verify")
    command_bound = bound()
    with reading(command_bound.host_file) as journal:
        made = Checkpoints(journal, command_bound.host_file.anchor)
        proof = _proof(journal, made, command_bound.scope, cursor)
    click.echo(as_json(msgspec.to_builtins(proof)))


def _proof(journal: Journal, made: Checkpoints, scope: Scope, cursor: int) -> inclusion.Proof:
    head = journal.store.head(scope).cursor
    if cursor > head:
        raise Refused(f"there is no event at cursor {cursor}: the journal ends at {head}")
    key, folder = made.key(scope), made.folder(scope)
    size = max(folder.sizes(), default=0)
    if not cursor <= size <= head:
        written = made.write(scope)
        found, note = written.checkpoint, written.note
    else:
        found, note = folder.checkpoint(size, key), folder.note(size)
    return inclusion.prove(cursor, events_after(journal.store, scope, 0, found.size), found, note)


def _verify(file: Path, named: str | None) -> None:
    try:
        with file.open("rb") as opened:
            raw = opened.read(limits.PROOF_MAX_BYTES + 1)
    except OSError as error:
        raise CannotRun(f"{file} cannot be read: {error.strerror}") from None
    if len(raw) > limits.PROOF_MAX_BYTES:
        raise CannotRun(f"{file} is too long for a proof")
    proof = inclusion.parsed(raw)
    try:
        key = public_key(named) if named is not None else _anchored(proof)
        header = inclusion.verify(proof, key)
    except EngramError as error:
        raise Refused(f"not proven: {error.detail or error.message()} [{error.code}]") from None
    value = _value(proof, header, key)
    give(value, lambda: terminal.fields([(name, str(each)) for name, each in value.items()]))


def _anchored(proof: inclusion.Proof) -> PublicKey:
    """Return the one key beside the anchor that signed the proof's checkpoint; never one that the proof brings."""
    anchor = default_anchor()
    with suppress(HostFileError):  # none is needed to check a proof
        anchor = load_host_file(config_file()).anchor
    note = proof.checkpoint.encode()
    tag = checkpoints.unverified(note).tag
    for key in [] if anchor is None else Anchor(anchor).keys(tag):
        with suppress(InvalidDigest):
            checkpoints.verified(note, key)
            return key
    raise CannotRun("no key beside the anchor signed this: name the public key with --public-key")


def _value(proof: inclusion.Proof, header: Header, key: PublicKey) -> dict[str, Any]:
    return {
        "proven": True,
        "origin": proof.origin,
        "cursor": proof.cursor,
        "size": proof.size,
        "event": header.kind.label,
        "subject": header.subject,
        "recorded_at": instant(header.recorded_at),
        "event_digest": f"sha256:{proof.leaf_hash}",
        "public_key": key.text(),
    }
