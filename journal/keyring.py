"""The keyring: root key -> wrapping key a scope -> one data key a candidate or message (DESIGN §4).

``keys/<scope tag>.keyring`` holds a scope's own keys: the wrapping key under the root key; under the wrapping key the
identity key (event ids, intents, guards, tokens), the ledger key (outcomes, receipts) and the signing seed
(checkpoints). The last three are made once. A rotation makes a new wrapping key and re-wraps what stands under it, data keys included;
nothing that was sealed changes. ``keys/<scope tag>.<epoch>.slots`` holds the wrapped data keys; replacing the keyring
file, by rename, is what switches to the next epoch.
"""

from __future__ import annotations

import os
import secrets
import time
from collections import deque
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING

import msgspec
from blake3 import blake3

from journal import limits, sealing
from journal.errors import JournalCorrupt, RegistryVersionUnavailable, StoreUnavailable
from journal.filelock import FileLock
from journal.rootkey import flush_directory
from journal.slots import Slot, SlotFile, SlotState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from journal.clock import Randomness
    from journal.scope import Scope

FORMAT = 1
_LOCK_SECONDS = 10.0
_HELD = ("identity", "ledger", "signing")


class _KeyringFile(msgspec.Struct, frozen=True):
    """The file's content, a MessagePack map. Every value under ``wrapped`` is nonce || ciphertext || tag."""

    format: int
    tenant_id: str
    workspace_id: str
    epoch: int
    wrapped: dict[str, bytes]
    check: bytes  # BLAKE3-16 over the map without it


@dataclass(frozen=True, slots=True)
class DataKey:
    """A fresh data key and where its wrapped form stands."""

    key_id: bytes
    key: bytes = field(repr=False)
    slot: int
    generation: int


@dataclass(slots=True)
class _ScopeKeys:
    """A scope's opened keys in this process."""

    epoch: int
    stamp: tuple[int, int]  # inode and mtime of the keyring file: another process's rotation shows here
    wrapping: bytes = field(repr=False)
    held: dict[str, bytes] = field(repr=False)
    slots: SlotFile
    ahead: deque[DataKey] = field(default_factory=deque, repr=False)


