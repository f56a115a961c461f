"""Keyrings, looked at and treated badly."""

from __future__ import annotations

from journal import limits
from journal.slots import HEADER_BYTES
from tests.journal.stores import OTHER, ROOT, SCOPE

__all__ = ["OTHER", "ROOT", "SCOPE", "break_slot", "files", "opens"]


def files(directory):
    """Return the names of all files but the root key's lock and claims on slots, the scope's tag put in words."""
    names = {path.name for path in directory.iterdir() if path.suffix != ".ahead"} - {"root.lock"}
    return sorted(name.replace(SCOPE.tag.hex(), "scope") for name in names)


def opens(ring, key):
    """Return what a key's slot opens to."""
    return ring.open(SCOPE, key.key_id, key.slot)


def break_slot(directory, slot):
    """Damage a slot of the scope's one slot file."""
    (path,) = directory.glob(f"{SCOPE.tag.hex()}.*.slots")
    with path.open("r+b") as file:
        file.seek(HEADER_BYTES + limits.SLOT_BYTES * slot + 30)
        file.write(b"\x00\xff")
