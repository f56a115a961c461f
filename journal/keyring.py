"""The keyring: root key -> wrapping key a scope -> one data key a candidate or message.

``keys/<scope tag>.keyring`` holds a scope's own keys: the wrapping key under the root key; under the wrapping key the
identity key (event ids, intents, guards, tokens), the ledger key (outcomes, receipts) and the signing seed
(checkpoints). The last three are made once. A rotation makes a new wrapping key and re-wraps what stands under it, data
keys included; nothing that was sealed changes. ``keys/<scope tag>.<epoch>.slots`` holds the wrapped data keys;
replacing the keyring file, by rename, is what switches to the next epoch.
"""

from __future__ import annotations

import os
import time
from collections import deque
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, TypeVar

import msgspec

from journal import keyringfile, limits, sealing
from journal.errors import BlobMissing, JournalCorrupt, RegistryVersionUnavailable, StoreUnavailable
from journal.filelock import FileLock
from journal.keyringfile import ScopeKeys
from journal.slots import Slot, SlotFile, SlotState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from journal.clock import Randomness
    from journal.scope import Scope

T = TypeVar("T")

_SLOT_AAD_FORMAT = 1
_LOCK_SECONDS = 10.0
_ATTEMPTS = 4


@dataclass(frozen=True, slots=True)
class DataKey:
    """A fresh data key and where its wrapped form stands."""

    key_id: bytes
    key: bytes = field(repr=False)
    slot: int
    generation: int


@dataclass(slots=True)
class _Opened:
    """A scope's opened keys in this process."""

    file: bytes  # the keyring file as it was read: another process's rotation shows here
    keys: ScopeKeys
    slots: SlotFile
    ahead: deque[DataKey] = field(default_factory=deque, repr=False)