class Keyring:
    """All keys of one store. Thread-safe; processes exclude each other by a lock file a scope."""

    def __init__(self, directory: Path, root_key: bytes, randomness: Randomness) -> None:
        self._directory = directory
        self._root = root_key
        self._randomness = randomness
        self._scopes: dict[bytes, _ScopeKeys] = {}
        self._mutex = RLock()

    # --- a scope's own keys ---------------------------------------------------------------------

    def identity_key(self, scope: Scope) -> bytes:
        """Return the key of event ids, intents and guards; it never rotates."""
        return self._opened(scope).held["identity"]

    def ledger_key(self, scope: Scope) -> bytes:
        """Return the key of the ledger parts; it never rotates, so that outcomes outlive a rotation."""
        return self._opened(scope).held["ledger"]

    def signing_seed(self, scope: Scope) -> bytes:
        """Return the 32-byte Ed25519 seed that signs the scope's checkpoints."""
        return self._opened(scope).held["signing"]

    def projection_key(self, scope: Scope, name: str, version: int) -> bytes:
        """Return the 32-byte key of a projection version: tokens, purpose digests, page cursors."""
        return sealing.subkey(self.identity_key(scope), f"projection/{name}/{version}")

    def epoch(self, scope: Scope) -> int:
        """Return how often the scope's wrapping key was rotated, plus one."""
        return self._opened(scope).epoch

    # --- data keys -------------------------------------------------------------------------------

    def take(self, scope: Scope) -> DataKey:
        """Return a fresh data key whose slot is written and flushed.

        Raises:
            StoreUnavailable: the slot file cannot be written.
        """
        with self._mutex:
            keys = self._opened(scope)
            if not keys.ahead:
                self._write_ahead(scope, keys)
            return keys.ahead.popleft()

    def give_back(self, scope: Scope, key: DataKey) -> None:
        """Take back a data key under which nothing was stored, so that its slot serves the next one.

        Never after MUTATION_OUTCOME_UNKNOWN: then something may be stored under it.
        """
        with self._mutex:
            self._opened(scope).ahead.appendleft(key)

    def open(self, scope: Scope, key_id: bytes, slot: int) -> bytes | None:
        """Return a data key, or None where it was destroyed.

        Raises:
            JournalCorrupt: the slot is missing, broken or another key's.
        """
        with self._mutex:
            keys = self._opened(scope)
            for attempt in ("cached", "reloaded"):
                found = keys.slots.read(slot)
                if found is not None and found.key_id == key_id:
                    if found.state is SlotState.DESTROYED and attempt == "reloaded":
                        return None
                    key = sealing.unwrap(keys.wrapping, found.wrapped, self._slot_aad(scope, key_id))
                    if key is not None:
                        return key
                keys = self._reload(scope)  # a rotation elsewhere moved the slots to another file
        raise JournalCorrupt("a data key's slot is missing, broken or another key's")

    def is_destroyed(self, scope: Scope, key_id: bytes, slot: int) -> bool:
        """Whether a data key's slot is overwritten."""
        try:
            return self.open(scope, key_id, slot) is None
        except JournalCorrupt:
            return False

    def destroy(self, scope: Scope, doomed: list[tuple[bytes, int]]) -> int:
        """Destroy data keys, given as (key_id, slot), durably; return the slot file's generation."""
        with self._mutex, self._locked(scope):
            keys = self._reload(scope)
            reach = [(key_id, slot) for key_id, slot in doomed if slot < keys.slots.count]
            if not reach:
                return keys.slots.generation
            return keys.slots.destroy([slot for _, slot in reach], [key_id for key_id, _ in reach])

    def generation(self, scope: Scope) -> int:
        """Return the slot file's generation as it stands on disk."""
        return self._opened(scope).slots.generation

    def located(self, scope: Scope) -> dict[bytes, int]:
        """Return key_id -> slot number of every slot on disk: what the journal's slot index is rebuilt from."""
        slots = self._opened(scope).slots.read_all()
        return {slot.key_id: number for number, slot in enumerate(slots) if slot is not None}

    # --- rotation --------------------------------------------------------------------------------

    def rotate(self, scope: Scope, failpoint: Callable[[str], None] = lambda name: None) -> int:
        """Make a new wrapping key and re-wrap everything under it; return the new epoch.

        Safe at every step: until the keyring file is replaced the old epoch is whole, afterwards the new one is.
        """
        with self._mutex, self._locked(scope):
            old = self._reload(scope)
            epoch = old.epoch + 1
            wrapping = self._randomness.draw(scope, limits.KEY_BYTES)
            moved = [self._rewrapped(scope, old.wrapping, wrapping, slot) for slot in old.slots.read_all()]
            path = self._slots_path(scope, epoch)
            with suppress(FileNotFoundError):
                path.unlink()  # left over by a rotation that died before it was in force
            SlotFile.create(path, scope.tag, epoch, old.slots.generation + 1, moved)
            failpoint("rotate.slots_written")
            self._write_keyring(scope, epoch, wrapping, old.held, replace=True)
            failpoint("rotate.switched")
            _blank(old.slots.path)
            self._reload(scope)
            return epoch

    def _rewrapped(self, scope: Scope, old: bytes, new: bytes, slot: Slot | None) -> Slot:
        if slot is None:
            raise JournalCorrupt("a slot is broken; the keys are not rotated")
        if slot.state is SlotState.DESTROYED:
            return slot
        aad = self._slot_aad(scope, slot.key_id)
        key = sealing.unwrap(old, slot.wrapped, aad)
        if key is None:
            raise JournalCorrupt("a slot does not open; the keys are not rotated")
        return Slot(slot.state, slot.key_id, sealing.wrap(new, key, aad, self._nonce(scope)))

    # --- files -----------------------------------------------------------------------------------

    def _opened(self, scope: Scope) -> _ScopeKeys:
        keys = self._scopes.get(scope.tag)
        if keys is not None:
            return keys
        with self._mutex:
            if not self._keyring_path(scope).exists():
                self._create(scope)
            return self._reload(scope)

    def _reload(self, scope: Scope) -> _ScopeKeys:
        """Return the scope's keys as the files hold them now; keys written ahead survive a rotation with their slots."""
        path = self._keyring_path(scope)
        found = path.stat()
        stamp = (found.st_ino, found.st_mtime_ns)
        old = self._scopes.get(scope.tag)
        if old is not None and old.stamp == stamp:
            return old
        keys = self._read_keyring(scope, path, stamp)
        if old is not None:
            keys.ahead = old.ahead
            old.slots.close()
        self._scopes[scope.tag] = keys
        return keys

    def _read_keyring(self, scope: Scope, path: Path, stamp: tuple[int, int]) -> _ScopeKeys:
        try:
            file = msgspec.msgpack.decode(path.read_bytes(), type=_KeyringFile)
        except msgspec.DecodeError as error:
            raise JournalCorrupt("a scope's keyring file is broken") from error
        if file.format != FORMAT:
            raise RegistryVersionUnavailable(f"keyring format {file.format} is unknown; this release reads {FORMAT}")
        if (file.tenant_id, file.workspace_id) != (scope.tenant_id, scope.workspace_id) or file.check != _check(file):
            raise JournalCorrupt("a scope's keyring file is broken or another scope's")
        wrapping = sealing.unwrap(self._root, file.wrapped["wrapping"], self._own_aad(scope, "wrapping", file.epoch))
        if wrapping is None:
            raise StoreUnavailable("the root key does not open this store's keyring: it is another store's key")
        held = {}
        for name in _HELD:
            key = sealing.unwrap(wrapping, file.wrapped[name], self._own_aad(scope, name, file.epoch))
            if key is None:
                raise JournalCorrupt("a scope's keyring file is broken")
            held[name] = key
        slots = SlotFile(self._slots_path(scope, file.epoch), scope.tag)
        return _ScopeKeys(file.epoch, stamp, wrapping, held, slots)

    def _create(self, scope: Scope) -> None:
        with self._locked(scope):
            if self._keyring_path(scope).exists():
                return
            wrapping = self._randomness.draw(scope, limits.KEY_BYTES)
            held = {name: self._randomness.draw(scope, limits.KEY_BYTES) for name in _HELD}
            path = self._slots_path(scope, 1)
            with suppress(FileNotFoundError):
                path.unlink()  # left over by a process that died before its keyring was written
            SlotFile.create(path, scope.tag, 1, 1, [])
            self._write_keyring(scope, 1, wrapping, held, replace=False)

    def _write_keyring(
        self, scope: Scope, epoch: int, wrapping: bytes, held: dict[str, bytes], *, replace: bool
    ) -> None:
        wrapped = {
            "wrapping": sealing.wrap(self._root, wrapping, self._own_aad(scope, "wrapping", epoch), self._nonce(scope))
        }
        for name in _HELD:
            wrapped[name] = sealing.wrap(wrapping, held[name], self._own_aad(scope, name, epoch), self._nonce(scope))
        file = _KeyringFile(FORMAT, scope.tenant_id, scope.workspace_id, epoch, wrapped, b"")
        path = self._keyring_path(scope)
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as out:
            out.write(msgspec.msgpack.encode(msgspec.structs.replace(file, check=_check(file))))
            out.flush()
            os.fsync(out.fileno())
        if replace:
            temporary.rename(path)
        else:
            os.link(temporary, path)
            temporary.unlink()
        flush_directory(self._directory)

    def _write_ahead(self, scope: Scope, keys: _ScopeKeys) -> None:
        made = []
        for _ in range(limits.SLOTS_AHEAD):
            key_id = self._randomness.draw(scope, limits.KEY_ID_BYTES)
            made.append((key_id, self._randomness.draw(scope, limits.KEY_BYTES), self._nonce(scope)))
        try:
            with self._locked(scope):
                keys = self._reload(scope)
                slots = [
                    Slot(SlotState.LIVE, key_id, sealing.wrap(keys.wrapping, key, self._slot_aad(scope, key_id), nonce))
                    for key_id, key, nonce in made
                ]
                first, generation = keys.slots.append(slots)
        except OSError as error:
            raise StoreUnavailable(f"the slot file cannot be written: {error.strerror}") from error
        keys.ahead.extend(DataKey(key_id, key, first + n, generation) for n, (key_id, key, _) in enumerate(made))

    @contextmanager
    def _locked(self, scope: Scope) -> Iterator[None]:
        lock = FileLock(self._directory / f"{scope.tag.hex()}.lock")
        try:
            if not lock.acquire(time.monotonic() + _LOCK_SECONDS):
                raise StoreUnavailable("another process holds the scope's key lock")
            yield
        finally:
            lock.close()

    def _nonce(self, scope: Scope) -> bytes:
        return self._randomness.draw(scope, limits.NONCE_BYTES)

    def _keyring_path(self, scope: Scope) -> Path:
        return self._directory / f"{scope.tag.hex()}.keyring"

    def _slots_path(self, scope: Scope, epoch: int) -> Path:
        return self._directory / f"{scope.tag.hex()}.{epoch}.slots"

    @staticmethod
    def _own_aad(scope: Scope, name: str, epoch: int) -> bytes:
        return msgspec.msgpack.encode((FORMAT, "keyring", scope.tenant_id, scope.workspace_id, name, epoch))

    @staticmethod
    def _slot_aad(scope: Scope, key_id: bytes) -> bytes:
        return msgspec.msgpack.encode((FORMAT, "slot", scope.tenant_id, scope.workspace_id, key_id))

    def close(self) -> None:
        """Forget every key and close the slot files."""
        with self._mutex:
            for keys in self._scopes.values():
                keys.slots.close()
            self._scopes.clear()


def _check(file: _KeyringFile) -> bytes:
    return blake3(msgspec.msgpack.encode(msgspec.structs.replace(file, check=b""))).digest(16)


def _blank(path: Path) -> None:
    """Overwrite a file that is no longer in force with zeros, flush, and remove it."""
    with path.open("r+b") as file:
        file.write(bytes(path.stat().st_size))
        file.flush()
        os.fsync(file.fileno())
    path.unlink()
