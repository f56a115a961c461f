"""A disk as a power cut leaves it: what was flushed, and of the rest whatever happened to be written back.

    a file's bytes    sectors of 512 bytes. Each write leaves a version of those that it touches; the disk may hold any
                      version since the last flush of the file, a sector independently of its neighbour
    a file's length   likewise
    a name            made, replaced or removed is certain once the directory was flushed; a rename is whole or not
    O_DSYNC           a write to such a descriptor is on the disk when it returns, others of the file are not

A flush makes certain what had been written before it began.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

SECTOR_BYTES = 512
LOCK_FILE = "lock.mdb"  # mapped and written by LMDB itself, and without meaning once nobody has it open


@dataclass(slots=True)
class File:
    """A file: what a reader sees now, what is certain, and what lies between."""

    seen: bytearray = field(default_factory=bytearray)  # as far as it was ever written
    size: int = 0
    certain: bytearray = field(default_factory=bytearray)
    certain_size: int = 0
    sectors: list[tuple[int, int, bytes]] = field(default_factory=list)  # (when, sector, its 512 bytes)
    sizes: list[tuple[int, int]] = field(default_factory=list)  # (when, length)

    def write(self, when: int, offset: int, raw: bytes) -> range:
        """Write bytes; return the sectors that were touched."""
        end = offset + len(raw)
        first, last = offset // SECTOR_BYTES, -(-end // SECTOR_BYTES)
        _reach(self.seen, last * SECTOR_BYTES)
        self.seen[offset:end] = raw
        self._touch(when, range(first, last))
        if end > self.size:
            self.resize(when, end)
        return range(first, last)

    def _touch(self, when: int, sectors: range) -> None:
        for sector in sectors:
            at = sector * SECTOR_BYTES
            self.sectors.append((when, sector, bytes(self.seen[at : at + SECTOR_BYTES])))

    def resize(self, when: int, size: int) -> None:
        """Make the file longer or shorter; what is cut off reads as zeros should it grow again."""
        if size < self.size and size < len(self.seen):
            first, last = size // SECTOR_BYTES, len(self.seen) // SECTOR_BYTES
            self.seen[size:] = bytes(len(self.seen) - size)
            self._touch(when, range(first, last))
        if size != self.size:
            self.size = size
            self.sizes.append((when, size))

    def flush(self, until: int) -> None:
        """Make certain what was written before ``until``."""
        later = [each for each in self.sectors if each[0] >= until]
        for when, sector, raw in self.sectors:
            if when < until:
                _put(self.certain, sector, raw)
        self.sectors = later
        for when, size in self.sizes:
            if when < until:
                self.certain_size = size
        self.sizes = [each for each in self.sizes if each[0] >= until]

    def flush_now(self, sectors: range) -> None:
        """Make certain what these sectors hold now: an O_DSYNC write has returned."""
        for sector in sectors:
            at = sector * SECTOR_BYTES
            _put(self.certain, sector, bytes(self.seen[at : at + SECTOR_BYTES]))
        self.sectors = [each for each in self.sectors if each[1] not in sectors]
        self.sizes.clear()
        self.certain_size = self.size

    def left(self, survives: Survives) -> tuple[bytes, int]:
        """Return what a power cut leaves of it: bytes, and the length that they are cut or filled up to."""
        if not self.sectors and not self.sizes:
            return bytes(self.certain[: self.certain_size]), self.certain_size
        held, size = bytearray(self.certain), self.certain_size
        for when, sector, raw in self.sectors:
            if survives(when, sector):
                _put(held, sector, raw)
        for when, length in self.sizes:
            if survives(when, -1):
                size = length
        return bytes(held[:size]), size


def _reach(held: bytearray, size: int) -> None:
    if len(held) < size:
        held.extend(bytes(size - len(held)))


def _put(held: bytearray, sector: int, raw: bytes) -> None:
    at = sector * SECTOR_BYTES
    _reach(held, at + SECTOR_BYTES)
    held[at : at + SECTOR_BYTES] = raw


@dataclass(slots=True, eq=False)
class Folder:
    """A directory: the names in it as they are seen, and as they are certain."""

    seen: dict[str, Node] = field(default_factory=dict)
    certain: dict[str, Node] = field(default_factory=dict)


Node = File | Folder
Survives = Callable[[int, int], bool]
"""Whether what was written at a time to a sector is on the disk; sector -1 is the length."""
Naming = tuple[Folder, str, "Node | None"]


class Disk:
    """The files under one directory."""

    def __init__(self) -> None:
        self.root = Folder()
        self._namings: list[tuple[int, tuple[Naming, ...]]] = []  # not certain yet; each whole or not at all

    def name(self, when: int, *namings: Naming) -> None:
        """Let names stand for other nodes (None: for nothing), all at once."""
        for folder, name, node in namings:
            if node is None:
                folder.seen.pop(name, None)
            else:
                folder.seen[name] = node
        self._namings.append((when, namings))

    def flush_folder(self, folder: Folder, until: int) -> None:
        """Make certain what happened to names in a directory before ``until``."""
        kept = []
        for when, namings in self._namings:
            if when < until and any(each[0] is folder for each in namings):
                for naming in namings:
                    _settle(naming, naming[0].certain)
            else:
                kept.append((when, namings))
        self._namings = kept

    def image(self, place: Path, fate: Fate) -> None:
        """Write what a power cut at this moment leaves into an empty directory, as fate has it."""
        names: dict[Folder, dict[str, Node]] = {}
        count = len(self._namings)
        for number, (_, group) in enumerate(self._namings):
            is_removal = all(node is None for _, _, node in group)
            if fate.name_survives(number, count, is_removal):
                for naming in group:
                    _settle(naming, names.setdefault(naming[0], dict(naming[0].certain)))
        _lay_out(self.root, place, names, fate)


def _settle(naming: Naming, names: dict[str, Node]) -> None:
    _, name, node = naming
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of what was not flushed."""

    survives: Survives
    name_survives: Callable[[int, int, bool], bool]
    """Told the number of a change of names, how many there are, and whether it only removes; each is whole or not."""
    stale: Callable[[int], bytes]
    """So many bytes of a lock file that nobody has open any more."""


