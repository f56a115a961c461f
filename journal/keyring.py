"""The keyring: root key -> wrapping key a scope -> one data key a candidate or message.

``keys/<scope tag>.keyring`` holds a scope's own keys: the wrapping key under the root key; under the wrapping key the
identity key (event ids, intents, guards, tokens), the ledger key (outcomes, receipts) and the signing seed
(checkpoints). The last three are made once. A rotation makes a new wrapping key and re-wraps what stands under it, data
keys included; nothing that was sealed changes. ``keys/<scope tag>.<epoch>.slots`` holds the wrapped data keys;
replacing the keyring file, by rename, is what switches to the next epoch.
"""

from __future__ import annotations

import time
from collections import deque
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, TypeVar

import msgspec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from journal import keyringfile, limits, rootchange, sealing
from journal.errors import BlobMissing, JournalCorrupt, StoreUnavailable
from journal.filelock import FileLock
from journal.heldroot import HeldRoot
from journal.keyringfile import ScopeKeys
from journal.slots import Slot, SlotFile, SlotState, blank

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
    wrapping: AESGCM  # made once: a page of contents opens as many slots
    ahead: deque[DataKey] = field(default_factory=deque, repr=False)
    ahead_at: float = float("-inf")  # when keys were last written ahead, in time.monotonic seconds
    ahead_count: int = limits.SLOTS_AHEAD  # how many were


