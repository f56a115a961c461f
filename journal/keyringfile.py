"""The keyring file of a scope: ``keys/<scope tag>.keyring``, a MessagePack map.

    format         1
    tenant_id, workspace_id
    epoch          how often the wrapping key was rotated, plus one
    wrapped        name -> nonce (12) || ciphertext (32) || tag (16)
    check          BLAKE3-16 of the map with an empty check

``wrapping`` stands under the root key, ``identity``, ``ledger`` and ``signing`` under the wrapping key. The associated
data of each is the MessagePack array [format, "keyring", tenant, workspace, name, epoch]. The check finds a flipped bit
and names it so; what authenticates the keys are their tags.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from blake3 import blake3

from journal import sealing
from journal.errors import JournalCorrupt, RegistryVersionUnavailable, StoreUnavailable
from journal.foreign import UNREADABLE
from journal.rootkey import flush_directory
from journal.scope import Scope

FORMAT = 1
WRAPPING = "wrapping"
HELD = ("identity", "ledger", "signing")


class KeyringFile(msgspec.Struct, frozen=True):
    """The file's content."""

    format: int
    tenant_id: str
    workspace_id: str
    epoch: int
    wrapped: dict[str, bytes]
    check: bytes


@dataclass(frozen=True, slots=True)
class ScopeKeys:
    """A scope's own keys, opened: the wrapping key, and by name those that it wraps."""

    epoch: int
    wrapping: bytes = field(repr=False)
    held: dict[str, bytes] = field(repr=False)


def encode(scope: Scope, keys: ScopeKeys, root_key: bytes, nonce: Callable[[], bytes]) -> bytes:
    """Return the bytes of a scope's keyring file."""

    def wrapped_under(key: bytes, name: str, plain_key: bytes) -> bytes:
        return sealing.wrap(key, plain_key, _aad(scope.tenant_id, scope.workspace_id, name, keys.epoch), nonce())

    wrapped = {WRAPPING: wrapped_under(root_key, WRAPPING, keys.wrapping)}
    wrapped.update({name: wrapped_under(keys.wrapping, name, keys.held[name]) for name in HELD})
    file = KeyringFile(FORMAT, scope.tenant_id, scope.workspace_id, keys.epoch, wrapped, b"")
    return msgspec.msgpack.encode(msgspec.structs.replace(file, check=_check(file)))


_BROKEN = "a scope's keyring file is broken: see What is damaged in docs/backup.md"


def decode(scope: Scope, raw: bytes, root_key: bytes) -> ScopeKeys:
    """Return the keys in a scope's keyring file.

    Raises:
        JournalCorrupt: the file is broken or another scope's. RegistryVersionUnavailable: its format is another.
        StoreUnavailable: the root key does not open it.
    """
    file = _read(raw)
    if (file.tenant_id, file.workspace_id) != (scope.tenant_id, scope.workspace_id):
        raise JournalCorrupt("a scope's keyring file is another scope's")
    wrapping = _unwrapped(file, WRAPPING, root_key)
    if wrapping is None:
        raise StoreUnavailable("the root key does not open this store's keyring: it is another store's key")
    held = {}
    for name in HELD:
        key = _unwrapped(file, name, wrapping)
        if key is None:
            raise JournalCorrupt(_BROKEN)
        held[name] = key
    return ScopeKeys(file.epoch, wrapping, held)


def check_root(raw: bytes, root_key: bytes) -> None:
    """Check that the root key opens a keyring file, whosever it is; raises as ``decode`` does."""
    if _unwrapped(_read(raw), WRAPPING, root_key) is None:
        raise StoreUnavailable("the root key does not open this store's keyring: it is another store's key")


def epoch_of(raw: bytes) -> int:
    """Return the epoch that a keyring file states; raises as ``decode`` does of a broken one."""
    return _read(raw).epoch


def scope_of(raw: bytes) -> Scope:
    """Return whose a keyring file is, which stands in it in the clear; raises as ``decode`` does of a broken one."""
    file = _read(raw)
    return Scope(file.tenant_id, file.workspace_id)


def _read(raw: bytes) -> KeyringFile:
    try:
        file = msgspec.msgpack.decode(raw, type=KeyringFile)
    except UNREADABLE as error:
        raise JournalCorrupt(_BROKEN) from error
    if file.format != FORMAT:
        raise RegistryVersionUnavailable(f"keyring format {file.format} is unknown; this release reads {FORMAT}")
    if file.check != _check(file):
        raise JournalCorrupt(_BROKEN)
    return file


def _unwrapped(file: KeyringFile, name: str, key: bytes) -> bytes | None:
    return sealing.unwrap(key, file.wrapped.get(name, b""), _aad(file.tenant_id, file.workspace_id, name, file.epoch))


def write(path: Path, raw: bytes, *, replace: bool) -> None:
    """Put a keyring file in its place, durably: whole or not at all. Without ``replace`` it must not be there yet."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as out:
        out.write(raw)
        out.flush()
        os.fsync(out.fileno())
    if replace:
        temporary.rename(path)
    else:
        os.link(temporary, path)
        temporary.unlink()
    flush_directory(path.parent)


def _check(file: KeyringFile) -> bytes:
    return blake3(msgspec.msgpack.encode(msgspec.structs.replace(file, check=b""))).digest(16)


def _aad(tenant_id: str, workspace_id: str, name: str, epoch: int) -> bytes:
    return msgspec.msgpack.encode((FORMAT, "keyring", tenant_id, workspace_id, name, epoch))
