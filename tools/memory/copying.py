"""Capitalisation: a record of one workspace, copied by the host's operator into another as a new pending candidate.

What agents sent is copied: components, citations, valid time, purpose, retention, families, evidence. What a host made
of it is not (``REDACTED``): the target's own takes its place, so that the copy is decided, trusted and named anew.
Where it came from stands in the ledger of its capture, which no agent sees: a scope's name and ids are no other
scope's business (CONTRACT §1).

The capture's event id is a keyed digest of the source, so that a scope has one copy of a record, whoever copies it and
however often, and the copies of a record can be found without a list of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from journal import identity, limits
from journal.clock import parse_instant
from journal.errors import AlreadyTerminal, BlobMissing, IllegalTransition, InvalidSchema, JournalCorrupt, NotFound
from journal.events import Actor
from journal.lifecycle import State
from journal.scope import Scope
from tools.host.capabilities import REQUEST_ADMISSION
from tools.host.guard import Operation, Outcome, standing
from tools.memory.admission import Admission
from tools.memory.call import Call
from tools.memory.capture import Capture
from tools.memory.maintenance import operator_authorization
from tools.memory.mutation import execute
from tools.memory.receipts import transaction_receipt_digest
from tools.memory.records import record_of

if TYPE_CHECKING:
    from journal.events import Draft
    from journal.log import Journal
    from journal.store.port import Committed, View
    from tools.memory.engine import Engine
    from tools.memory.mutation import Mutation

REDACTED = ("authorization", "scope_ref", "trust", "verification")
"""What is not copied, sorted; record id and digests, recorded_at and recorded_cursor follow anew."""

_TOOL = "records copy"  # of the intent; no tool of an agent has a blank in its name


@dataclass(frozen=True, slots=True)
class Source:
    """A record to be copied."""

    scope: Scope
    record_id: str
    record_digest: str
    payload: dict[str, Any]  # as an agent sends it
    evidence: dict[str, Any]

    @property
    def lineage(self) -> dict[str, Any]:
        """What the copy's ledger says of its source."""
        return {
            "scope_ref": self.scope.ref,
            "workspace_id": self.scope.workspace_id,
            "record_id": self.record_id,
            "record_digest": self.record_digest,
        }


@dataclass(frozen=True, slots=True)
class Copied:
    """A copy: its capture, whether it was made now, its state now, and where the policy was asked its outcome.

    ``decided``: whether the policy was asked now, or the outcome is that of an earlier asking.
    """

    event: Committed
    source: Source
    first: bool
    state: State
    outcome: dict[str, Any] | None
    decided: bool

    def as_json(self) -> dict[str, Any]:
        """Return the copy as the command line prints it."""
        header = self.event.header
        return {
            "workspace_id": header.scope.workspace_id,
            "candidate_id": header.subject,
            "state": self.state.label,
            "cursor": str(header.cursor),
            "replayed": not self.first,
            "lineage": self.source.lineage,
            "redacted_fields": list(REDACTED),
            "transaction_receipt_digest": transaction_receipt_digest(self.event),
            "outcome": self.outcome,
            "outcome_replayed": None if self.outcome is None else not self.decided,
        }


def source_of(journal: Journal, scope: Scope, candidate_id: str, now: int) -> Source:
    """Return a record as it can be copied. ``now`` is epoch milliseconds.

    Raises:
        NotFound: this scope has none of that id. AlreadyTerminal, IllegalTransition: it is not accepted current, or its
        own expiry has passed. BlobMissing, JournalCorrupt: its content is lost.
    """
    with journal.store.view(scope) as view:
        subject = view.subject(candidate_id)
        if subject is None:
            raise NotFound("this scope has no record of that id")
        state = State(subject.state)
        if state is not State.ACCEPTED_CURRENT:
            refusal = AlreadyTerminal if state is State.TOMBSTONED else IllegalTransition
            raise refusal(
                f"only a record that is accepted current is copied, and it is {state.label.replace('_', ' ')}"
            )
        event = view.event(subject.born)
        if event is None:
            raise JournalCorrupt(f"the capture at cursor {subject.born} is missing")
        content = journal.content(view, event.header)
    if content is None:
        raise BlobMissing("the record's content is gone")
    expires_at = content["payload"]["retention"].get("expires_at")
    if expires_at is not None and now >= parse_instant(expires_at):
        raise IllegalTransition("its own expiry has passed")
    record = record_of(event.header, content)
    payload = {name: value for name, value in content["payload"].items() if name not in REDACTED}
    return Source(scope, record["record_id"], record["record_digest"], payload, content["evidence"])


