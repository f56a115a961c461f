"""A backup of keys: a store's root key, keyring and slot files, sealed to a recipient, with an expiry, and listed.

    one line of JSON     replay.keybackup.Clear: what it is, of which store, until when, for whom
    the rest             HPKE (journal.recipients) of MessagePack {root_key, scopes, backups}; the line is its info

So no byte of the line can change without the seal failing. The expiry is kept by this program, not by arithmetic:
whoever holds the identity holds the keys.

    keys/backups.jsonl   in the store: one line for each that was ever made, written before the file takes its name
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from blake3 import blake3

from journal import keycopy, keyringfile, layout, limits
from journal.clock import instant, parse_instant
from journal.errors import (
    BackupInvalid,
    InvalidSchema,
    JournalCorrupt,
    RegistryVersionUnavailable,
    RestoreRefused,
    StoreUnavailable,
)
from journal.foreign import UNREADABLE
from journal.keycopy import KeyFiles
from journal.recipients import Identity, Recipient
from journal.scope import Scope
from journal.slots import opens_slots
from replay.archive import appearing, opened_regular

if TYPE_CHECKING:
    from journal.log import Journal

FORMAT = 1
KIND = "keys"
LIST = "backups.jsonl"
_CONTEXT = b"engram key backup v1\0"
_ODD = "the key backup holds what no key backup holds"
_DAY_MILLISECONDS = 86_400_000
_LINE_MAX_BYTES = 16 * limits.MIB


class ScopeOf(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A scope whose keys are inside, and the head of its journal when they were copied."""

    tenant_id: str
    workspace_id: str
    head_cursor: Annotated[int, msgspec.Meta(ge=0)]


