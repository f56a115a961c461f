"""Data keys and their slots: each is wrapped under its scope's wrapping key, bound to scope and key id."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from journal import limits, sealing
from journal.errors import JournalCorrupt
from journal.slots import Slot, SlotState

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    from journal.clock import Randomness
    from journal.scope import Scope

_SLOT_AAD_FORMAT = 1


@dataclass(frozen=True, slots=True)
class DataKey:
    """A fresh data key and where its wrapped form stands."""

    key_id: bytes
    key: bytes = field(repr=False)
    slot: int
    generation: int


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a data key is made of, before anybody knows its slot."""

    key_id: bytes
    key: bytes = field(repr=False)
    nonce: bytes

    @classmethod
    def of(cls, randomness: Randomness, scope: Scope) -> Drawn:
        """Draw one."""
        sizes = (limits.KEY_ID_BYTES, limits.KEY_BYTES, limits.NONCE_BYTES)
        return cls(*[randomness.draw(scope, size) for size in sizes])

    def slot(self, scope: Scope, wrapping: AESGCM) -> Slot:
        """Return the slot that it stands in."""
        wrapped = sealing.wrap(wrapping, self.key, slot_aad(scope, self.key_id), self.nonce)
        return Slot(SlotState.LIVE, self.key_id, wrapped)


def in_slots(scope: Scope, wrapping: AESGCM, slots: Iterable[tuple[int, Slot]], generation: int) -> list[DataKey]:
    """Return the data keys in slots, given as (number, slot); one that does not open is left out."""
    opened = [(number, slot.key_id, unwrapped(scope, wrapping, slot)) for number, slot in slots]
    return [DataKey(key_id, key, number, generation) for number, key_id, key in opened if key is not None]


def unwrapped(scope: Scope, wrapping: AESGCM | bytes, slot: Slot) -> bytes | None:
    """Return the data key in a slot, or None where it does not open."""
    return sealing.unwrap(wrapping, slot.wrapped, slot_aad(scope, slot.key_id))


def rewrapped(
    scope: Scope, old: bytes, new: bytes, slots: Sequence[Slot | None], randomness: Randomness
) -> list[Slot | None]:  # fmt: skip
    """Return slots under a new wrapping key, in their order; what is destroyed or broken stays so.

    A broken slot is an append that the machine's end cut short; or its key is lost, which a rotation cannot mend.

    Raises:
        JournalCorrupt: a whole slot does not open.
    """
    moved: list[Slot | None] = []
    for slot in slots:
        if slot is None or slot.state is SlotState.DESTROYED:
            moved.append(slot)
            continue
        key = unwrapped(scope, old, slot)
        if key is None:
            raise JournalCorrupt("a slot does not open; the keys are not rotated")
        nonce = randomness.draw(scope, limits.NONCE_BYTES)
        moved.append(Slot(slot.state, slot.key_id, sealing.wrap(new, key, slot_aad(scope, slot.key_id), nonce)))
    return moved


def slot_aad(scope: Scope, key_id: bytes) -> bytes:
    """Return what a wrapped data key is bound to: the MessagePack array [format, "slot", tenant, workspace, key id]."""
    return msgspec.msgpack.encode((_SLOT_AAD_FORMAT, "slot", scope.tenant_id, scope.workspace_id, key_id))
