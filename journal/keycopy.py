"""A scope's key files as a whole: taken out of a store, and put into another one.

Both files are read under the scope's key lock, so that no rotation, append or destruction comes between the two.
"""

from __future__ import annotations

import os
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from journal import keyringfile, limits, rootchange
from journal.errors import BlobMissing, StoreUnavailable
from journal.filelock import FileLock
from journal.slots import HEADER_BYTES, SlotFile, SlotState, decode_slot

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from journal.clock import Randomness
    from journal.scope import Scope

_LOCK_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class KeyFiles:
    """A scope's keyring file and its slot file in force, byte for byte."""

    keyring: bytes = field(repr=False)
    slots: bytes = field(repr=False)

    def live(self) -> set[bytes]:
        """Return the ids of the data keys whose slot still holds them."""
        raw = self.slots[HEADER_BYTES:]
        size = limits.SLOT_BYTES
        found = (decode_slot(raw[at : at + size]) for at in range(0, len(raw) - size + 1, size))
        return {slot.key_id for slot in found if slot is not None and slot.state is SlotState.LIVE}


def copied(directory: Path, scope: Scope, root_key: bytes) -> KeyFiles:
    """Return a scope's key files as they stand in a store's ``keys`` directory.

    Raises:
        BlobMissing: one is missing. StoreUnavailable: another process holds the lock, or the root key is another's.
        JournalCorrupt: the keyring file is broken.
    """
    try:
        with closing(FileLock(directory / f"{scope.tag.hex()}.lock")) as lock:
            if not lock.acquire(time.monotonic() + _LOCK_SECONDS):
                raise StoreUnavailable("another process holds the scope's key lock")
            raw = rootchange.in_force(_keyring_path(directory, scope)).read_bytes()
            epoch = keyringfile.decode(scope, raw, root_key).epoch
            return KeyFiles(raw, _slots_path(directory, scope, epoch).read_bytes())
    except FileNotFoundError as error:
        raise BlobMissing("a scope's keyring or slot file is missing") from error
    except OSError as error:
        raise StoreUnavailable(f"the scope's keys cannot be read: {error.strerror}") from error


def place(
    directory: Path, scope: Scope, files: KeyFiles, old_root: bytes, new_root: bytes, randomness: Randomness
) -> None:
    """Put a scope's key files into an empty ``keys`` directory, under another root key where that differs.

    Raises:
        JournalCorrupt: the files are broken or another scope's. StoreUnavailable: the old root key does not open them.
    """
    keys = keyringfile.decode(scope, files.keyring, old_root)
    raw = files.keyring
    if new_root != old_root:
        raw = keyringfile.encode(scope, keys, new_root, lambda: randomness.draw(scope, limits.NONCE_BYTES))
    path = _slots_path(directory, scope, keys.epoch)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(files.slots)
        file.flush()
        os.fsync(file.fileno())
    keyringfile.write(_keyring_path(directory, scope), raw, replace=False)


def destroy(directory: Path, scope: Scope, root_key: bytes, key_ids: AbstractSet[bytes]) -> int:
    """Destroy data keys in a ``keys`` directory that nobody serves, durably; return how many were still there.

    Raises:
        As ``place``.
    """
    epoch = keyringfile.decode(scope, _keyring_path(directory, scope).read_bytes(), root_key).epoch
    slots = SlotFile(_slots_path(directory, scope, epoch), scope.tag)
    try:
        doomed = {
            number: slot.key_id
            for number, slot in enumerate(slots.read_all())
            if slot is not None and slot.state is SlotState.LIVE and slot.key_id in key_ids
        }
        if doomed:
            slots.destroy(doomed)
    finally:
        slots.close()
    return len(doomed)


def _keyring_path(directory: Path, scope: Scope) -> Path:
    return directory / f"{scope.tag.hex()}.keyring"


def _slots_path(directory: Path, scope: Scope, epoch: int) -> Path:
    return directory / f"{scope.tag.hex()}.{epoch}.slots"