class Clear(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What anybody may read of a key backup."""

    format: int
    kind: str
    store: str
    made_at: str
    expires_at: str
    recipient: str
    scopes: list[ScopeOf]


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the list: which key backups were handed out."""

    digest: str
    made_at: str
    expires_at: str
    recipient: str
    scopes: int
    file: str


class _Keys(msgspec.Struct, frozen=True, array_like=True):
    tenant_id: str
    workspace_id: str
    keyring: bytes
    slots: bytes


class _Sealed(msgspec.Struct, frozen=True):
    root_key: bytes
    scopes: list[_Keys]
    backups: bytes


@dataclass(frozen=True, slots=True)
class KeyBackup:
    """An opened key backup."""

    clear: Clear
    root_key: bytes = field(repr=False)
    files: dict[Scope, KeyFiles] = field(repr=False)
    backups: bytes = field(repr=False)

    def signing_seed(self, scope: Scope) -> bytes:
        """Return the seed that signs a scope's checkpoints and backups.

        Raises:
            RestoreRefused: the scope's keys are not inside. BackupInvalid: they are broken.
        """
        files = self.files.get(scope)
        if files is None:
            raise RestoreRefused("the key backup does not hold the keys of a scope of the backup")
        try:
            return keyringfile.decode(scope, files.keyring, self.root_key).held["signing"]
        except (JournalCorrupt, StoreUnavailable) as error:
            raise BackupInvalid("a scope's keyring inside the key backup is broken") from error

    def head_cursor(self, scope: Scope) -> int:
        """Return how far a scope's journal had come when its keys were copied."""
        names = (scope.tenant_id, scope.workspace_id)
        return max(
            (one.head_cursor for one in self.clear.scopes if (one.tenant_id, one.workspace_id) == names), default=0
        )


def write(journal: Journal, root_key: bytes, path: Path, recipient: Recipient, days: int) -> Listed:
    """Write a key backup of every scope to a file that must not exist, and list it; return its line of the list.

    Raises:
        FileExistsError: there is something at the path. OSError: it cannot be written.
        BlobMissing, JournalCorrupt: the keys are not whole. StoreUnavailable: they cannot be read, or not listed.
    """
    keys = journal.path / layout.KEYS
    scopes = journal.store.scopes()
    heads = [journal.store.head(scope).cursor for scope in scopes]  # first: the keys are then at least as new
    files = [keycopy.copied(keys, scope, root_key) for scope in scopes]
    now = journal.clock.now()
    clear = Clear(
        format=FORMAT, kind=KIND, store=layout.store_id(journal.path), made_at=instant(now),
        expires_at=instant(now + days * _DAY_MILLISECONDS), recipient=recipient.text(),
        scopes=[ScopeOf(scope.tenant_id, scope.workspace_id, head) for scope, head in zip(scopes, heads, strict=True)],
    )  # fmt: skip
    inside = _Sealed(
        root_key,
        [
            _Keys(scope.tenant_id, scope.workspace_id, one.keyring, one.slots)
            for scope, one in zip(scopes, files, strict=True)
        ],
        _list_bytes(journal.path),
    )
    line = msgspec.json.encode(clear) + b"\n"
    raw = line + recipient.seal(msgspec.msgpack.encode(inside), _CONTEXT + line)
    listed = Listed(
        digest=f"blake3:{blake3(raw).hexdigest()}", made_at=clear.made_at, expires_at=clear.expires_at,
        recipient=clear.recipient, scopes=len(scopes), file=path.name,
    )  # fmt: skip
    with appearing(path) as (file, draft):
        file.write(raw)
        file.flush()
        if draft.read_bytes() != raw:
            raise BackupInvalid("what was written reads back otherwise")
        _append(journal.path, listed)
    return listed


def opened(path: Path, identity: Identity, now: int) -> KeyBackup:
    """Return what a key backup holds.

    Raises:
        BackupInvalid: it is none, cut or altered. RegistryVersionUnavailable: a later release made it.
        RestoreRefused: it is another recipient's, or its time is up. StoreUnavailable: it cannot be read.
    """
    clear, line, sealed = _parted(path)
    if clear.recipient != identity.recipient.text():
        raise RestoreRefused(f"the key backup is sealed to another recipient: {clear.recipient}")
    plain = identity.open(sealed, _CONTEXT + line)
    if now >= parse_instant(clear.expires_at):
        raise RestoreRefused(f"the key backup expired at {clear.expires_at}")
    try:
        inside = msgspec.msgpack.decode(plain, type=_Sealed)
        files = {Scope.of(one.tenant_id, one.workspace_id): KeyFiles(one.keyring, one.slots) for one in inside.scopes}
    except (*UNREADABLE, InvalidSchema) as error:
        raise BackupInvalid(_ODD) from error
    names = [(scope.tenant_id, scope.workspace_id) for scope in files]
    is_twice = len(files) != len(inside.scopes)
    if is_twice or names != [(one.tenant_id, one.workspace_id) for one in clear.scopes] or not _is_list(inside.backups):
        raise BackupInvalid(_ODD)
    for scope, one in files.items():
        _check_keys(scope, one, inside.root_key)
    return KeyBackup(clear, inside.root_key, files, inside.backups)


def _is_list(raw: bytes) -> bool:
    """Whether bytes may be the list of key backups: what a crash cut is among its lines, and begins as they do."""
    return all(line.startswith(b"{") for line in raw.split(b"\n") if line)


def _check_keys(scope: Scope, files: KeyFiles, root_key: bytes) -> None:
    """Check that a scope's keyring opens with the root key beside it, and that the slots are those of its epoch."""
    try:
        epoch = keyringfile.decode(scope, files.keyring, root_key).epoch
    except (JournalCorrupt, StoreUnavailable) as error:
        raise BackupInvalid("a scope's keyring inside the key backup is broken") from error
    if not opens_slots(files.slots, scope.tag, epoch):
        raise BackupInvalid("a scope's slots inside the key backup are broken")


def _parted(path: Path) -> tuple[Clear, bytes, bytes]:
    file, size_bytes = opened_regular(path)
    with file:
        if size_bytes > limits.KEY_BACKUP_MAX_BYTES:
            raise BackupInvalid("the file is too long for a key backup")
        try:
            line = file.readline(_LINE_MAX_BYTES)
            sealed = file.read(max(0, size_bytes - len(line)) + 1)
        except OSError as error:
            raise StoreUnavailable(f"{path} cannot be read: {error.strerror}") from error
    if len(line) + len(sealed) != size_bytes:
        raise BackupInvalid("the file changes while it is read")
    try:
        stated = msgspec.json.decode(line)
        if isinstance(stated, dict) and isinstance(stated.get("format"), int) and stated["format"] > FORMAT:
            raise RegistryVersionUnavailable(
                f"the key backup has format {stated['format']}; this release reads {FORMAT}: take the one that made it"
            )
        clear = msgspec.convert(stated, Clear)
        parse_instant(clear.expires_at)
    except (*UNREADABLE, ValueError) as error:
        raise BackupInvalid(f"{path.name} is no key backup") from error
    if clear.format != FORMAT or clear.kind != KIND:
        raise BackupInvalid(f"{path.name} is no key backup")
    return clear, line, sealed


# --- the list ---------------------------------------------------------------------------------------


def listed(store: Path) -> list[Listed]:
    """Return every key backup of a store that was ever made, oldest first; a line that a crash cut is left out."""
    return list(_lines(_list_bytes(store)))


def _lines(raw: bytes) -> Sequence[Listed]:
    found = []
    for line in raw.splitlines():
        try:
            found.append(msgspec.json.decode(line, type=Listed))
        except UNREADABLE:
            continue
    return found


def _list_bytes(store: Path) -> bytes:
    try:
        return (store / layout.KEYS / LIST).read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise StoreUnavailable(f"the list of key backups cannot be read: {error.strerror}") from error


def _begun_anew(store: Path) -> bytes:
    """Return what ends a line that a crash or a full disk cut, so that the next one stands for itself."""
    raw = _list_bytes(store)
    return b"" if not raw or raw.endswith(b"\n") else b"\n"


def _append(store: Path, line: Listed) -> None:
    try:
        fd = os.open(store / layout.KEYS / LIST, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "ab") as file:
            raw = _begun_anew(store) + msgspec.json.encode(line) + b"\n"
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise StoreUnavailable(f"the key backup cannot be listed: {error.strerror}") from error