class Keyring:
    """All keys of one store. Thread-safe; processes exclude each other by a lock file a scope.

    A scope's keys are made when they are first asked for, but never for a scope that ``is_known`` to have events: its
    keyring file was lost, and a new one would hide that, and forget every identity.
    """

    def __init__(
        self, directory: Path, root_key: bytes, randomness: Randomness, *, readonly: bool = False,
        is_known: Callable[[Scope], bool] = lambda _: False,
    ) -> None:  # fmt: skip
        self._directory = directory
        self._root = root_key
        self._randomness = randomness
        self._readonly = readonly
        self.is_known = is_known
        self._scopes: dict[bytes, _Opened] = {}
        self._mutex = RLock()
        self._closed = False

    def check_root(self) -> None:
        """Check that the root key is this store's, by any scope's keyring file that can be read.

        Raises:
            StoreUnavailable: it is another store's.
        """
        for path in self._directory.glob("*.keyring"):
            with suppress(JournalCorrupt, RegistryVersionUnavailable, OSError):
                keyringfile.check_root(path.read_bytes(), self._root)
                return

    # --- a scope's own keys ---------------------------------------------------------------------

    def identity_key(self, scope: Scope) -> bytes:
        """Return the key of event ids, intents and guards; it never rotates."""
        return self._opened(scope).keys.held["identity"]

    def ledger_key(self, scope: Scope) -> bytes:
        """Return the key of the ledger parts; it never rotates, so that outcomes outlive a rotation."""
        return self._opened(scope).keys.held["ledger"]

    def signing_seed(self, scope: Scope) -> bytes:
        """Return the 32-byte Ed25519 seed that signs the scope's checkpoints."""
        return self._opened(scope).keys.held["signing"]

    def projection_key(self, scope: Scope, name: str, version: int) -> bytes:
        """Return the 32-byte key of a projection version: tokens, purpose digests, page cursors."""
        return sealing.subkey(self.identity_key(scope), f"projection/{name}/{version}")

    def epoch(self, scope: Scope) -> int:
        """Return how often the scope's wrapping key was rotated, plus one."""
        return self._opened(scope).keys.epoch

    # --- data keys -------------------------------------------------------------------------------

    def take(self, scope: Scope) -> DataKey:
        """Return a fresh data key whose slot is written and flushed.

        Raises:
            StoreUnavailable: the slot file cannot be written.
        """
        with self._mutex:
            opened = self._opened(scope)
            if not opened.ahead:
                self._write_ahead(scope)
            return opened.ahead.popleft()

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
            opened = self._opened(scope)
            for attempt in ("cached", "reloaded"):
                found = opened.slots.read(slot)
                if found is not None and found.key_id == key_id:
                    if found.state is SlotState.DESTROYED and attempt == "reloaded":
                        return None
                    key = sealing.unwrap(opened.keys.wrapping, found.wrapped, self._slot_aad(scope, key_id))
                    if key is not None:
                        return key
                opened = self._reload(scope)  # a rotation elsewhere moved the slots to another file
        raise JournalCorrupt("a data key's slot is missing, broken or another key's")

    def is_destroyed(self, scope: Scope, key_id: bytes, slot: int | None) -> bool:
        """Whether no slot holds a data key any more."""

        def gone(slots: SlotFile) -> bool:
            found = None if slot is None else slots.read(slot)
            if found is not None and found.key_id == key_id:
                return found.state is SlotState.DESTROYED
            broken = found is None and slot is not None and slot < slots.count  # it may hold what is left of the key
            number = _located(slots).get(key_id)
            elsewhere = None if number is None else slots.read(number)
            return not broken and (elsewhere is None or elsewhere.state is SlotState.DESTROYED)

        with self._mutex:
            return self._steady(scope, gone)

    def destroy(self, scope: Scope, doomed: list[tuple[bytes, int | None]], at_least: int = 0) -> int:
        """Destroy data keys, given as (key_id, slot where it is known), durably; return the slot file's generation.

        ``at_least`` is the generation that the journal mirrors: an older file put back is raised over it.
        """
        self._opened(scope)
        with self._mutex, self._locked(scope):
            slots = self._reload(scope).slots
            numbers = self._standing(slots, doomed)
            if not numbers and slots.generation >= at_least:
                return slots.generation
            return slots.destroy(numbers, at_least)

    @staticmethod
    def _standing(slots: SlotFile, doomed: list[tuple[bytes, int | None]]) -> dict[int, bytes]:
        """Return number -> key_id of the slots to overwrite; never one that holds another key.

        The journal's numbers are not taken on trust: after an older slot file was put back, they may be other keys' by
        now. A broken slot may hold what is left of the key, so it is overwritten too.
        """
        numbers: dict[int, bytes] = {}
        located: dict[bytes, int] | None = None
        for key_id, number in doomed:
            found = None if number is None else slots.read(number)
            if number is not None and number < slots.count and (found is None or found.key_id == key_id):
                numbers[number] = key_id
                continue
            if located is None:
                located = _located(slots)
            if key_id in located:
                numbers[located[key_id]] = key_id
        return numbers

    def generation(self, scope: Scope) -> int:
        """Return the slot file's generation as it stands on disk."""
        with self._mutex:
            return self._steady(scope, lambda slots: slots.generation)

    def located(self, scope: Scope) -> dict[bytes, int]:
        """Return key_id -> slot number of every slot on disk: what the journal's slot index is rebuilt from."""
        with self._mutex:
            return self._steady(scope, _located) if self._keyring_path(scope).exists() else {}

    def tidy(self, scope: Scope) -> None:
        """Overwrite and remove what a rotation that died left over: slot files of other epochs, unfinished files."""
        self._opened(scope)
        with self._mutex, self._locked(scope):
            in_force = self._slots_path(scope, self._reload(scope).keys.epoch)
            for path in self._directory.glob(f"{scope.tag.hex()}.*.slots"):
                if path != in_force:
                    _blank(path)
            for path in self._directory.glob(f".{scope.tag.hex()}.*"):
                path.unlink(missing_ok=True)

    # --- rotation --------------------------------------------------------------------------------

    def rotate(self, scope: Scope, failpoint: Callable[[str], None] = lambda _: None) -> int:
        """Make a new wrapping key and re-wrap everything under it; return the new epoch.

        Safe at every step: until the keyring file is replaced the old epoch is whole, afterwards the new one is.
        """
        self._opened(scope)
        with self._mutex, self._locked(scope):
            old = self._reload(scope)
            epoch = old.keys.epoch + 1
            wrapping = self._randomness.draw(scope, limits.KEY_BYTES)
            moved = [self._rewrapped(scope, old.keys.wrapping, wrapping, slot) for slot in old.slots.read_all()]
            path = self._slots_path(scope, epoch)
            with suppress(FileNotFoundError):
                path.unlink()  # left over by a rotation that died before it was in force
            SlotFile.create(path, scope.tag, epoch, old.slots.generation + 1, moved)
            failpoint("rotate.slots_written")
            self._write_keyring(scope, ScopeKeys(epoch, wrapping, old.keys.held), replace=True)
            failpoint("rotate.switched")
            _blank(old.slots.path)
            self._reload(scope)
            return epoch

    def _rewrapped(self, scope: Scope, old: bytes, new: bytes, slot: Slot | None) -> Slot | None:
        # A broken slot is an append that the machine's end cut short; or its key is lost, which a rotation cannot mend.
        if slot is None or slot.state is SlotState.DESTROYED:
            return slot
        aad = self._slot_aad(scope, slot.key_id)
        key = sealing.unwrap(old, slot.wrapped, aad)
        if key is None:
            raise JournalCorrupt("a slot does not open; the keys are not rotated")
        return Slot(slot.state, slot.key_id, sealing.wrap(new, key, aad, self._nonce(scope)))

    # --- files -----------------------------------------------------------------------------------

    def _opened(self, scope: Scope) -> _Opened:
        opened = self._scopes.get(scope.tag)
        if opened is not None:
            return opened
        with self._mutex:
            return self._reload(scope)

    def _reload(self, scope: Scope) -> _Opened:
        """Return a scope's keys as the files hold them now; keys written ahead survive a rotation as their slots do."""
        if self._closed:
            raise StoreUnavailable("the store is closed")
        old = self._scopes.get(scope.tag)
        for _ in range(_ATTEMPTS):
            raw = self._keyring_bytes(scope)
            if old is not None and old.file == raw:
                return old
            try:
                opened = self._read(scope, raw)
            except (FileNotFoundError, JournalCorrupt) as error:
                if self._keyring_bytes(scope) != raw:
                    continue  # a rotation elsewhere took the slot file away between the two readings
                if isinstance(error, JournalCorrupt):
                    raise
                raise BlobMissing("a scope's slot file is missing: restore keys/ from a backup") from error
            if old is not None:
                opened.ahead = old.ahead
                old.slots.close()
            self._scopes[scope.tag] = opened
            return opened
        raise StoreUnavailable("the scope's keys are being rotated")

    def _steady(self, scope: Scope, read: Callable[[SlotFile], T]) -> T:
        """Return what is read from the slot file in force; one that a rotation replaced meanwhile is full of zeros."""
        for _ in range(_ATTEMPTS):
            opened = self._reload(scope)
            try:
                found = read(opened.slots)
            except JournalCorrupt:
                if self._reload(scope) is opened:
                    raise
                continue
            if self._reload(scope) is opened:
                return found
        raise StoreUnavailable("the scope's keys are being rotated")

    def _keyring_bytes(self, scope: Scope) -> bytes:
        path = self._keyring_path(scope)
        with suppress(FileNotFoundError):
            return path.read_bytes()
        if self.is_known(scope):
            raise BlobMissing("a scope's keyring file is missing: restore keys/ from a backup")
        if self._readonly:
            raise StoreUnavailable("the scope has no keys yet, and the store is open for reading only")
        self._create(scope)
        return path.read_bytes()

    def _read(self, scope: Scope, raw: bytes) -> _Opened:
        keys = keyringfile.decode(scope, raw, self._root)
        slots = SlotFile(self._slots_path(scope, keys.epoch), scope.tag, readonly=self._readonly)
        if slots.states_epoch(keys.epoch):
            return _Opened(raw, keys, slots)
        slots.close()
        raise JournalCorrupt("a scope's slot file is broken, or of another epoch than its keyring")

    def _create(self, scope: Scope) -> None:
        with self._locked(scope):
            if self._keyring_path(scope).exists():
                return
            wrapping = self._randomness.draw(scope, limits.KEY_BYTES)
            held = {name: self._randomness.draw(scope, limits.KEY_BYTES) for name in keyringfile.HELD}
            path = self._slots_path(scope, 1)
            with suppress(FileNotFoundError):
                path.unlink()  # left over by a process that died before its keyring was written
            SlotFile.create(path, scope.tag, 1, 1, [])
            self._write_keyring(scope, ScopeKeys(1, wrapping, held), replace=False)

    def _write_keyring(self, scope: Scope, keys: ScopeKeys, *, replace: bool) -> None:
        raw = keyringfile.encode(scope, keys, self._root, lambda: self._nonce(scope))
        keyringfile.write(self._keyring_path(scope), raw, replace=replace)

    def _write_ahead(self, scope: Scope) -> None:
        made = []
        for _ in range(limits.SLOTS_AHEAD):
            key_id = self._randomness.draw(scope, limits.KEY_ID_BYTES)
            made.append((key_id, self._randomness.draw(scope, limits.KEY_BYTES), self._nonce(scope)))
        with self._locked(scope):
            opened = self._reload(scope)
            wrapping = opened.keys.wrapping
            slots = [
                Slot(SlotState.LIVE, key_id, sealing.wrap(wrapping, key, self._slot_aad(scope, key_id), nonce))
                for key_id, key, nonce in made
            ]
            first, generation = opened.slots.append(slots)
        opened.ahead.extend(DataKey(key_id, key, first + n, generation) for n, (key_id, key, _) in enumerate(made))

    @contextmanager
    def _locked(self, scope: Scope) -> Iterator[None]:
        if self._readonly:
            raise StoreUnavailable("the store is open for reading only")
        try:
            with closing(FileLock(self._directory / f"{scope.tag.hex()}.lock")) as lock:
                if not lock.acquire(time.monotonic() + _LOCK_SECONDS):
                    raise StoreUnavailable("another process holds the scope's key lock")
                yield
        except OSError as error:
            raise StoreUnavailable(f"the scope's keys cannot be written: {error.strerror}") from error

    def _nonce(self, scope: Scope) -> bytes:
        return self._randomness.draw(scope, limits.NONCE_BYTES)

    def _keyring_path(self, scope: Scope) -> Path:
        return self._directory / f"{scope.tag.hex()}.keyring"

    def _slots_path(self, scope: Scope, epoch: int) -> Path:
        return self._directory / f"{scope.tag.hex()}.{epoch}.slots"

    @staticmethod
    def _slot_aad(scope: Scope, key_id: bytes) -> bytes:
        return msgspec.msgpack.encode((_SLOT_AAD_FORMAT, "slot", scope.tenant_id, scope.workspace_id, key_id))

    def close(self) -> None:
        """Forget every key and close the slot files."""
        with self._mutex:
            self._closed = True
            for opened in self._scopes.values():
                opened.slots.close()
            self._scopes.clear()


def _located(slots: SlotFile) -> dict[bytes, int]:
    return {slot.key_id: number for number, slot in enumerate(slots.read_all()) if slot is not None}


def _blank(path: Path) -> None:
    """Overwrite a file that is no longer in force with zeros, flush, and remove it."""
    with path.open("r+b") as file:
        file.write(bytes(path.stat().st_size))
        file.flush()
        os.fsync(file.fileno())
    path.unlink()
