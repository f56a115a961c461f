"""What the host's operator orders of a record: the seven operations that no agent is ever granted (CONTRACT §5).

An order has no idempotency key: a record that an order's own event brought where it is stands for the order's outcome.
So an order that is given twice, or again after an unknown outcome, changes nothing twice; that is decided under the
scope's lock. A dispute that was resolved can be ordered anew.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from journal import limits
from journal.chain import SUCCEEDING
from journal.clock import instant, parse_instant
from journal.digests import sealed_receipt
from journal.errors import AlreadyTerminal, BlobMissing, IllegalTransition, JournalCorrupt, NotFound
from journal.events import Actor, Draft, EventType
from journal.lifecycle import LEGAL, TERMINAL, Operation, State, next_state
from tools.host.capabilities import MAINTAIN
from tools.host.grants import revalidate
from tools.memory.receipts import transaction_receipt_digest

if TYPE_CHECKING:
    from journal.log import Journal
    from journal.scope import Scope
    from journal.store.port import Committed, Subject, View
    from tools.memory.engine import Engine

DONE: dict[Operation, str] = {
    Operation.DISPUTE: "disputed",
    Operation.RESOLVE_DISPUTE: "no longer disputed",
    Operation.SUPERSEDE: "superseded",
    Operation.MARK_NON_CURRENT: "marked as not current",
    Operation.REWIND: "current again",
    Operation.EXPIRE: "expired",
    Operation.TRUST_INVALIDATE: "no longer trusted",
}
"""The operations that can be ordered, and what a record is after each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One order. ``successor_id`` is the candidate id of the other record that a supersede and a rewind need."""

    operation: Operation
    candidate_id: str
    successor_id: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Ordered:
    """What an order came to: the event that did it, and whether this order wrote it."""

    event: Committed
    successor: Subject | None
    authorization_receipt_digest: str | None  # None: the event is not an operator's
    first: bool

    def as_json(self) -> dict[str, Any]:
        """Return the outcome as the command line prints it."""
        header = self.event.header
        return {
            "record_id": header.record_id,
            "candidate_id": header.subject,
            "operation": header.kind.label,
            "from_state": State(header.from_state).label,
            "to_state": State(header.to_state).label,
            "successor": None if self.successor is None else self.successor.record_id,
            "cursor": str(header.cursor),
            "replayed": not self.first,
            "authorization_receipt_digest": self.authorization_receipt_digest,
            "transaction_receipt_digest": transaction_receipt_digest(self.event),
        }


def carry_out(engine: Engine, scope: Scope, operator: str, order: Order) -> Ordered:
    """Commit an order, or find that it is carried out already.

    Raises:
        NotFound: this scope has no such record. AlreadyTerminal, IllegalTransition: a state forbids it, said in words.
        AuthorizationRevoked: authority was revoked meanwhile.
    """
    now = engine.clock.now()
    target = engine.resource_digest(scope, order.candidate_id)
    authorization = operator_authorization(engine, scope, operator, target, now)
    seen: list[Committed] = []

    def decide(view: View) -> Sequence[Draft]:
        seen.clear()
        subject = _record(view, order.candidate_id)
        done = _carried_out(view, subject, order)
        if done is not None:
            seen.append(done)
            return []
        _check(view, subject, order)
        revalidate(authorization, engine.clock.now(), engine.authority.epoch(scope, view))
        return [_draft(engine, scope, operator, order, subject, authorization["receipt_digest"])]

    deadline = time.monotonic() + limits.CALL_DEADLINE_SECONDS
    committed = engine.journal.commit(scope, decide, deadline=deadline)
    event = committed[0] if committed else seen[0]
    with engine.journal.store.view(scope) as view:
        related = event.header.related
        successor = None if related is None else view.subject(related)
        ledger = engine.journal.ledger(view, event.header) if event.header.ledger_digest is not None else {}
    return Ordered(event, successor, ledger.get("authorization_receipt_digest"), bool(committed))


def hidden_by_clock(journal: Journal, scope: Scope, candidate_id: str, now: int) -> str | None:
    """Return in words why agents do not find a record in any state, or None. ``now`` is epoch milliseconds."""
    with journal.store.view(scope) as view:
        subject = view.subject(candidate_id)
        event = None if subject is None else view.event(subject.born)
        try:
            content = None if event is None else journal.content(view, event.header)
        except (BlobMissing, JournalCorrupt):
            content = None
    if content is None:
        return "its content is lost"
    valid, expires_at = content["payload"]["valid_time"], content["payload"]["retention"].get("expires_at")
    if expires_at is not None and now >= parse_instant(expires_at):
        return "its own expiry has passed"
    if now > valid.get("t_end", now):
        return "its valid time is over"
    return "its valid time has not begun" if now < valid["t"] else None


def operator_authorization(
    engine: Engine, scope: Scope, operator: str, resource_digest: str, now: int, view: View | None = None
) -> dict[str, Any]:
    """Return the receipt of the host's own authority: ``maintain``, which no agent is ever granted (CONTRACT §8).

    ``view`` is the one under the scope's lock, where that is held.
    """
    return sealed_receipt(
        "authorization",
        {
            "schema_version": 1,
            "operation": MAINTAIN,
            "resource_digest": resource_digest,
            "scope_ref": scope.ref,
            "principal": f"operator:{operator}",
            "authorization_epoch": str(engine.authority.epoch(scope, view)),
            "issued_at": instant(now),
            "expires_at": instant(now + limits.RECEIPT_TTL_SECONDS * 1000),
            "nonce": engine.randomness.draw(scope, limits.AUTHORIZATION_NONCE_BYTES).hex(),
        },
    )


def _record(view: View, candidate_id: str) -> Subject:
    subject = view.subject(candidate_id) if candidate_id.startswith("candidate_") else None
    if subject is None:
        raise NotFound("this scope has no record of that id")
    return subject


def _carried_out(view: View, subject: Subject, order: Order) -> Committed | None:
    """Return the newest event about the record where it is this very order's doing; the reason is not compared."""
    event = _newest(view, subject)
    header = event.header
    same = header.type == order.operation and header.subject == order.candidate_id
    return event if same and header.related == order.successor_id else None


