"""By whose authority each event stands: told from the events alone, and what of it cannot be so.

A journal knows whose hand made an event, which grant of its own stood, under which epoch, which request a person
approved just before it, and, while its content is there, the receipt of a capture. What the host file granted at the
time it does not know; where no grant event says otherwise, the host file is the authority.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from journal import authority
from journal.actors import Hand, hand_of
from journal.digests import receipt_digest
from journal.errors import BlobMissing, JournalCorrupt, RegistryVersionUnavailable
from journal.events import EventType
from journal.messages import MessageState
from replay.approvals import RESTORED, Approvals, misattributed
from replay.events import described, pages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from journal.events import Header
    from journal.log import Journal
    from journal.scope import Scope
    from journal.store.port import Committed, View
    from replay.approvals import Approval

MAINTAIN: Final = "maintain"
"""The operation of whoever is at the machine, which no agent is ever granted (CONTRACT 8)."""

TOOLS: Final = {
    EventType.CAPTURE: "engram_memory_capture",
    EventType.ACCEPT: "engram_memory_request_admission",
    EventType.REJECT: "engram_memory_request_admission",
    EventType.ADJUDICATION: "engram_memory_request_admission",
    EventType.WITHDRAW: "engram_memory_withdraw",
    EventType.TOMBSTONE: "engram_memory_forget",
    EventType.MESSAGE: "save_message",
    EventType.MESSAGE_REVISION: "manage_knowledge",
    EventType.MESSAGE_UNPIN: "manage_knowledge",
    EventType.MESSAGE_ARCHIVE: "manage_knowledge",
    EventType.MESSAGE_ERASED: "manage_knowledge",
    EventType.PROFILE: "manage_knowledge",
}
"""The tool by which an agent writes an event of a type."""
_KEPT: Final = "manage_knowledge"  # a message that is pinned from birth is a memory that somebody wants kept
_LOST = (BlobMissing, JournalCorrupt, RegistryVersionUnavailable)


@dataclass(frozen=True, slots=True)
class Explained:
    """The authority of one event."""

    event: Committed
    hand: Hand
    operation: str | None  # the tool, or ``maintain``; None: what the engine does of itself
    basis: str  # grant, host_file, operator, form, engine, or restored
    grant: int | None  # cursor of the grant event that stood
    epoch: int  # the authorization epoch in force
    receipt: str | None  # digest of the authorization receipt, where the journal holds it
    policy: dict[str, Any] | None  # of a decision: {policy_id, policy_version, receipt_digest}
    approval: Approval | None
    amiss: tuple[str, ...]  # what cannot be so

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON: cursors are strings, as everywhere."""
        said = described(self.event)
        told = ("cursor", "recorded_at", "type", "subject", "record_id", "related", "event_digest")
        return {
            **{name: said[name] for name in told},
            "principal": said["actor"]["principal"],
            "agent_id": said["actor"]["agent_id"],
            "hand": self.hand.value,
            "operation": self.operation,
            "basis": self.basis,
            "grant_cursor": None if self.grant is None else str(self.grant),
            "authorization_epoch": str(self.epoch),
            "authorization_receipt_digest": self.receipt,
            "policy": self.policy,
            "confirmation": None if self.approval is None else self.approval.as_json(),
            "amiss": list(self.amiss),
        }


@dataclass(slots=True)
class Grants:
    """A scope's grants and its epoch after the events given so far, from their headers and ledgers."""

    epoch: int = 0
    disabled: bool = False
    by_tool: dict[tuple[str, str], tuple[bool, int]] = field(default_factory=dict)  # whether it stands, its cursor

    def take(self, header: Header, ledger: Any) -> None:
        """Take over an event of authority; any other changes nothing."""
        kind = header.type
        if kind in authority.RAISING:
            self.epoch = header.cursor
        if kind in authority.GRANTS and isinstance(ledger, dict):
            stands = kind == EventType.GRANT
            self.by_tool[str(ledger.get("principal")), str(ledger.get("tool"))] = (stands, header.cursor)
        if kind in authority.OPT_INS:
            self.disabled = kind == EventType.TENANT_DISABLED

    def amiss(self, header: Header, tool: str) -> str | None:
        """Return why an agent cannot have done this under the authority in force, or None."""
        if self.disabled:
            return "the tenant had opted out"
        known = self.by_tool.get((header.actor.principal, tool))
        if known is not None and not known[0]:
            return f"the grant was revoked at cursor {known[1]}"
        return None


def operation_of(header: Header, ledger: Any) -> str | None:
    """Return the tool by which an agent does this, ``maintain`` of a person, or None."""
    hand = hand_of(header.actor)
    if hand is not Hand.AGENT:
        return MAINTAIN if hand is Hand.OPERATOR else None
    if header.type == EventType.MESSAGE and header.to_state == MessageState.PINNED:
        return _KEPT
    if header.type == EventType.CONFIRMATION_REQUESTED and isinstance(ledger, dict):
        return str(ledger.get("capability"))
    return TOOLS.get(EventType(header.type))


