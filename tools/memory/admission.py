"""engram_memory_request_admission: a candidate becomes a record, is rejected, or waits for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from journal.clock import instant
from journal.digests import payload_digest
from journal.errors import AlreadyTerminal, BlobMissing, EngramError, JournalCorrupt, NotFound
from journal.events import Draft, EventType, Header
from journal.lifecycle import State
from tools.host.capabilities import REQUEST_ADMISSION
from tools.host.grants import authorize
from tools.host.guard import operation_of
from tools.host.policies.port import Decision, Facts, PolicyAnswer, PolicyRequest, answer, consult
from tools.memory.arguments import admission_arguments
from tools.memory.receipts import transaction_receipt_digest
from tools.memory.reconciliation import SYSTEM, Reconciliation
from tools.memory.records import facts_of, record_of
from tools.memory.revocation import is_revoked

if TYPE_CHECKING:
    from journal.store.port import Committed, Subject, View
    from tools.memory.call import Call
    from tools.memory.engine import Engine

_STATUS = {EventType.ACCEPT: "accepted", EventType.REJECT: "rejected", EventType.ADJUDICATION: "pending_adjudication"}
FORGOTTEN_CONTENT = "forgotten-content"
FORGOTTEN_GUARD = "engine:forgotten-guard"
SECRET_SCREEN = "engine:secret-screen"
ENGINE_POLICY_VERSION = "1"


class Admission:
    """One request for admission."""

    def __init__(self, engine: Engine, call: Call, raw: dict[str, Any]) -> None:
        """Validate the arguments and authorise the call; InvalidSchema where they do not fit."""
        arguments = admission_arguments(raw)
        self._engine = engine
        self._call = call
        self._candidate_id = arguments.candidate_id
        self.operation = operation_of(
            engine.journal, call.scope, call.binding.principal, REQUEST_ADMISSION, arguments.idempotency_key,
            self._candidate_id, None,
        )  # fmt: skip
        self.authorization = authorize(
            call.binding, REQUEST_ADMISSION, engine.resource_digest(call.scope, self._candidate_id), call.now,
            randomness=engine.randomness, authority=engine.authority,
        )  # fmt: skip
        self._capture: Header | None = None
        self._record: dict[str, Any] = {}
        self._request: PolicyRequest | None = None
        self._answer: PolicyAnswer | None = None
        self._reason: str | None = None
        self._reconciliation: Reconciliation | None = None

    def check(self, view: View) -> None:
        """Refuse an unknown or a withdrawn candidate."""
        subject = self._subject(view)
        if subject.state == State.WITHDRAWN:
            raise AlreadyTerminal("the candidate was withdrawn")

    def answered(self, view: View) -> Committed | None:
        """Return the first decision, where there is one: duplicate_exact."""
        decided = self._subject(view).decided
        return view.event(decided) if decided else None

    def _subject(self, view: View) -> Subject:
        subject = view.subject(self._candidate_id)
        if subject is None or not self._candidate_id.startswith("candidate_"):
            raise NotFound("no such candidate in this scope")
        return subject

    def prepare(self) -> None:
        """Open the candidate, screen it for secrets, and ask the policy in force."""
        journal = self._engine.journal
        with journal.store.view(self._call.scope) as view:
            event = view.event(self._subject(view).born)
            if event is None:
                raise JournalCorrupt("a candidate's capture is missing")
            content = journal.content(view, event.header)
        if content is None:
            return  # decided by somebody else since the check; the commit will see it
        self._capture = event.header
        self._record = record_of(event.header, content)
        request = self._request = self._policy_request(content)
        from tools.host import screen  # its patterns take 20 ms to compile, which a starting server does not have

        findings = screen.screen(content["payload"], content["evidence"])
        self._reconciliation = Reconciliation(self._engine, self._call.scope, self._candidate_id, content)
        if findings:
            self._reason = "secret-screen:" + ",".join(sorted({finding.detector for finding in findings}))
            self._answer = self._own_answer(request, SECRET_SCREEN, "reject")
        else:
            revoked = is_revoked(content["trust"], self._engine.verifier)
            facts = facts_of(event.header, content, revoked=revoked)
            self._answer, self._reason = self._consulted(request, facts)

    def _consulted(self, request: PolicyRequest, facts: Facts) -> tuple[PolicyAnswer, str | None]:
        """Return the answer of the policy in force, and its reason; asking it is a span of its own."""
        policy = self._engine.policy
        named = {"engram.policy": self._call.binding.policy, "engram.scope": self._call.scope.tag.hex()}
        with self._engine.tracing.span("engram.admission", named) as span:
            try:
                answered, reason = consult(policy, request, facts, self._engine.clock)
            except EngramError as error:
                span.fail(error.code)
                raise
            span.note("engram.decision", answered.decision)
            return answered, reason

    def _policy_request(self, content: dict[str, Any]) -> PolicyRequest:
        policy = self._engine.policy
        return PolicyRequest(
            policy_id=policy.policy_id, policy_version=policy.policy_version,
            record_digest=self._record["record_digest"],
            payload_digest=payload_digest(content["payload"]), candidate_envelope_ref=self._candidate_id,
            evidence_digest=content["evidence"]["evidence_digest"], evidence_ref=content["evidence"]["evidence_ref"],
            deadline=instant(self._call.now + self._engine.policy_timeout_milliseconds),
        )  # fmt: skip

    def _own_answer(self, request: PolicyRequest, policy_id: str, decision: Decision) -> PolicyAnswer:
        """Return the answer of the engine itself, where it overrules the host's policy."""
        own = msgspec.structs.replace(request, policy_id=policy_id, policy_version=ENGINE_POLICY_VERSION)
        return answer(own, decision, self._call.now)

    def drafts(self, view: View) -> list[Draft]:
        """Return the decision's event. The guard on forgotten content is looked at under the scope's lock."""
        if self._answer is None or self._capture is None or self._request is None:
            raise BlobMissing("the candidate's content is gone")
        given, reason = self._answer, self._reason
        if given.decision == "accept" and any(view.tombstoned(guard) for guard in self._capture.guards):
            given, reason = self._own_answer(self._request, FORGOTTEN_GUARD, "adjudication_required"), FORGOTTEN_CONTENT
        kind, state = {
            "accept": (EventType.ACCEPT, State.ACCEPTED_CURRENT),
            "reject": (EventType.REJECT, State.REJECTED),
            "adjudication_required": (EventType.ADJUDICATION, State.PENDING),
        }[given.decision]
        ledger = decision_ledger(given, self.authorization["receipt_digest"], reason)
        decided = self._draft(kind, state, ledger)
        if kind is not EventType.ACCEPT or self._reconciliation is None:
            return [decided]
        return [decided, *self._reconciliation.drafts(view, SYSTEM, self._record["record_id"])]

    def _draft(self, kind: EventType, state: State, ledger: dict[str, Any]) -> Draft:
        event_id = self.operation.event_id
        return Draft(
            type=kind, event_id=event_id, actor=self._call.actor, subject=self._candidate_id,
            record_id=self._record["record_id"] if kind is EventType.ACCEPT else None,
            from_state=State.PENDING, to_state=state, intent=self.operation.intent,
            ledger=self._engine.journal.seal_ledger(self._call.scope, event_id, self._candidate_id, ledger),
        )  # fmt: skip

    def abandon(self) -> None:
        """Nothing was taken."""

    def settle(self, event: Committed) -> None:
        """Destroy the key of a rejected candidate, or tell the human that one has to be decided."""
        self._engine.settle(self._call.scope)
        if event.header.kind is EventType.ADJUDICATION:
            self._engine.notify("candidate")
        if self._reconciliation is not None and self._reconciliation.has_proposed:
            self._engine.notify("proposal")

    def value(self, event: Committed, *, first: bool) -> dict[str, Any]:
        """Return the tool's value. An event of another operation is an earlier decision: duplicate_exact."""
        own = event.header.event_id == self.operation.event_id
        with self._engine.journal.store.view(self._call.scope) as view:
            ledger = self._engine.journal.ledger(view, event.header)
        outcome = {
            "status": _STATUS[event.header.kind] if own else "duplicate_exact",
            "candidate_id": event.header.subject,
            "cursor": str(event.header.cursor),
            "decision_receipt_digest": ledger["decision"]["receipt_digest"],
            "transaction_receipt_digest": transaction_receipt_digest(event),
        }
        if event.header.record_id is not None:
            outcome["record_id"] = event.header.record_id
        return {"outcome": outcome, "replayed": own and not first}


def decision_ledger(given: PolicyAnswer, authorization_receipt_digest: str, reason: str | None) -> dict[str, Any]:
    """Return the ledger of a decision: the policy's answer as a receipt, and why, for the host's eyes."""
    decision = {
        "policy_id": given.policy_id, "policy_version": given.policy_version, "record_digest": given.record_digest,
        "decision": given.decision, "issued_at": given.issued_at, "receipt_digest": given.receipt_digest,
    }  # fmt: skip
    ledger: dict[str, Any] = {"decision": decision, "authorization_receipt_digest": authorization_receipt_digest}
    return ledger if reason is None else {**ledger, "reason": reason}
