"""The slot file: where the wrapped data keys of one scope stand, and where they are destroyed.

Layout, little-endian. Slot n stands at ``512 + 128 n``; 128 divides a sector of 512 bytes, so a slot is never torn.

    header, 512 bytes                         slot, 128 bytes
      0  magic  "ENGRSLOT"          8            0  state: 1 live, 2 destroyed   1
      8  format u16 = 1             2            1  zero                         3
     10  zero                       2            4  key_id                      16
     12  epoch u32                  4           20  wrapped key: nonce 12,
     16  generation u64             8               ciphertext 32, tag 16       60
     24  scope tag                 16           80  zero                        32
     40  zero                     456          112  BLAKE3 of bytes 0..112      16
    496  BLAKE3 of bytes 0..496    16

The generation grows by one with every append and every destruction. The journal mirrors it, so that an older file put
back is noticed. LMDB keeps deleted bytes in free pages; a slot is overwritten in place and flushed instead.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from blake3 import blake3

from journal import limits
from journal.errors import JournalCorrupt, RegistryVersionUnavailable
from journal.rootkey import flush_directory

MAGIC = b"ENGRSLOT"
FORMAT = 1
HEADER_BYTES = 512
WRAPPED_BYTES = limits.NONCE_BYTES + limits.KEY_BYTES + 16
_CHECK_BYTES = 16
_ATTEMPTS = 4
_PAUSE_SECONDS = 0.001
_HEADER = struct.Struct("<8sHHIQ16s456x")
_SLOT = struct.Struct(f"<B3x{limits.KEY_ID_BYTES}s{WRAPPED_BYTES}s32x")


class SlotState(IntEnum):
    """What a slot holds."""

    LIVE = 1
    DESTROYED = 2


_STATES = {int(state): state for state in SlotState}


@dataclass(frozen=True, slots=True)
class Slot:
    """One slot as read: its state, the key's id and the wrapped key (zeros once destroyed)."""

    state: SlotState
    key_id: bytes
    wrapped: bytes


def _checked(body: bytes) -> bytes:
    return body + blake3(body).digest(_CHECK_BYTES)


def encode_slot(slot: Slot) -> bytes:
    """Return the 128 bytes of a slot."""
    return _checked(_SLOT.pack(slot.state, slot.key_id, slot.wrapped))


def decode_slot(raw: bytes) -> Slot | None:
    """Return the slot in these 128 bytes, or None where they are not whole."""
    if len(raw) != limits.SLOT_BYTES or not _is_whole(raw):
        return None
    state, key_id, wrapped = _SLOT.unpack(raw[:-_CHECK_BYTES])
    known = _STATES.get(state)
    return None if known is None else Slot(known, key_id, wrapped)


def opens_slots(raw: bytes, tag: bytes, epoch: int) -> bool:
    """Whether a slot file's bytes begin with a whole header of this scope and epoch.

    What stands behind it may be broken or torn in a store that is otherwise whole, and is told slot by slot.

    Raises:
        RegistryVersionUnavailable: its format is another.
    """
    if len(raw) < HEADER_BYTES or not _is_whole(raw[:HEADER_BYTES]):
        return False
    magic, form, _, stated_epoch, _, stated_tag = _HEADER.unpack(raw[: HEADER_BYTES - _CHECK_BYTES])
    if magic == MAGIC and form != FORMAT:
        raise RegistryVersionUnavailable(f"slot file format {form} is unknown; this release reads {FORMAT}")
    return (magic, stated_epoch, stated_tag) == (MAGIC, epoch, tag)


def _is_whole(raw: bytes) -> bool:
    return blake3(raw[:-_CHECK_BYTES]).digest(_CHECK_BYTES) == raw[-_CHECK_BYTES:]