def drawn(chance: random.Random) -> Fate:
    """Draw a fate: of bytes by whole writes or by sectors, from nothing to all of them.

    Of names either the first so many survive, as where a file system keeps one journal of them, or any, or the newest
    alone.
    """
    share = chance.choice((0.0, 0.1, 0.5, 0.5, 0.9, 1.0))
    by_write = chance.random() < 0.4
    salt = chance.getrandbits(64)
    names = chance.choice(("first", "first", "any", "any", "newest"))
    upto = chance.random()

    def survives(when: int, which: int) -> bool:
        return random.Random(f"{salt}/{when}/{0 if by_write and which >= 0 else which}").random() < share

    def name_survives(number: int, count: int, _is_removal: bool) -> bool:
        if names == "first":
            return number < round(upto * count)
        return number == count - 1 if names == "newest" else survives(number, -2)

    return Fate(survives, name_survives, chance.randbytes)


NOTHING = Fate(lambda when, which: False, lambda number, count, is_removal: False, bytes)
"""Nothing that was not flushed is there."""
NEWEST_NAME = Fate(lambda when, which: False, lambda number, count, is_removal: number == count - 1, bytes)
"""Nothing but what happened to a name last."""
NO_REMOVAL = Fate(lambda when, which: True, lambda number, count, is_removal: not is_removal, bytes)
"""Everything but that names were removed."""


def _lay_out(folder: Folder, place: Path, names: dict[Folder, dict[str, Node]], fate: Fate) -> None:
    for name, node in names.get(folder, folder.certain).items():
        if isinstance(node, Folder):
            (place / name).mkdir(mode=0o700)
            _lay_out(node, place / name, names, fate)
            continue
        raw, size = node.left(fate.survives)
        if name == LOCK_FILE:
            raw = fate.stale(size)
        fd = os.open(place / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.write(fd, raw)
        os.ftruncate(fd, size)
        os.close(fd)
