"""The ledger of a migration or an import: every input is migrated or excluded, exactly once, and nothing else is.

A file of JSON lines. The first line says of what it is, the last how many inputs there were and the digest of the lines
before it; between them one line an input, by its digest, in the order in which they were settled:

    {"format": 1, "kind": "mem0", "made_at": "2026-01-02T03:04:05.678Z"}
    {"input": "sha256:...", "outcome": "migrated", "result": "candidate_..."}
    {"input": "sha256:...", "outcome": "excluded", "reason": "reason:empty"}
    {"inputs": 2, "digest": "blake3:..."}

Inputs that are equal have one digest: each needs a line of its own, and at most one of them is migrated.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec
from blake3 import blake3

from journal.digests import DIGEST_PREFIX
from journal.errors import MigrationLedgerInvalid, StoreUnavailable
from journal.foreign import UNREADABLE
from replay.archive import appearing

FORMAT = 1


class Beginning(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of what a ledger is."""

    format: int
    kind: str
    made_at: str


class Settled(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What became of an input: what it was migrated to, or why it was excluded."""

    input: str
    outcome: Literal["migrated", "excluded"]
    result: str | None = None
    reason: str | None = None


class _End(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    inputs: int
    digest: str


def input_digest(raw: bytes) -> str:
    """Return the digest by which a ledger names an input."""
    return DIGEST_PREFIX + hashlib.sha256(raw).hexdigest()


def check(inputs: Iterable[str], settled: Iterable[Settled]) -> None:
    """Check that every input, given by its digest, is settled exactly once, and nothing else is.

    Raises:
        MigrationLedgerInvalid: an input is missing or settled twice, a line is of no input, or says too little.
    """
    wanted, lines = Counter(inputs), list(settled)
    found = Counter(line.input for line in lines)
    missing, surplus = wanted - found, found - wanted
    if missing:
        raise MigrationLedgerInvalid(f"{missing.total()} inputs are neither migrated nor excluded: {min(missing)}")
    if surplus:
        raise MigrationLedgerInvalid(f"{surplus.total()} lines are of no input, or of one again: {min(surplus)}")
    for line in lines:
        is_migrated = line.outcome == "migrated"
        if bool(line.result) != is_migrated or bool(line.reason) == is_migrated:
            raise MigrationLedgerInvalid(f"a line that says too little or too much: {line.input}")
    migrated = Counter(line.input for line in lines if line.outcome == "migrated")
    twice = [name for name, count in migrated.items() if count > 1]
    if twice:
        raise MigrationLedgerInvalid(f"an input was migrated twice: {min(twice)}")


def write(path: Path, kind: str, made_at: str, inputs: Iterable[str], settled: Iterable[Settled]) -> None:
    """Write a ledger to a file that must not exist, checked before.

    Raises:
        MigrationLedgerInvalid: as ``check``. FileExistsError: there is something at the path.
    """
    lines = list(settled)
    check(inputs, lines)
    body = b"".join(
        msgspec.json.encode(line) + b"\n" for line in (Beginning(FORMAT, kind, made_at), *lines)
    )  # fmt: skip
    end = _End(len(lines), f"blake3:{blake3(body).hexdigest()}")
    with appearing(path) as (file, _):
        file.write(body + msgspec.json.encode(end) + b"\n")


def read(path: Path) -> tuple[Beginning, list[Settled]]:
    """Return a ledger: of what it is, and its lines.

    Raises:
        MigrationLedgerInvalid: it is none, cut or altered. StoreUnavailable: it cannot be read.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be read: {error.strerror}") from error
    body, line_end, last = raw.removesuffix(b"\n").rpartition(b"\n")
    body += line_end
    try:
        end = msgspec.json.decode(last, type=_End)
        first, *rest = body.splitlines() or [b""]
        beginning = msgspec.json.decode(first, type=Beginning)
        settled = [msgspec.json.decode(line, type=Settled) for line in rest]
    except UNREADABLE as error:
        raise MigrationLedgerInvalid(f"{path.name} is no migration ledger") from error
    whole = body + msgspec.json.encode(end) + b"\n"
    if raw != whole or end.digest != f"blake3:{blake3(body).hexdigest()}" or end.inputs != len(settled):
        raise MigrationLedgerInvalid(f"{path.name} is cut or altered")
    if beginning.format != FORMAT:
        raise MigrationLedgerInvalid(f"{path.name} has format {beginning.format}; this release reads {FORMAT}")
    return beginning, settled