def _newest(view: View, subject: Subject) -> Committed:
    event = view.event(subject.changed)
    if event is None:
        raise JournalCorrupt(f"the event at cursor {subject.changed} is missing")
    return event


def _check(view: View, subject: Subject, order: Order) -> None:
    """Refuse what the journal would refuse, in words for a person."""
    try:
        next_state(order.operation, State(subject.state))
    except (AlreadyTerminal, IllegalTransition) as refusal:
        raise type(refusal)(_forbidden(view, subject, order)) from None
    allowed = SUCCEEDING.get(EventType(order.operation))
    if allowed is None:
        return
    if order.successor_id == order.candidate_id:
        raise IllegalTransition("a record is not its own successor: name another one")
    other = None if order.successor_id is None else view.subject(order.successor_id)
    if other is None:
        raise NotFound("this scope has no such successor")
    if other.state not in allowed:
        raise IllegalTransition(
            f"the successor must be {_either(allowed)}, and {other.record_id or order.successor_id} is "
            f"{_words(State(other.state))}"
        )


def _forbidden(view: View, subject: Subject, order: Order) -> str:
    state = State(subject.state)
    if subject.record_id is None:
        return f"it is a candidate, {_words(state)}, and no record"
    newest = _newest(view, subject).header
    how = f"it is {_words(state)} since cursor {newest.cursor}"
    if newest.type == EventType.SUPERSEDE and newest.related is not None:
        successor = view.subject(newest.related)
        how += f", superseded by {newest.related if successor is None else successor.record_id}"
    if state in TERMINAL:
        return f"{how}, and that is final"
    allowed = {before for operation, before in LEGAL if operation is order.operation}
    return f"{how}; {order.operation.label.replace('_', ' ')} needs a record that is {_either(allowed)}"


def _either(states: frozenset[State] | set[State]) -> str:
    return " or ".join(map(_words, sorted(states)))


def _words(state: State) -> str:
    return state.label.replace("_", " ")


def _draft(
    engine: Engine, scope: Scope, operator: str, order: Order, subject: Subject, authorization_receipt_digest: str
) -> Draft:
    event_id = engine.journal.random_event_id(scope)
    ledger: dict[str, Any] = {"authorization_receipt_digest": authorization_receipt_digest}
    if order.reason is not None:
        ledger["reason"] = order.reason
    state = State(subject.state)
    return Draft(
        type=EventType(order.operation), event_id=event_id, actor=Actor(f"operator:{operator}"),
        subject=order.candidate_id, record_id=subject.record_id, related=order.successor_id, from_state=state,
        to_state=next_state(order.operation, state),
        ledger=engine.journal.seal_ledger(scope, event_id, order.candidate_id, ledger),
    )  # fmt: skip