class Receipts:
    """What sealed parts say of authority, held against the headers of a scope, event by event."""

    def __init__(self, journal: Journal) -> None:
        self.grants = Grants()
        self._keyring = journal.keyring

    def take(self, header: Header, content: Any, ledger: Any) -> list[str]:
        """Take over an event, and return what of its authority cannot be so.

        Args:
            header: the event's.
            content: its content part, where that opens; of a capture it is looked at.
            ledger: its ledger part, where that opens.
        """
        operation = operation_of(header, ledger)
        amiss = [self._capture(header, content), self._grant(header, ledger)]
        if operation is not None and hand_of(header.actor) is Hand.AGENT and header.related != RESTORED:
            amiss.append(self.grants.amiss(header, operation))
        self.grants.take(header, ledger)
        return [each for each in amiss if each is not None]

    def _grant(self, header: Header, ledger: Any) -> str | None:
        """Return how what an event says of a grant is another grant's, or None."""
        if header.type not in authority.GRANTS or not isinstance(ledger, dict):
            return None
        key = self._keyring.identity_key(header.scope)
        named = authority.grant_id(key, str(ledger.get("principal")), str(ledger.get("tool")))
        return None if named == header.subject else "what is said of the grant is of another one"

    def _capture(self, header: Header, content: Any) -> str | None:
        """Return how the authorization that a capture holds is another's, or None."""
        receipt = content.get("authorization") if isinstance(content, dict) else None
        if header.type != EventType.CAPTURE or not isinstance(receipt, dict):
            return None
        if receipt.get("receipt_digest") != receipt_digest("authorization", receipt):
            return "the authorization is not the one that was sealed"
        wanted = {
            "principal": (header.actor.principal,),
            "scope_ref": (header.scope.ref,),
            "operation": (TOOLS[EventType.CAPTURE], MAINTAIN),
            "authorization_epoch": (str(self.grants.epoch),),
        }
        other = [name for name, known in wanted.items() if receipt.get(name) not in known]
        return f"the authorization names another {other[0]}" if other else None


def explained(journal: Journal, scope: Scope, *, to: int | None = None) -> Iterator[Explained]:
    """Yield the authority of each event of a scope, oldest first, up to ``to`` (None: the head as it stands now).

    A part that is erased or lost says nothing; that it is lost is for the audit to say.

    Raises:
        CursorGap, JournalCorrupt, RegistryVersionUnavailable: an event cannot be read.
    """
    approvals, receipts = Approvals(), Receipts(journal)
    for page in pages(journal.store, scope, to=to):
        with journal.store.view(scope) as view:
            for event in page:
                yield _explained(journal, view, event, approvals, receipts)


def _explained(
    journal: Journal, view: View, event: Committed, approvals: Approvals, receipts: Receipts
) -> Explained:  # fmt: skip
    header = event.header
    ledger, content = _parts(journal, view, header)
    said = ledger if isinstance(ledger, dict) else {}
    approval, missing = approvals.take(header)
    amiss = [misattributed(header), missing]
    hand, operation = hand_of(header.actor), operation_of(header, ledger)
    stood = receipts.grants.by_tool.get((header.actor.principal, operation or ""))
    epoch = receipts.grants.epoch
    amiss += receipts.take(header, content, ledger)
    if header.type == EventType.CONFIRMATION_APPROVED and header.subject is not None:
        approvals.decided(header, said)
    basis, grant = _basis(header, hand, stood)
    return Explained(
        event, hand, operation, basis, grant, epoch, _receipt(content, said), _policy(said), approval,
        tuple(each for each in amiss if each is not None),
    )  # fmt: skip


def _parts(journal: Journal, view: View, header: Header) -> tuple[Any, Any]:
    """Return the ledger of an event and, of a capture, the content; None of what is not there or cannot be read."""
    ledger = content = None
    try:
        ledger = None if header.ledger_digest is None else journal.ledger(view, header)
        content = journal.content(view, header) if header.type == EventType.CAPTURE else None
    except _LOST:
        pass
    return ledger, content


def _basis(header: Header, hand: Hand, stood: tuple[bool, int] | None) -> tuple[str, int | None]:
    """Return what an event rests on, and the cursor of the grant where it is one."""
    if header.related == RESTORED:
        return RESTORED, None
    if hand is not Hand.AGENT:
        return {Hand.OPERATOR: "operator", Hand.CLIENT: "form", Hand.ENGINE: "engine"}[hand], None
    return ("grant", stood[1]) if stood is not None and stood[0] else ("host_file", None)


def _receipt(content: Any, said: dict[str, Any]) -> str | None:
    """Return the digest of the authorization receipt, which a capture holds whole and other events name."""
    authorization = content.get("authorization") if isinstance(content, dict) else None
    whole = authorization.get("receipt_digest") if isinstance(authorization, dict) else None
    return said.get("authorization_receipt_digest") or whole


def _policy(said: dict[str, Any]) -> dict[str, Any] | None:
    decision = said.get("decision")
    if not isinstance(decision, dict):
        return None
    return {name: decision.get(name) for name in ("policy_id", "policy_version", "decision", "receipt_digest")}
