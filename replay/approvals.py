"""Whose hand may do what, and which approval stands before an operation: told from headers alone, without a key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from journal import authority
from journal.actors import Hand, hand_of
from journal.events import EventType

if TYPE_CHECKING:
    from journal.events import Header

_CONFIRMED: Final = frozenset({EventType.WITHDRAW, EventType.TOMBSTONE, EventType.MESSAGE_ERASED})
"""What an agent does only when a person has approved it (CONTRACT 1)."""
_MAINTENANCE: Final = frozenset(
    {
        EventType.DISPUTE,
        EventType.RESOLVE_DISPUTE,
        EventType.SUPERSEDE,
        EventType.MARK_NON_CURRENT,
        EventType.REWIND,
        EventType.EXPIRE,
        EventType.TRUST_INVALIDATE,
        EventType.CONFIRMATION_APPROVED,
        EventType.CONFIRMATION_DENIED,
        EventType.CONFIRMATION_EXPIRED,
        EventType.CONFIRMATION_FORM,
        EventType.KEY_ROTATION,
        EventType.ERASURE_DONE,
        EventType.PROJECTION_INVALIDATED,
        EventType.RECONCILIATION_PROPOSED,
        EventType.RECONCILIATION_DISMISSED,
        EventType.ADJUDICATION_NOTE,
    }
)
"""What no agent ever does (CONTRACT 1 and 5)."""
_OPERATORS: Final = authority.EVENTS
"""What only somebody at the machine does."""
_FORMS: Final = frozenset({EventType.CONFIRMATION_APPROVED, EventType.CONFIRMATION_DENIED, EventType.CONFIRMATION_FORM})
"""What the user of a client does."""

RESTORED: Final = "restored"
"""What an event names as related that a restore brought from an erasure ledger: its approval stands elsewhere."""

LOOKED_AT: Final = frozenset(map(int, _CONFIRMED | _MAINTENANCE | _OPERATORS | {EventType.CONFIRMATION_REQUESTED}))
"""The types of which a header says more than whose it is."""


def misattributed(header: Header) -> str | None:
    """Return why an event cannot have been made by the hand that it names, or None."""
    if header.type not in LOOKED_AT:
        return None
    hand = hand_of(header.actor)
    if hand is Hand.AGENT and header.type in _MAINTENANCE:
        return f"a {header.kind.label} event by an agent"
    if hand is not Hand.OPERATOR and header.type in _OPERATORS:
        return f"a {header.kind.label} event that is not an operator's"
    if hand is Hand.CLIENT and header.type not in _FORMS:
        return f"a {header.kind.label} event by the user of a client"
    return None


@dataclass(slots=True)
class Approval:
    """A person's approval of an operation."""

    confirmation_id: str
    requested: int  # cursor
    principal: str  # who asked
    intent: bytes | None
    approved: int = 0  # cursor; 0: not yet
    by: str = ""
    channel: str | None = None  # only the ledger says it

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "confirmation_id": self.confirmation_id,
            "requested_cursor": str(self.requested),
            "approved_cursor": str(self.approved) if self.approved else None,
            "approved_by": self.by or None,
            "channel": self.channel,
        }


class Approvals:
    """The requests of a scope that are open, and the one that the last event approved."""

    def __init__(self) -> None:
        self._open: dict[str, Approval] = {}
        self._last: Approval | None = None  # approved by the event just before

    def take(self, header: Header) -> tuple[Approval | None, str | None]:
        """Take over an event; return the approval that it is, or is done by, and why it lacks one.

        Only those of a type in ``LOOKED_AT`` need be given; others may be done by one too.
        """
        kind, last = header.type, self._last
        subject = header.subject or ""
        if kind == EventType.CONFIRMATION_REQUESTED:
            asked = self._open[subject] = Approval(subject, header.cursor, header.actor.principal, header.intent)
            return asked, None
        if kind in (EventType.CONFIRMATION_DENIED, EventType.CONFIRMATION_EXPIRED):
            return self._open.pop(subject, None), None
        if kind == EventType.CONFIRMATION_APPROVED:
            self._last = last = self._open.pop(subject, None)
            if last is not None:
                last.approved, last.by = header.cursor, header.actor.principal
            return last, None
        if last is not None and last.approved != header.cursor - 1:
            last = self._last = None
        if kind not in _CONFIRMED or hand_of(header.actor) is not Hand.AGENT or header.related == RESTORED:
            is_of_it = last is not None and last.intent is not None and last.intent == header.intent
            return (last if is_of_it else None), None
        return last, _lacking(header, last)

    def decided(self, header: Header, said: dict[str, Any]) -> None:
        """Take over what the ledger of an approval says of its channel."""
        if self._last is not None and self._last.confirmation_id == header.subject:
            self._last.channel = said.get("channel")


def _lacking(header: Header, approval: Approval | None) -> str | None:
    """Return what an operation lacks that needs the approval just before it, or None."""
    if approval is None:
        return f"a {header.kind.label} event by an agent that nobody approved"
    if approval.intent != header.intent:
        return f"a {header.kind.label} event that is not what was approved"
    if approval.principal != header.actor.principal:
        return f"a {header.kind.label} event of another principal than the one that asked"
    return None