class SlotFile:
    """An open slot file. The caller holds the scope's key lock around ``append`` and ``destroy``."""

    def __init__(self, path: Path, tag: bytes, *, readonly: bool = False) -> None:
        self.path = path
        self._tag = tag
        self._fd = os.open(path, (os.O_RDONLY if readonly else os.O_RDWR) | os.O_CLOEXEC)

    @classmethod
    def create(cls, path: Path, tag: bytes, epoch: int, generation: int, slots: Sequence[Slot | None]) -> None:
        """Write a whole new slot file durably; it must not exist. A broken slot (None) stays one, for its number."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            header = _checked(_HEADER.pack(MAGIC, FORMAT, 0, epoch, generation, tag))
            body = b"".join(bytes(limits.SLOT_BYTES) if slot is None else encode_slot(slot) for slot in slots)
            _write_all(fd, header + body, 0)
            _flush(fd)
        finally:
            os.close(fd)
        flush_directory(path.parent)  # before a keyring names this file: names may become durable in any order

    def _header(self) -> tuple[int, int]:
        """Return (epoch, generation)."""
        raw = self._whole_header()
        magic, form, _, epoch, generation, tag = _HEADER.unpack(raw[:-_CHECK_BYTES])
        if magic != MAGIC or tag != self._tag:
            raise JournalCorrupt("the slot file belongs to another scope")
        if form != FORMAT:
            raise RegistryVersionUnavailable(f"slot file format {form} is unknown; this release reads {FORMAT}")
        return epoch, generation

    def _whole_header(self) -> bytes:
        """Return the header's bytes; read again where another process may be writing them this moment."""
        for _ in range(_ATTEMPTS):
            raw = os.pread(self._fd, HEADER_BYTES, 0)
            if len(raw) == HEADER_BYTES and _is_whole(raw):
                return raw
            time.sleep(_PAUSE_SECONDS)
        raise JournalCorrupt("the slot file's header is broken")

    def states_epoch(self, epoch: int) -> bool:
        """Whether the header is whole and says that the slots stand under this epoch's wrapping key."""
        try:
            return self._header()[0] == epoch
        except JournalCorrupt:
            return False

    @property
    def generation(self) -> int:
        """The file's generation, read afresh."""
        return self._header()[1]

    @property
    def count(self) -> int:
        """How many whole slots the file holds."""
        return max(0, os.fstat(self._fd).st_size - HEADER_BYTES) // limits.SLOT_BYTES

    def read(self, number: int) -> Slot | None:
        """Return a slot, or None where it is beyond the end or broken."""
        if number < 0:
            return None
        return decode_slot(os.pread(self._fd, limits.SLOT_BYTES, HEADER_BYTES + number * limits.SLOT_BYTES))

    def read_all(self) -> list[Slot | None]:
        """Return every slot in order; a broken one is None."""
        raw = os.pread(self._fd, self.count * limits.SLOT_BYTES, HEADER_BYTES)
        return [decode_slot(raw[at : at + limits.SLOT_BYTES]) for at in range(0, len(raw), limits.SLOT_BYTES)]

    def located(self) -> dict[bytes, int]:
        """Return key_id -> number of every slot that is whole."""
        return {slot.key_id: number for number, slot in enumerate(self.read_all()) if slot is not None}

    def standing(self, doomed: list[tuple[bytes, int | None]]) -> dict[int, bytes]:
        """Return number -> key_id of the slots to overwrite, given as (key_id, number where it is known).

        Never one that holds another key: the journal's numbers are not taken on trust, for after an older slot file was
        put back they may be other keys' by now. A broken slot may hold what is left of the key, so it is among them.
        """
        numbers: dict[int, bytes] = {}
        located: dict[bytes, int] | None = None
        for key_id, number in doomed:
            found = None if number is None else self.read(number)
            if number is not None and number < self.count and (found is None or found.key_id == key_id):
                numbers[number] = key_id
                continue
            if located is None:
                located = self.located()
            if key_id in located:
                numbers[located[key_id]] = key_id
        return numbers

    def append(self, slots: list[Slot]) -> tuple[int, int]:
        """Write slots at the end, durably; return (number of the first, generation).

        A torn tail of an earlier append is overwritten: nothing refers to it, for its append never returned.
        """
        first = self.count
        _write_all(self._fd, b"".join(encode_slot(slot) for slot in slots), HEADER_BYTES + first * limits.SLOT_BYTES)
        return first, self._bump()

    def destroy(self, doomed: Mapping[int, bytes], at_least: int = 0) -> int:
        """Overwrite slots in place, given as number -> key_id, durably; return the generation, now over ``at_least``.

        Destroying twice is harmless.
        """
        for number, key_id in doomed.items():
            blank = Slot(SlotState.DESTROYED, key_id, bytes(WRAPPED_BYTES))
            _write_all(self._fd, encode_slot(blank), HEADER_BYTES + number * limits.SLOT_BYTES)
        return self._bump(at_least)

    def _bump(self, at_least: int = 0) -> int:
        """Flush the slots, then raise the generation and flush again: it never runs ahead of what it counts."""
        _flush(self._fd)
        epoch, generation = self._header()
        raised = max(generation, at_least) + 1
        _write_all(self._fd, _checked(_HEADER.pack(MAGIC, FORMAT, 0, epoch, raised, self._tag)), 0)
        _flush(self._fd)
        return raised

    def close(self) -> None:
        """Close the file."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with suppress(OSError):  # what is written was flushed when it was written
                os.close(fd)


def blank(path: Path) -> None:
    """Overwrite a file of keys that is no longer in force with zeros, flush, remove it; harmless where it is gone."""
    with suppress(FileNotFoundError), path.open("r+b") as file:
        file.write(bytes(path.stat().st_size))
        file.flush()
        _flush(file.fileno())
    path.unlink(missing_ok=True)


def _flush(fd: int) -> None:
    """Flush a file's bytes to the medium; macOS needs to be asked in its own words."""
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:
        fcntl.fcntl(fd, full)
    else:
        os.fdatasync(fd)


def _write_all(fd: int, raw: bytes, offset: int) -> None:
    view = memoryview(raw)
    while view:
        written = os.pwrite(fd, view, offset)
        view, offset = view[written:], offset + written
