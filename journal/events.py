"""What an event is: three families of types, the clear header, and the draft that a decision makes.

All three families stand in one chain and take cursors. Their type numbers are reserved from the first format on; a
type that this release does not write yet is still refused by its own name, and an unknown number by its number.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import msgspec

from journal.errors import RegistryVersionUnavailable
from journal.scope import Scope

FORMAT = 1
EVENT_ID_BYTES = 32


class EventType(IntEnum):
    """Every event type's number. 1 to 31 lifecycle, 32 to 63 control, 64 to 95 conversation."""

    # lifecycle: the operations of CONTRACT §5, by the numbers of journal.lifecycle.Operation
    CAPTURE = 1
    ACCEPT = 2
    REJECT = 3
    WITHDRAW = 4
    DISPUTE = 5
    RESOLVE_DISPUTE = 6
    SUPERSEDE = 7
    MARK_NON_CURRENT = 8
    REWIND = 9
    EXPIRE = 10
    TRUST_INVALIDATE = 11
    TOMBSTONE = 12
    # control
    ADJUDICATION = 32
    GRANT = 33
    GRANT_REVOKED = 34
    EPOCH = 35
    TENANT_ENABLED = 36
    TENANT_DISABLED = 37
    CONFIRMATION_REQUESTED = 38
    CONFIRMATION_APPROVED = 39
    CONFIRMATION_DENIED = 40
    CONFIRMATION_EXPIRED = 41
    KEY_ROTATION = 42
    ERASURE_DONE = 43
    PROJECTION_INVALIDATED = 44
    RECONCILIATION_PROPOSED = 45
    ADJUDICATION_NOTE = 46
    RECONCILIATION_DISMISSED = 47
    CONFIRMATION_FORM = 48
    # conversation
    MESSAGE = 64
    MESSAGE_REVISION = 65
    MESSAGE_TAG = 66
    MESSAGE_PIN = 67
    MESSAGE_UNPIN = 68
    MESSAGE_ARCHIVE = 69
    MESSAGE_RESTORE = 70
    MESSAGE_ERASED = 71
    DIGEST = 72
    PROJECT_TAG = 73
    PROJECT_ALIAS = 74
    PROFILE = 75

    @property
    def label(self) -> str:
        """The type's name in lower case, as the command line prints it."""
        return self.name.lower()


LIFECYCLE = range(1, 32)
CONTROL = range(32, 64)
CONVERSATION = range(64, 96)

WRITTEN = frozenset(
    {
        *(EventType(number) for number in range(1, 13)),
        EventType.ADJUDICATION,
        EventType.GRANT,
        EventType.GRANT_REVOKED,
        EventType.EPOCH,
        EventType.TENANT_ENABLED,
        EventType.TENANT_DISABLED,
        EventType.CONFIRMATION_REQUESTED,
        EventType.CONFIRMATION_APPROVED,
        EventType.CONFIRMATION_DENIED,
        EventType.CONFIRMATION_EXPIRED,
        EventType.KEY_ROTATION,
        EventType.ERASURE_DONE,
        EventType.PROJECTION_INVALIDATED,
        EventType.RECONCILIATION_PROPOSED,
        EventType.ADJUDICATION_NOTE,
        EventType.RECONCILIATION_DISMISSED,
        EventType.CONFIRMATION_FORM,
        EventType.MESSAGE,
        EventType.MESSAGE_REVISION,
        EventType.MESSAGE_TAG,
        EventType.MESSAGE_PIN,
        EventType.MESSAGE_UNPIN,
        EventType.MESSAGE_ARCHIVE,
        EventType.MESSAGE_RESTORE,
        EventType.MESSAGE_ERASED,
        EventType.PROJECT_TAG,
        EventType.PROJECT_ALIAS,
        EventType.PROFILE,
    }
)
"""The types that this release writes and folds. The others are reserved: their fields come with their behaviour."""
_KNOWN = {int(kind): kind for kind in WRITTEN}


def known_type(number: int) -> EventType:
    """Return the type of this number.

    Raises:
        RegistryVersionUnavailable: the number is unknown, or reserved and not written by this release.
    """
    known = _KNOWN.get(number)
    if known is not None:
        return known
    try:
        kind = EventType(number)
    except ValueError:
        raise RegistryVersionUnavailable(f"event type {number} is unknown to this release") from None
    raise RegistryVersionUnavailable(f"event type {number} ({kind.label}) is reserved; this release does not read it")


class RequestState(IntEnum):
    """The state of a confirmation request, in the place where a candidate's state stands."""

    ABSENT = 0
    OPEN = 1
    APPROVED = 2
    DENIED = 3
    EXPIRED = 4


class Actor(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """Who did it, as the host bound it: never what a caller claimed."""

    principal: str
    agent_id: str | None = None
    session: bytes | None = None  # keyed digest of the session, 16 bytes


class Header(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """The clear part of an event, in the order in which the frame holds it.

    It has no word of content, no unkeyed digest of content or of an idempotency key, and no physical location.
    """

    format: int
    type: int
    scope: Scope
    cursor: int  # dense from 1 a scope
    recorded_at: int  # epoch ms, never decreases within a scope
    event_id: bytes  # 32 bytes; keyed digest of the idempotency identity or external id, or random where there is none
    actor: Actor
    subject: str | None  # candidate id, confirmation id or message id
    record_id: str | None  # from acceptance on
    related: str | None  # the other subject: successor, or a confirmation's target
    from_state: int
    to_state: int
    key_id: bytes | None  # 16 random bytes: the data key that seals this event's content
    intent: bytes | None  # keyed digest of tool, target and content, 32 bytes
    guards: tuple[bytes, ...]  # keyed digests, 32 bytes each (docs/design.md)
    content_digest: bytes | None  # BLAKE3 of the sealed content part, 32 bytes
    ledger_digest: bytes | None  # BLAKE3 of the sealed ledger part, 32 bytes
    prev: bytes  # BLAKE3 of the previous header frame; 32 zero bytes before the first

    @property
    def kind(self) -> EventType:
        """The event's type."""
        return EventType(self.type)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An event before the commit gives it its cursor, time and place in the chain.

    Both parts are sealed already: only what needs the cursor happens under the scope's lock.
    """

    type: EventType
    event_id: bytes
    actor: Actor
    subject: str | None = None
    record_id: str | None = None
    related: str | None = None
    from_state: int = 0
    to_state: int = 0
    key_id: bytes | None = None
    slot: int | None = None  # where the wrapped data key stands; goes to the index, never into the frame
    slot_generation: int = 0  # the slot file's generation as the writer knows it; mirrored in the commit record
    intent: bytes | None = None
    guards: tuple[bytes, ...] = ()
    content: bytes | None = None
    ledger: bytes | None = None