def copy(engine: Engine, source: Source, target: Scope, operator: str, *, admit: bool = False) -> Copied:
    """Capture a copy in the target, or find that it is there; with ``admit`` ask the policy for its decision.

    Raises:
        InvalidSchema: the target is the record's own scope, or it could not be captured there. Unauthorized: the host
        allows its retention or a family of it no more. UntrustedContext: the host binds its purpose no more.
    """
    if target == source.scope:
        raise InvalidSchema("the record is in that workspace already")
    deadline = time.monotonic() + limits.CALL_DEADLINE_SECONDS
    engine.journal.admit(target, deadline)
    call = Call(
        binding=replace(engine.binding, scope=target, principal=f"operator:{operator}", agent_id=None),
        actor=Actor(f"operator:{operator}"), now=engine.clock.now(), deadline=deadline,
    )  # fmt: skip
    outcome = _once(engine, call, _Copy(engine, call, source, operator))
    candidate_id = outcome.event.header.subject
    assert candidate_id is not None
    outcome_now, decided = _admitted(engine, call, candidate_id) if admit else (None, False)
    with engine.journal.store.view(target) as view:
        subject = view.subject(candidate_id)
    state = State.ABSENT if subject is None else State(subject.state)
    return Copied(outcome.event, source, outcome.first, state, outcome_now, decided)


def _admitted(engine: Engine, call: Call, candidate_id: str) -> tuple[dict[str, Any], bool]:
    """Ask the host's policy, as an agent would: the operator grants this one tool to themselves for this one call.

    Returns the outcome, and whether it was come to now.

    It needs no confirmation: the person who would confirm it is the one who asks.
    """
    granted = replace(call.binding, granted=frozenset({REQUEST_ADMISSION}), enabled=True, by_events=False)
    asking = replace(call, binding=granted)
    arguments = {"candidate_id": candidate_id, "idempotency_key": f"{_TOOL}: {candidate_id}"}
    admission = Admission(engine, asking, arguments)
    done = _once(engine, asking, admission)
    if done.first:
        admission.settle(done.event)
    outcome: dict[str, Any] = admission.value(done.event, first=done.first)["outcome"]
    return outcome, done.first


def _once(engine: Engine, call: Call, mutation: Mutation) -> Outcome:
    """Run a mutation, or return what it came to before: sealing, verifying and asking a policy take time."""
    with engine.journal.store.view(call.scope) as view:
        found = standing(view, mutation)
    return execute(engine, call, mutation) if found is None else Outcome(found, first=False)


class _Copy(Capture):
    """A capture under the host's own authority, with its lineage in the ledger."""

    def __init__(self, engine: Engine, call: Call, source: Source, operator: str) -> None:
        self._source = source
        self._operator = operator
        raw = {"idempotency_key": f"{_TOOL}: {source.record_id}", "payload": source.payload}
        super().__init__(engine, call, {**raw, "evidence": source.evidence})

    def _identified(self, idempotency_key: str) -> Operation:
        """Return the one operation that copies this record into this scope: no principal and no key is in it."""
        key = self._engine.journal.keyring.identity_key(self._call.scope)
        event_id = identity.copied(key, self._source.scope.ref, self._source.record_id)
        intent = identity.intent(key, _TOOL, None, self._source.lineage)
        return Operation(_TOOL, None, event_id, intent, identity.request(key, event_id, intent))

    def _authorized(self, resource_digest: str) -> dict[str, Any]:
        return operator_authorization(
            self._engine, self._call.scope, self._operator, resource_digest, self._call.now
        )  # fmt: skip

    def drafts(self, view: View) -> list[Draft]:
        """Return the capture event, with its lineage."""
        ledger = {"lineage": self._source.lineage, "redacted_fields": list(REDACTED)}
        seal = self._engine.journal.seal_ledger
        return [
            replace(draft, ledger=seal(self._call.scope, draft.event_id, draft.subject, ledger))
            for draft in super().drafts(view)
        ]


def copies_of(journal: Journal, source: Scope, record_id: str, workspaces: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the copies that a tenant's other workspaces have of a record: workspace, candidate, record, state."""
    for workspace in workspaces:
        scope = Scope.of(source.tenant_id, workspace)
        if scope == source or not journal.store.head(scope).cursor:  # a scope without an event has no keys
            continue
        event_id = identity.copied(journal.keyring.identity_key(scope), source.ref, record_id)
        with journal.store.view(scope) as view:
            event = view.outcome(event_id)
            subject = None if event is None or event.header.subject is None else view.subject(event.header.subject)
        if event is not None and subject is not None:
            yield {
                "workspace_id": workspace,
                "candidate_id": event.header.subject,
                "record_id": subject.record_id,
                "state": State(subject.state).label,
            }