class Keyring:
    """All keys of one store. Thread-safe; processes exclude each other by a lock file a scope.

    A scope's keys are made when they are first asked for, but never for a scope that ``is_known`` to have events: its
    keyring file was lost, and a new one would hide that, and forget every identity.
    """

    def __init__(
        self, directory: Path, root_key: bytes, randomness: Randomness, *, readonly: bool = False,
        is_known: Callable[[Scope], bool] = lambda _: False, reread_root: Callable[[], bytes] | None = None,
    ) -> None:  # fmt: skip
        """Take the directory and the root key; ``reread_root`` gives the root key that is in force by now."""
        self._directory = directory
        self.root = HeldRoot(directory, root_key, reread_root)
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
        self.root.check()

    def scopes(self) -> list[Scope]:
        """Return every scope that has keys.

        Raises:
            JournalCorrupt, RegistryVersionUnavailable: a keyring file is broken, or of another format.
        """
        return [keyringfile.scope_of(raw) for raw in rootchange.keyrings(self._directory)]

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
                    key = sealing.unwrap(opened.wrapping, found.wrapped, self._slot_aad(scope, key_id))
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
            number = slots.located().get(key_id)
            elsewhere = None if number is None else slots.read(number)
            return not broken and (elsewhere is None or elsewhere.state is SlotState.DESTROYED)

        with self._mutex:
            return self._steady(scope, gone)

    def destroy(self, scope: Scope, doomed: list[tuple[bytes, int | None]], at_least: int = 0) -> int:
        """Destroy data keys, given as (key_id, slot where it is known), durably; return the slot file's generation.

        ``at_least`` is the generation that the journal mirrors: an older file put back is raised over it.
        """
        self._opened(scope)
        with self._mutex, self.locked(scope):
            slots = self._reload(scope).slots
            self._blank_others(scope)
            numbers = slots.standing(doomed)
            if not numbers and slots.generation >= at_least:
                return slots.generation
            return slots.destroy(numbers, at_least)

    def generation(self, scope: Scope) -> int:
        """Return the slot file's generation as it stands on disk."""
        with self._mutex:
            return self._steady(scope, lambda slots: slots.generation)

    def located(self, scope: Scope) -> dict[bytes, int]:
        """Return key_id -> slot number of every slot on disk: what the journal's slot index is rebuilt from."""
        with self._mutex:
            return self._steady(scope, SlotFile.located) if self._keyring_path(scope).exists() else {}

    def tidy(self, scope: Scope) -> None:
        """Overwrite and remove what a rotation that died left over: slot files of other epochs, unfinished files."""
        self._opened(scope)
        with self._mutex, self.locked(scope):
            self._blank_others(scope)
            for path in self._directory.glob(f".{scope.tag.hex()}.*"):
                path.unlink(missing_ok=True)

    def _blank_others(self, scope: Scope) -> None:
        """Overwrite and remove the slot files of other epochs, left over by a dead rotation; the lock is held."""
        in_force = self._slots_path(scope, self._reload(scope).keys.epoch)
        for path in self._directory.glob(f"{scope.tag.hex()}.*.slots"):
            if path != in_force:
                blank(path)

    # --- rotation --------------------------------------------------------------------------------

    def rotate(self, scope: Scope, failpoint: Callable[[str], None] = lambda _: None) -> int:
        """Make a new wrapping key and re-wrap everything under it; return the new epoch.

        Safe at every step: until the keyring file is replaced the old epoch is whole, afterwards the new one is.
        """
        self._opened(scope)
        with self._mutex, self.locked(scope):
            old = self._reload(scope)
            keys = self._next_epoch(scope, old)
            failpoint("rotate.slots_written")
            self._write_keyring(scope, keys, replace=True)
            failpoint("rotate.switched")
            blank(old.slots.path)
            self._reload(scope)
            return keys.epoch

    def stage(self, scope: Scope, new_root: bytes) -> None:
        """Write a scope's next epoch beside the one in force, under a new root key; the caller holds ``locked``."""
        with self._mutex:
            keys = self._next_epoch(scope, self._reload(scope))
            raw = keyringfile.encode(scope, keys, new_root, lambda: self._nonce(scope))
            keyringfile.write(rootchange.staged(self._keyring_path(scope)), raw, replace=True)

    def _next_epoch(self, scope: Scope, old: _Opened) -> ScopeKeys:
        """Write the next epoch's slots, every data key wrapped anew; return the keys that go with them."""
        epoch, wrapping = old.keys.epoch + 1, self._randomness.draw(scope, limits.KEY_BYTES)
        moved = [self._rewrapped(scope, old.keys.wrapping, wrapping, slot) for slot in old.slots.read_all()]
        path = self._slots_path(scope, epoch)
        with suppress(FileNotFoundError):
            path.unlink()  # left over by a rotation that died before it was in force
        SlotFile.create(path, scope.tag, epoch, old.slots.generation + 1, moved)
        return ScopeKeys(epoch, wrapping, old.keys.held)

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
                raise BlobMissing("a slot file is missing: restore keys/ from a backup (docs/backup.md)") from error
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
        for _ in range(_ATTEMPTS):  # it may be moved to its place between the two
            with suppress(FileNotFoundError):
                return rootchange.in_force(path).read_bytes()
        if self.is_known(scope):
            raise BlobMissing("a scope's keyring file is missing: restore keys/ from a backup (docs/backup.md)")
        if self._readonly:
            raise StoreUnavailable("the scope has no keys yet, and the store is open for reading only")
        self._create(scope)
        return path.read_bytes()

    def _read(self, scope: Scope, raw: bytes) -> _Opened:
        keys = self.root.decode(scope, raw)
        slots = SlotFile(self._slots_path(scope, keys.epoch), scope.tag, readonly=self._readonly)
        if slots.states_epoch(keys.epoch):
            return _Opened(raw, keys, slots, AESGCM(keys.wrapping))
        slots.close()
        raise JournalCorrupt("a scope's slot file is broken, or of another epoch than its keyring")

    def _create(self, scope: Scope) -> None:
        rootchange.settle(self._directory)  # or the next line would stand in its way
        with rootchange.steady_root(self._directory), self.locked(scope):
            if self._keyring_path(scope).exists():
                return
            self.root.follow()  # the root key may have been replaced under our hands
            wrapping = self._randomness.draw(scope, limits.KEY_BYTES)
            held = {name: self._randomness.draw(scope, limits.KEY_BYTES) for name in keyringfile.HELD}
            path = self._slots_path(scope, 1)
            with suppress(FileNotFoundError):
                path.unlink()  # left over by a process that died before its keyring was written
            SlotFile.create(path, scope.tag, 1, 1, [])
            self._write_keyring(scope, ScopeKeys(1, wrapping, held), replace=False)

    def _write_keyring(self, scope: Scope, keys: ScopeKeys, *, replace: bool) -> None:
        raw = keyringfile.encode(scope, keys, self.root.key, lambda: self._nonce(scope))
        keyringfile.write(self._keyring_path(scope), raw, replace=replace)

    def _write_ahead(self, scope: Scope) -> None:
        draw, count = self._randomness.draw, self._count_ahead(scope)
        sizes = (limits.KEY_ID_BYTES, limits.KEY_BYTES, limits.NONCE_BYTES)
        made = [tuple(draw(scope, size) for size in sizes) for _ in range(count)]
        with self.locked(scope):
            opened = self._reload(scope)
            slots = [
                Slot(SlotState.LIVE, key_id, sealing.wrap(opened.wrapping, key, self._slot_aad(scope, key_id), nonce))
                for key_id, key, nonce in made
            ]
            first, generation = opened.slots.append(slots)
        opened.ahead.extend(DataKey(key_id, key, first + n, generation) for n, (key_id, key, _) in enumerate(made))
        opened.ahead_at, opened.ahead_count = time.monotonic(), count

    def _count_ahead(self, scope: Scope) -> int:
        """Return how many keys to write ahead: more where the last ones were used up at once, for a flush is dear."""
        opened = self._opened(scope)
        if time.monotonic() - opened.ahead_at >= limits.SLOTS_AHEAD_SECONDS:
            return limits.SLOTS_AHEAD
        return min(2 * opened.ahead_count, limits.SLOTS_AHEAD_MAX)

    @contextmanager
    def locked(self, scope: Scope) -> Iterator[None]:
        """Exclude other processes from a scope's key files, once no replacement of the root key is left half done.

        Raises:
            StoreUnavailable: another process keeps the lock, or the files cannot be written.
        """
        if self._readonly:
            raise StoreUnavailable("the store is open for reading only")
        try:
            with closing(FileLock(self._directory / f"{scope.tag.hex()}.lock")) as lock:
                if not lock.acquire(time.monotonic() + _LOCK_SECONDS):
                    raise StoreUnavailable("another process holds the scope's key lock")
                if (self._directory / rootchange.SWITCHED).exists():
                    rootchange.settle(self._directory)
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
