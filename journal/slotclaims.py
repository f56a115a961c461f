"""Which slots a living process has for itself: data keys are written ahead, and a short process uses few of them.

    keys/<scope tag>.ahead    records of 32 bytes, little-endian: first slot u64, how many u64, key id of the first 16

Whoever appends slots notes them here, and locks as many bytes of this file, at the slots' numbers, for as long as it
lives: the kernel gives the lock back when it dies, however. So the keys of a claim that can be locked are nobody's, and
those of them under which nothing is stored serve the next process: the slot file does not grow with every process. A
slot that no claim names is never taken, for who wrote it may live and claim nothing.

The file is not flushed, and is believed only where the slot at ``first`` is the key's: a claim that is lost costs the
room of its slots. The scope's key lock is held around everything here. Systems without locks that belong to an open
file have no claims, and every process writes its own slots.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from journal import limits
from journal.filelock import FileLock
from journal.slots import Slot, SlotFile, SlotState

IsStored = Callable[[Collection[bytes]], Collection[bytes]]
"""Returns those of some key ids under which something is stored."""

_CLAIMS_KEPT = 2
_CLAIM = struct.Struct(f"<QQ{limits.KEY_ID_BYTES}s")


class _Claim(NamedTuple):
    """Slots in a row, and the id of the first one's key."""

    first: int
    slots: int
    key_id: bytes


class SlotClaims:
    """The claims on one scope's slots, and those that this process holds."""

    def __init__(self, path: Path) -> None:
        """Open the file of claims, making it where it is missing; OSError where that cannot be."""
        self._lock = FileLock(path)
        self._mine: list[_Claim] = []

    def claim(self, first: int, count: int, key_id: bytes) -> None:
        """Claim slots that were just appended. One that cannot be written is no claim, and nothing more.

        The claim before the last is given up: what of it is not stored by now is on its way, or little.
        """
        with suppress(OSError):
            if self._lock.try_acquire_range(first, count):
                self._mine.append(_Claim(first, count, key_id))
                given_up = self._mine[:-_CLAIMS_KEPT]
                self._write([claim for claim in [*self._read(), self._mine[-1]] if claim not in given_up])
                for claim in given_up:  # now that the file does not name it, or another would take its keys: so we too
                    self._mine.remove(claim)
                    self._lock.release_range(claim.first, claim.slots)

    def take_over(self, slots: SlotFile, is_stored: IsStored) -> list[tuple[int, Slot]]:
        """Claim what a dead process had claimed; return (number, slot) of those under which nothing is stored.

        At most one claim's worth. Claims with nothing left in them are removed on the way.
        """
        kept = claims = self._read()
        found: list[tuple[int, Slot]] = []
        for claim in claims:
            if claim in self._mine or not self._lock.try_acquire_range(claim.first, claim.slots):
                continue  # its process lives
            found = _unused(claim, slots, is_stored)
            if found:
                self._mine.append(claim)
                break
            kept = [other for other in kept if other != claim]
            self._lock.release_range(claim.first, claim.slots)
        if kept != claims:
            self._write(kept)
        return found

    def _read(self) -> list[_Claim]:
        raw = os.pread(self._lock.fileno(), os.fstat(self._lock.fileno()).st_size, 0)
        whole = len(raw) - len(raw) % _CLAIM.size
        claims = dict.fromkeys(map(_Claim._make, _CLAIM.iter_unpack(raw[:whole])))
        return [claim for claim in claims if 0 < claim.slots <= limits.SLOTS_AHEAD_MAX and claim.first < 1 << 62]

    def _write(self, claims: list[_Claim]) -> None:
        raw = b"".join(_CLAIM.pack(*claim) for claim in claims)
        os.pwrite(self._lock.fileno(), raw, 0)
        os.ftruncate(self._lock.fileno(), len(raw))

    def close(self) -> None:
        """Let go of every claim: what of it was not used is nobody's."""
        self._lock.close()


def _unused(claim: _Claim, slots: SlotFile, is_stored: IsStored) -> list[tuple[int, Slot]]:
    """Return (number, slot) of a claim's live slots under which nothing is stored."""
    numbers = range(claim.first, claim.first + claim.slots)
    live = [(number, slot) for number in numbers if (slot := slots.read(number)) and slot.state is SlotState.LIVE]
    first = slots.read(claim.first)
    if first is None or first.key_id != claim.key_id or not live:
        return []
    stored = is_stored([slot.key_id for _, slot in live])
    return [(number, slot) for number, slot in live if slot.key_id not in stored]
