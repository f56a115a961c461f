"""The host's own decision on a candidate: a person accepts or rejects what a policy left to them (CONTRACT §8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from journal.clock import instant, parse_instant
from journal.digests import payload_digest
from journal.errors import AlreadyTerminal, IllegalTransition, JournalCorrupt, NotFound
from journal.events import Actor, Draft, EventType
from journal.lifecycle import Operation, State, next_state
from tools.cli.failures import Refused
from tools.host import screen
from tools.host.policies.port import PolicyRequest, answer
from tools.memory.admission import decision_ledger
from tools.memory.maintenance import operator_authorization
from tools.memory.receipts import transaction_receipt_digest
from tools.memory.reconciliation import SYSTEM, Reconciliation
from tools.memory.records import record_of

if TYPE_CHECKING:
    from journal.events import Header
    from journal.scope import Scope
    from journal.store.port import Committed, Subject, View
    from tools.memory.engine import Engine

POLICY_ID = "host:operator"
POLICY_VERSION = "1"
_KIND = {"accept": EventType.ACCEPT, "reject": EventType.REJECT}


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision as it stands in the journal."""

    event: Committed
    decision_receipt_digest: str
    proposals: int  # how many were made with it

    def as_json(self) -> dict[str, Any]:
        """Return the decision as the command line prints it."""
        header = self.event.header
        return {
            "candidate_id": header.subject,
            "state": State(header.to_state).label,
            "record_id": header.record_id,
            "cursor": str(header.cursor),
            "decision_receipt_digest": self.decision_receipt_digest,
            "transaction_receipt_digest": transaction_receipt_digest(self.event),
        }


def _standing(subject: Subject) -> str:
    """Return what became of a decided candidate, in words."""
    match State(subject.state):
        case State.REJECTED | State.WITHDRAWN as state:
            return f"it was {state.label} at cursor {subject.decided or subject.changed}"
        case State.TOMBSTONED:
            return f"it was a record, {subject.record_id}, and was forgotten at cursor {subject.changed}"
        case State.ACCEPTED_CURRENT:
            return f"it is a record already: {subject.record_id}; an agent can forget it"
        case state:
            return f"it is a record already: {subject.record_id}, {state.label.replace('_', ' ')}"


class Adjudication:
    """One candidate before a person."""

    def __init__(self, engine: Engine, scope: Scope, candidate_id: str, operator: str) -> None:
        """Open the candidate.

        Raises:
            NotFound: this scope has none of that id. AlreadyTerminal, IllegalTransition: it is decided.
        """
        self._engine = engine
        self._scope = scope
        self._candidate_id = candidate_id
        self._operator = operator
        self._now = engine.clock.now()
        with engine.journal.store.view(scope) as view:
            self._check(view, Operation.ACCEPT)
            self._capture = self._event(view)
            content = engine.journal.content(view, self._capture)
        if content is None:
            raise JournalCorrupt("a pending candidate's content is erased")
        self._content: dict[str, Any] = content

    def _check(self, view: View, operation: Operation) -> None:
        subject = view.subject(self._candidate_id) if self._candidate_id.startswith("candidate_") else None
        if subject is None:
            raise NotFound("this scope has no candidate of that id")
        try:
            next_state(operation, State(subject.state))
        except (AlreadyTerminal, IllegalTransition) as refusal:
            raise type(refusal)(_standing(subject)) from None

    def _event(self, view: View) -> Header:
        subject = view.subject(self._candidate_id)
        event = None if subject is None else view.event(subject.born)
        if event is None:
            raise JournalCorrupt("a candidate's capture is missing")
        return event.header

    def secrets(self) -> tuple[str, ...]:
        """Return the names of the detectors that find a secret in it: no such candidate is ever accepted."""
        found = screen.screen(self._content["payload"], self._content["evidence"])
        return tuple(dict.fromkeys(finding.detector for finding in found))

    def _is_forgotten(self, view: View) -> bool:
        return any(view.tombstoned(guard) for guard in self._capture.guards)

    def is_expired(self) -> bool:
        """Whether its own expiry has passed, so that nobody would ever find it."""
        expires_at = self._content["payload"]["retention"].get("expires_at")
        return expires_at is not None and self._now >= parse_instant(expires_at)

    def decide(
        self, decision: Literal["accept", "reject"], reason: str | None = None, *, anyway: bool = False
    ) -> Decided:
        """Commit the decision, and destroy the key of a rejected candidate.

        Raises:
            Refused: it is to be accepted and holds a secret, or says what was forgotten; ``anyway`` allows the latter.
            AlreadyTerminal, IllegalTransition: it was decided meanwhile.
        """
        if decision == "accept" and (found := self.secrets()):
            raise Refused(
                f"it holds what looks like a secret ({', '.join(found)}); a secret is never stored: reject it"
            )
        engine, kind = self._engine, _KIND[decision]
        reconciliation = Reconciliation(engine, self._scope, self._candidate_id, self._content)
        record = record_of(self._capture, self._content)
        given = answer(self._request(record), decision, self._now)
        digest = record["record_digest"]
        authorization = operator_authorization(engine, self._scope, self._operator, digest, self._now)
        ledger = decision_ledger(given, authorization["receipt_digest"], reason)
        event_id = engine.journal.random_event_id(self._scope)
        draft = Draft(
            type=kind,
            event_id=event_id,
            actor=Actor(f"operator:{self._operator}"),
            subject=self._candidate_id,
            record_id=record["record_id"] if kind is EventType.ACCEPT else None,
            from_state=State.PENDING,
            to_state=next_state(Operation(kind), State.PENDING),
            ledger=engine.journal.seal_ledger(self._scope, event_id, self._candidate_id, ledger),
        )

        def under_lock(view: View) -> Sequence[Draft]:
            self._check(view, Operation(kind))
            guarded = kind is EventType.ACCEPT and not anyway and self._is_forgotten(view)
            if guarded or kind is not EventType.ACCEPT:
                return [] if guarded else [draft]
            return [draft, *reconciliation.drafts(view, SYSTEM, record["record_id"])]

        committed = engine.journal.commit(self._scope, under_lock)
        if not committed:
            raise Refused(
                "a record of the same words was forgotten in this scope, and agents would find them again; "
                "with --anyway it is accepted all the same"
            )
        engine.settle(self._scope)
        return Decided(committed[0], given.receipt_digest, len(committed) - 1)

    def _request(self, record: dict[str, Any]) -> PolicyRequest:
        evidence = self._content["evidence"]
        return PolicyRequest(
            policy_id=POLICY_ID,
            policy_version=POLICY_VERSION,
            record_digest=record["record_digest"],
            payload_digest=payload_digest(self._content["payload"]),
            candidate_envelope_ref=self._candidate_id,
            evidence_digest=evidence["evidence_digest"],
            evidence_ref=evidence["evidence_ref"],
            deadline=instant(self._now),
        )
