"""Proposals of reconciliation before a person: what stands open, applying one, dismissing one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from blake3 import blake3

from journal.clock import instant
from journal.errors import AlreadyTerminal, IllegalTransition, JournalCorrupt, NotFound
from journal.events import Actor, Draft, EventType
from journal.lifecycle import Operation, State
from replay.events import pages
from tools.memory.maintenance import Order, Ordered, carry_out, operator_authorization

if TYPE_CHECKING:
    from journal.events import Header
    from journal.log import Journal
    from journal.scope import Scope
    from journal.store.port import Committed, View
    from tools.memory.engine import Engine

Standing = Literal["open", "dismissed", "settled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """One proposal, and how it stands: open while both records are current and nobody dismissed it."""

    cursor: int  # of its event; this is its name
    recorded_at: str  # instant
    family_ref: str
    relation: str
    candidate_id: str  # of the record at whose acceptance it was made
    other_id: str  # candidate id of the other record
    superseding_id: str | None  # candidate id of the one that would take the other's place
    record_ids: tuple[str | None, str | None]  # of both, in that order
    dismissal_id: bytes  # of its dismissal, whether there is one or not
    standing: Standing

    @property
    def superseded_id(self) -> str | None:
        """The candidate id of the record whose place would be taken."""
        if self.superseding_id is None:
            return None
        return self.other_id if self.superseding_id == self.candidate_id else self.candidate_id

    def record_id(self, candidate_id: str | None) -> str | None:
        """Return the record id of one of both."""
        return dict(zip((self.candidate_id, self.other_id), self.record_ids, strict=True)).get(candidate_id or "")

    def as_json(self) -> dict[str, Any]:
        """Return it as the command line prints it."""
        return {
            "proposal": str(self.cursor),
            "recorded_at": self.recorded_at,
            "family_ref": self.family_ref,
            "relation": self.relation,
            "record_id": self.record_ids[0],
            "other_record_id": self.record_ids[1],
            "superseding": self.record_id(self.superseding_id),
            "superseded": self.record_id(self.superseded_id),
            "standing": self.standing,
        }


def proposals(journal: Journal, scope: Scope) -> list[Proposal]:
    """Return all proposals of a scope, oldest first, read off the events: no index holds them."""
    events = (event.header for page in pages(journal.store, scope) for event in page)
    made = [header for header in events if header.type == EventType.RECONCILIATION_PROPOSED]
    with journal.store.view(scope) as view:
        return [_proposal(journal, view, header) for header in made]


def proposal_at(journal: Journal, scope: Scope, cursor: int) -> Proposal:
    """Return the proposal that was made at a cursor.

    Raises:
        NotFound: none was.
    """
    with journal.store.view(scope) as view:
        event = view.event(cursor) if 0 < cursor <= view.head.cursor else None
        if event is None or event.header.type != EventType.RECONCILIATION_PROPOSED:
            raise NotFound("this scope has no such proposal")
        return _proposal(journal, view, event.header)


def _proposal(journal: Journal, view: View, header: Header) -> Proposal:
    if header.subject is None or header.related is None:
        raise JournalCorrupt(f"the proposal at cursor {header.cursor} names no two records")
    ledger, rows = journal.ledger(view, header), [view.subject(name) for name in (header.subject, header.related)]
    is_open = all(row is not None and row.state == State.ACCEPTED_CURRENT for row in rows)
    first, second = (None if row is None else row.record_id for row in rows)
    return Proposal(
        cursor=header.cursor, recorded_at=instant(header.recorded_at), family_ref=ledger["family_ref"],
        relation=ledger["relation"], candidate_id=header.subject, other_id=header.related,
        superseding_id=ledger.get("superseding"), record_ids=(first, second),
        dismissal_id=dismissal_id(header.event_id),
        standing=_standing(is_dismissed=view.outcome(dismissal_id(header.event_id)) is not None, is_open=is_open),
    )  # fmt: skip


def _standing(*, is_dismissed: bool, is_open: bool) -> Standing:
    if is_dismissed:
        return "dismissed"
    return "open" if is_open else "settled"


def dismissal_id(event_id: bytes) -> bytes:
    """Return the event id of a proposal's one dismissal: made of the proposal's own, which is random."""
    return blake3(event_id, derive_key_context="engram/dismissal/v1").digest()


def supersede(engine: Engine, scope: Scope, operator: str, proposal: Proposal, keep: str) -> list[Ordered]:
    """Let one of both records take the other's place; ``keep`` is its candidate id.

    Raises:
        AlreadyTerminal, IllegalTransition: the proposal is not open any more, or the states changed meanwhile.
    """
    _require_open(proposal)
    gone = proposal.other_id if keep == proposal.candidate_id else proposal.candidate_id
    reason = f"proposal {proposal.cursor}"
    order = Order(operation=Operation.SUPERSEDE, candidate_id=gone, successor_id=keep, reason=reason)
    return [carry_out(engine, scope, operator, order)]


def dispute(engine: Engine, scope: Scope, operator: str, proposal: Proposal) -> list[Ordered]:
    """Mark both records as disputed; agents find neither until a person resolves it. Two orders, one after the other.

    Raises:
        AlreadyTerminal, IllegalTransition: as ``supersede``.
    """
    _require_open(proposal)
    reason = f"proposal {proposal.cursor}"
    return [
        carry_out(engine, scope, operator, Order(operation=Operation.DISPUTE, candidate_id=name, reason=reason))
        for name in (proposal.candidate_id, proposal.other_id)
    ]


def dismiss(
    engine: Engine, scope: Scope, operator: str, proposal: Proposal, reason: str | None = None
) -> Committed:  # fmt: skip
    """Commit that a proposal is not to be followed.

    Raises:
        AlreadyTerminal: it is not open any more.
    """
    _require_open(proposal)
    journal, event_id = engine.journal, proposal.dismissal_id
    target = engine.resource_digest(scope, f"proposal:{proposal.cursor}")
    authorization = operator_authorization(engine, scope, operator, target, engine.clock.now())
    ledger = {"authorization_receipt_digest": authorization["receipt_digest"]}
    if reason is not None:
        ledger["reason"] = reason
    draft = Draft(
        type=EventType.RECONCILIATION_DISMISSED, event_id=event_id, actor=Actor(f"operator:{operator}"),
        subject=proposal.candidate_id, record_id=proposal.record_ids[0], related=str(proposal.cursor),
        ledger=journal.seal_ledger(scope, event_id, proposal.candidate_id, ledger),
    )  # fmt: skip

    def decide(view: View) -> Sequence[Draft]:
        if view.outcome(event_id) is not None:
            raise AlreadyTerminal("the proposal was dismissed meanwhile")
        return [draft]

    (committed,) = journal.commit(scope, decide)
    return committed


def _require_open(proposal: Proposal) -> None:
    if proposal.standing == "dismissed":
        raise AlreadyTerminal(f"the proposal at cursor {proposal.cursor} was dismissed")
    if proposal.standing == "settled":
        raise IllegalTransition(
            f"the proposal at cursor {proposal.cursor} is settled: one of its records is not current any more"
        )
