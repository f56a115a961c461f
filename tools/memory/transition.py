"""engram_memory_withdraw and engram_memory_forget: confirmed transitions after which nothing can be read again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from journal.errors import JournalCorrupt, NotFound
from journal.events import Draft, EventType
from journal.lifecycle import Operation as LifecycleOperation
from journal.lifecycle import State, next_state
from tools.host.capabilities import FORGET, WITHDRAW
from tools.host.grants import authorize
from tools.host.guard import operation_of
from tools.memory.arguments import forget_arguments, withdraw_arguments
from tools.memory.erasure import erase_now
from tools.memory.receipts import transition_receipt

if TYPE_CHECKING:
    from journal.store.port import Committed, View
    from tools.memory.call import Call
    from tools.memory.engine import Engine


class _Transition:
    """What a withdrawal and a forgetting share."""

    tool: str
    kind: EventType

    def __init__(self, engine: Engine, call: Call, target: str, idempotency_key: str, reason_ref: str) -> None:
        self._engine = engine
        self._call = call
        self._target = target
        self._reason_ref = reason_ref
        self.operation = operation_of(
            engine.journal,
            call.scope,
            call.binding.principal,
            self.tool,
            idempotency_key,
            target,
            {"reason_ref": reason_ref},
        )
        self.authorization = authorize(
            call.binding, self.tool, engine.resource_digest(call.scope, target), call.now,
            randomness=engine.randomness, authority=engine.authority,
        )  # fmt: skip

    def _candidate(self, view: View) -> str:
        """Return the candidate id of the target; NotFound where this scope has none."""
        raise NotImplementedError

    def check(self, view: View) -> None:
        """Refuse an unknown target, and a state that forbids the transition."""
        self._state(view)

    def _state(self, view: View) -> tuple[str, State]:
        candidate_id = self._candidate(view)
        subject = view.subject(candidate_id)
        if subject is None:
            raise NotFound("no such target in this scope")
        state = State(subject.state)
        next_state(LifecycleOperation(self.kind), state)
        return candidate_id, state

    def answered(self, view: View) -> Committed | None:
        """A terminal target under a new key is refused, not answered."""
        return None

    def prepare(self) -> None:
        """Nothing takes time here."""

    def drafts(self, view: View) -> list[Draft]:
        """Return the terminal event."""
        candidate_id, state = self._state(view)
        event_id = self.operation.event_id
        ledger = {"reason_ref": self._reason_ref, "authorization_receipt_digest": self.authorization["receipt_digest"]}
        return [
            Draft(
                type=self.kind,
                event_id=event_id,
                actor=self._call.actor,
                subject=candidate_id,
                record_id=self._target if self.kind is EventType.TOMBSTONE else None,
                from_state=state,
                to_state=next_state(LifecycleOperation(self.kind), state),
                intent=self.operation.intent,
                ledger=self._engine.journal.seal_ledger(self._call.scope, event_id, candidate_id, ledger),
            )
        ]

    def abandon(self) -> None:
        """Nothing was taken."""

    def settle(self, event: Committed) -> None:
        """Destroy the key; what is left of it is finished by the sweeper."""
        self._engine.settle(self._call.scope)
        if self.kind is EventType.TOMBSTONE:
            erase_now(self._engine, self._call.scope)

    def _receipt(self, event: Committed) -> dict[str, Any]:
        with self._engine.journal.store.view(self._call.scope) as view:
            ledger = self._engine.journal.ledger(view, event.header)
        return transition_receipt(event, ledger["authorization_receipt_digest"])

    def _subject(self, event: Committed) -> str:
        if event.header.subject is None:
            raise JournalCorrupt("a terminal event names no subject")
        return event.header.subject


class Withdraw(_Transition):
    """One withdrawal of a pending candidate."""

    tool = WITHDRAW
    kind = EventType.WITHDRAW

    def __init__(self, engine: Engine, call: Call, raw: dict[str, Any]) -> None:
        """Validate the arguments and authorise the call; InvalidSchema where they do not fit."""
        arguments = withdraw_arguments(raw)
        super().__init__(engine, call, arguments.candidate_id, arguments.idempotency_key, arguments.reason_ref)

    def _candidate(self, view: View) -> str:
        if not self._target.startswith("candidate_"):
            raise NotFound("no such candidate in this scope")
        return self._target

    def value(self, event: Committed, *, first: bool) -> dict[str, Any]:
        """Return the tool's value; key_destruction tells the present."""
        destroyed = self._engine.journal.key_is_destroyed(self._call.scope, self._subject(event))
        return {
            "receipt": self._receipt(event),
            "replayed": not first,
            "key_destruction": "complete" if destroyed else "pending",
        }


class Forget(_Transition):
    """One forgetting of a record."""

    tool = FORGET
    kind = EventType.TOMBSTONE

    def __init__(self, engine: Engine, call: Call, raw: dict[str, Any]) -> None:
        """Validate the arguments and authorise the call; InvalidSchema where they do not fit."""
        arguments = forget_arguments(raw)
        super().__init__(engine, call, arguments.record_id, arguments.idempotency_key, arguments.reason_ref)

    def _candidate(self, view: View) -> str:
        candidate_id = view.candidate_of(self._target)
        if candidate_id is None:
            raise NotFound("no such record in this scope")
        return candidate_id

    def value(self, event: Committed, *, first: bool) -> dict[str, Any]:
        """Return the tool's value; projection_invalidation and the coverage receipt tell the present."""
        coverage = self._engine.coverage(self._call.scope, self._subject(event))
        value = {
            "receipt": self._receipt(event),
            "replayed": not first,
            "projection_invalidation": "pending" if coverage is None else "complete",
        }
        return value if coverage is None else {**value, "coverage_receipt_digest": coverage}
