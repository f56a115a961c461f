"""The keyring: root key -> wrapping key a scope -> one data key a candidate or message.

``keys/<scope tag>.keyring`` holds a scope's own keys: the wrapping key under the root key; under the wrapping key the
identity key (event ids, intents, guards, tokens), the ledger key (outcomes, receipts) and the signing seed
(checkpoints). The last three are made once. A rotation makes a new wrapping key and re-wraps what stands under it, data
keys included; nothing that was sealed changes. ``keys/<scope tag>.<epoch>.slots`` holds the wrapped data keys;
replacing the keyring file, by rename, is what switches to the next epoch.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, TypeVar

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from journal import keyringfile, limits, patience, rootchange, sealing
from journal.datakeys import DataKey, Drawn, in_slots, rewrapped, unwrapped
from journal.errors import BlobMissing, EngramError, JournalCorrupt, StoreUnavailable
from journal.heldroot import HeldRoot
from journal.keyringfile import ScopeKeys
from journal.openedkeys import OpenedKeys
from journal.scopelocks import ScopeLocks
from journal.slotclaims import SlotClaims
from journal.slots import SlotFile, SlotState, blank

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from contextlib import AbstractContextManager

    from journal.clock import Randomness
    from journal.scope import Scope

T = TypeVar("T")

__all__ = ["DataKey", "Keyring"]
_ATTEMPTS = 4


class Keyring:
    """All keys of one store. Thread-safe; processes exclude each other by a lock file a scope.

    A scope's keys are made when they are first asked for, but never for a scope that ``is_known`` to have events: its
    keyring file was lost, and a new one would hide that, and forget every identity.

    The mutex is over all scopes, so nobody who has it waits for a lock or a flush: what stands in the files of a scope
    changes under that scope's own lock alone.
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
        self.stored: Callable[[Scope, Collection[bytes]], Collection[bytes]] = lambda _, key_ids: key_ids
        """Says of some key ids under which something is stored; all of them, where there is no journal to ask."""
        self._scopes: dict[bytes, OpenedKeys] = {}
        self._claims: dict[bytes, SlotClaims] = {}
        self._locks = ScopeLocks(directory, readonly=readonly)
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
            StoreUnavailable: the slot file cannot be written. DeadlineExceeded, StoreUnavailable: as ``locked``.
        """
        while True:
            with suppress(IndexError):
                return self._opened(scope).ahead.popleft()
            self._write_ahead(scope)

    def give_back(self, scope: Scope, key: DataKey) -> None:
        """Take back a data key under which its taker stored nothing, so that its slot serves the next one.

        Never after MUTATION_OUTCOME_UNKNOWN: then something may be stored under it. One under which something is stored
        already, because it was handed out twice, is let go for good.
        """
        with suppress(EngramError):  # else nobody knows, and its slot stays unused
            if key.key_id not in self.stored(scope, [key.key_id]):
                self._opened(scope).ahead.appendleft(key)

    def open(self, scope: Scope, key_id: bytes, slot: int) -> bytes | None:
        """Return a data key, or None where it was destroyed.

        Raises:
            JournalCorrupt: the slot is missing, broken or another key's.
        """
        self._opened(scope)
        with self._mutex:
            opened = self._opened(scope)
            for attempt in ("cached", "reloaded"):
                found = opened.slots.read(slot)
                if found is not None and found.key_id == key_id:
                    if found.state is SlotState.DESTROYED and attempt == "reloaded":
                        return None
                    key = unwrapped(scope, opened.wrapping, found)
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

        return self._steady(scope, gone)

    def destroy(self, scope: Scope, doomed: list[tuple[bytes, int | None]], at_least: int = 0) -> int:
        """Destroy data keys, given as (key_id, slot where it is known), durably; return the slot file's generation.

        ``at_least`` is the generation that the journal mirrors: an older file put back is raised over it.
        """
        self._opened(scope)
        with self.locked(scope):
            slots = self._in_force(scope).slots
            self._blank_others(scope)
            numbers = slots.standing(doomed)
            settled = not numbers and slots.generation >= at_least
            return slots.generation if settled else slots.destroy(numbers, at_least)

    def generation(self, scope: Scope) -> int:
        """Return the slot file's generation as it stands on disk."""
        return self._steady(scope, lambda slots: slots.generation)

    def located(self, scope: Scope) -> dict[bytes, int]:
        """Return key_id -> slot number of every slot on disk: what the journal's slot index is rebuilt from."""
        return self._steady(scope, SlotFile.located) if self._keyring_path(scope).exists() else {}

    def tidy(self, scope: Scope) -> bool:
        """Overwrite and remove what a rotation that died left over: slot files of other epochs, unfinished files.

        Returns whether nothing is left over; where another process is at the keys something is, and nobody waits.
        """
        in_force = self._slots_path(scope, self._opened(scope).keys.epoch)
        unfinished = f".{scope.tag.hex()}.*"
        slot_files = set(self._directory.glob(f"{scope.tag.hex()}.*.slots"))
        if slot_files == {in_force} and not any(self._directory.glob(unfinished)) and not self._readonly:
            return True
        with suppress(patience.WouldWait), patience.waiting_for_nobody(), self.locked(scope):
            self._blank_others(scope)
            for path in self._directory.glob(unfinished):
                path.unlink(missing_ok=True)
            return True
        return False

    def _blank_others(self, scope: Scope) -> None:
        """Overwrite and remove the slot files of other epochs, left over by a dead rotation; the lock is held."""
        in_force = self._slots_path(scope, self._in_force(scope).keys.epoch)
        for path in self._directory.glob(f"{scope.tag.hex()}.*.slots"):
            if path != in_force:
                blank(path)

    # --- rotation --------------------------------------------------------------------------------

    def rotate(self, scope: Scope, failpoint: Callable[[str], None] = lambda _: None) -> int:
        """Make a new wrapping key and re-wrap everything under it; return the new epoch.

        Safe at every step: until the keyring file is replaced the old epoch is whole, afterwards the new one is.
        """
        self._opened(scope)
        with self.locked(scope):
            old = self._in_force(scope)
            keys = self._next_epoch(scope, old)
            failpoint("rotate.slots_written")
            self._write_keyring(scope, keys, replace=True)
            failpoint("rotate.switched")
            blank(old.slots.path)
            self._in_force(scope)
            return keys.epoch

    def stage(self, scope: Scope, new_root: bytes) -> None:
        """Write a scope's next epoch beside the one in force, under a new root key; the caller holds ``locked``."""
        keys = self._next_epoch(scope, self._in_force(scope))
        raw = keyringfile.encode(scope, keys, new_root, lambda: self._nonce(scope))
        keyringfile.write(rootchange.staged(self._keyring_path(scope)), raw, replace=True)

    def _next_epoch(self, scope: Scope, old: OpenedKeys) -> ScopeKeys:
        """Write the next epoch's slots, every data key wrapped anew; return the keys that go with them."""
        epoch, wrapping = old.keys.epoch + 1, self._randomness.draw(scope, limits.KEY_BYTES)
        moved = rewrapped(scope, old.keys.wrapping, wrapping, old.slots.read_all(), self._randomness)
        path = self._slots_path(scope, epoch)
        path.unlink(missing_ok=True)  # left over by a rotation that died before it was in force
        SlotFile.create(path, scope.tag, epoch, old.slots.generation + 1, moved)
        return ScopeKeys(epoch, wrapping, old.keys.held)

    # --- files -----------------------------------------------------------------------------------

    def _opened(self, scope: Scope) -> OpenedKeys:
        opened = self._scopes.get(scope.tag)
        if opened is not None:
            return opened
        if self._lacks_keys(scope):
            self._create(scope)
        return self._in_force(scope)

    def _in_force(self, scope: Scope) -> OpenedKeys:
        """Return a scope's keys as the files hold them now; who holds the scope's lock may use them without haste."""
        with self._mutex:
            return self._reload(scope)

    def _lacks_keys(self, scope: Scope) -> bool:
        """Whether a scope's keys are still to be made."""
        there = self._keyring_path(scope).exists() or rootchange.in_force(self._keyring_path(scope)).exists()
        return not (there or self._closed or self._readonly or self.is_known(scope))

    def _reload(self, scope: Scope) -> OpenedKeys:
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
                raise BlobMissing("a slot file is missing: see What is damaged in docs/backup.md") from error
            if old is not None:
                opened.ahead = old.ahead
                old.slots.close()
            self._scopes[scope.tag] = opened
            return opened
        raise StoreUnavailable("the scope's keys are being rotated")

    def _steady(self, scope: Scope, read: Callable[[SlotFile], T]) -> T:
        """Return what is read from the slot file in force; one that a rotation replaced meanwhile is full of zeros."""
        self._opened(scope)
        with self._mutex:
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
            raise BlobMissing("a scope's keyring file is missing: see What is damaged in docs/backup.md")
        if self._readonly:
            raise StoreUnavailable("the scope has no keys yet, and the store is open for reading only")
        raise StoreUnavailable("a scope's keyring file was removed while the store is open")

    def _read(self, scope: Scope, raw: bytes) -> OpenedKeys:
        keys = self.root.decode(scope, raw)
        slots = SlotFile(self._slots_path(scope, keys.epoch), scope.tag, readonly=self._readonly)
        if slots.states_epoch(keys.epoch):
            return OpenedKeys(raw, keys, slots, AESGCM(keys.wrapping))
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
            path.unlink(missing_ok=True)  # left over by a process that died before its keyring was written
            SlotFile.create(path, scope.tag, 1, 1, [])
            self._write_keyring(scope, ScopeKeys(1, wrapping, held), replace=False)

    def _write_keyring(self, scope: Scope, keys: ScopeKeys, *, replace: bool) -> None:
        raw = keyringfile.encode(scope, keys, self.root.key, lambda: self._nonce(scope))
        keyringfile.write(self._keyring_path(scope), raw, replace=replace)

    def _write_ahead(self, scope: Scope) -> None:
        """Have keys at hand: those that a dead process left over, else new ones."""
        with self._locks.turn(scope):
            if self._opened(scope).ahead:
                return  # another thread did it
            made = [Drawn.of(self._randomness, scope) for _ in range(self._opened(scope).count_ahead())]
            with self._locks.files(scope):
                opened = self._in_force(scope)
                opened.ahead.extend(self._left_over(scope, opened) or self._written_ahead(scope, opened, made))

    def _left_over(self, scope: Scope, opened: OpenedKeys) -> list[DataKey]:
        """Return keys that a dead process wrote and never used. Where that cannot be known there are none."""
        with suppress(EngramError, OSError):
            generation = opened.slots.generation
            unused = self._claims_on(scope).take_over(opened.slots, lambda key_ids: self.stored(scope, key_ids))
            return in_slots(scope, opened.wrapping, unused, generation)
        return []

    def _written_ahead(self, scope: Scope, opened: OpenedKeys, made: list[Drawn]) -> list[DataKey]:
        """Return new keys whose slots are written, durably, and claimed."""
        keys = opened.write_ahead(scope, made)
        with suppress(OSError):
            self._claims_on(scope).claim(keys[0].slot, len(keys), keys[0].key_id)
        return keys

    def _claims_on(self, scope: Scope) -> SlotClaims:
        claims = self._claims.get(scope.tag)
        if claims is None:
            claims = self._claims[scope.tag] = SlotClaims(self._directory / f"{scope.tag.hex()}.ahead")
        return claims

    def locked(self, scope: Scope) -> AbstractContextManager[None]:
        """Exclude others from a scope's key files (``ScopeLocks.held``)."""
        return self._locks.held(scope)

    def _nonce(self, scope: Scope) -> bytes:
        return self._randomness.draw(scope, limits.NONCE_BYTES)

    def _keyring_path(self, scope: Scope) -> Path:
        return self._directory / f"{scope.tag.hex()}.keyring"

    def _slots_path(self, scope: Scope, epoch: int) -> Path:
        return self._directory / f"{scope.tag.hex()}.{epoch}.slots"

    def close(self) -> None:
        """Forget every key and close the slot files."""
        with self._mutex:
            self._closed = True
            while self._scopes:
                self._scopes.popitem()[1].slots.close()
            while self._claims:
                self._claims.popitem()[1].close()
