"""Events to write: drafts whose parts are opaque bytes, one after another as a scope's life brings them.

Nothing is random unless a generator is given, so that two stores can be fed the same history.
"""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from journal.digests import candidate_id_of, record_id_of
from journal.events import Actor, Draft, EventType, RequestState
from journal.lifecycle import LEGAL, TERMINAL, Operation, State
from journal.scope import Scope

if TYPE_CHECKING:
    import random

    from journal.store.port import Committed, Store

ACTOR = Actor("principal:test", "agent:test", bytes(16))
HERE = Scope.of("tenant:one", "workspace:one")
THERE = Scope.of("tenant:one", "workspace:two")

# How a candidate comes to a state, capture first.
WAY_TO: dict[State, tuple[Operation, ...]] = {
    State.ABSENT: (),
    State.PENDING: (Operation.CAPTURE,),
    State.REJECTED: (Operation.CAPTURE, Operation.REJECT),
    State.WITHDRAWN: (Operation.CAPTURE, Operation.WITHDRAW),
    State.ACCEPTED_CURRENT: (Operation.CAPTURE, Operation.ACCEPT),
    State.ACCEPTED_DISPUTED: (Operation.CAPTURE, Operation.ACCEPT, Operation.DISPUTE),
    State.HISTORICAL: (Operation.CAPTURE, Operation.ACCEPT, Operation.MARK_NON_CURRENT),
    State.EXPIRED: (Operation.CAPTURE, Operation.ACCEPT, Operation.EXPIRE),
    State.TRUST_INVALID: (Operation.CAPTURE, Operation.ACCEPT, Operation.TRUST_INVALIDATE),
    State.TOMBSTONED: (Operation.CAPTURE, Operation.ACCEPT, Operation.TOMBSTONE),
}
_BEFORE_ACCEPTANCE = frozenset({Operation.CAPTURE, Operation.REJECT, Operation.WITHDRAW})
_REQUEST_ENDS = (EventType.CONFIRMATION_APPROVED, EventType.CONFIRMATION_DENIED, EventType.CONFIRMATION_EXPIRED)


def named(kind: str, number: int) -> bytes:
    """Return 32 bytes that stand for a name."""
    return hashlib.sha256(b"%b %d" % (kind.encode(), number)).digest()


@dataclass
class History:
    """Makes drafts and remembers whom they are about."""

    scope: Scope = HERE
    states: dict[str, State] = field(default_factory=dict)
    requests: dict[str, RequestState] = field(default_factory=dict)
    tombstones: dict[str, int] = field(default_factory=dict)  # candidate id -> cursor, while its erasure is not done
    _count: itertools.count[int] = field(default_factory=itertools.count)

    def identity(self) -> bytes:
        """Return a fresh event id."""
        return named(f"event of {self.scope.workspace_id}", next(self._count))

    def capture(self, event_id: bytes | None = None, *, content: bytes = b"sealed content") -> Draft:
        """Return the capture of a candidate of its own."""
        identity = event_id or self.identity()
        number = int.from_bytes(identity[:6], "big")
        return Draft(
            type=EventType.CAPTURE, event_id=identity, actor=ACTOR, subject=candidate_id_of(identity),
            to_state=State.PENDING, key_id=named("key", number)[:16], slot=number, slot_generation=3,
            intent=named("intent", number), guards=(named("texts", number), named("primary", number)),
            content=content, ledger=b"sealed ledger",
        )  # fmt: skip

    def operation(
        self, operation: Operation, candidate_id: str, from_state: State, to_state: State | None = None,
        related: str | None = None,
    ) -> Draft:  # fmt: skip
        """Return a lifecycle event about a candidate; ``to_state`` defaults to the lawful one."""
        lawful = LEGAL.get((operation, from_state), State.TOMBSTONED)
        record_id = None if operation in _BEFORE_ACCEPTANCE else record_of(candidate_id)
        return Draft(
            type=EventType(int(operation)), event_id=self.identity(), actor=ACTOR, subject=candidate_id,
            record_id=record_id, related=related, from_state=from_state, ledger=b"sealed reason",
            to_state=lawful if to_state is None else to_state,
        )  # fmt: skip

    def request(self, request_id: bytes) -> Draft:
        """Return the opening of a confirmation request."""
        identity = self.identity()
        return Draft(
            type=EventType.CONFIRMATION_REQUESTED, event_id=identity, actor=ACTOR, related="mem_target",
            subject=f"confirmation_{identity.hex()[:32]}", to_state=RequestState.OPEN, key_id=identity[:16],
            slot=7, guards=(request_id,), content=b"sealed arguments", ledger=b"sealed ledger",
        )  # fmt: skip

    def decision(self, kind: EventType, confirmation_id: str) -> Draft:
        """Return the end of a confirmation request."""
        to_state = RequestState(_REQUEST_ENDS.index(kind) + RequestState.APPROVED)
        return Draft(
            type=kind, event_id=self.identity(), actor=ACTOR, subject=confirmation_id, from_state=RequestState.OPEN,
            to_state=to_state, ledger=b"sealed decision",
        )  # fmt: skip

    def form(self, confirmation_id: str) -> Draft:
        """Return a step of a form: it leaves its request as it is."""
        return Draft(
            type=EventType.CONFIRMATION_FORM, event_id=self.identity(), actor=ACTOR, subject=confirmation_id,
            from_state=RequestState.OPEN, to_state=RequestState.OPEN, ledger=b"sealed step",
        )  # fmt: skip

    def control(self, kind: EventType, *, subject: str | None = None, related: str | None = None) -> Draft:
        """Return an event that is about no state."""
        return Draft(
            type=kind, event_id=self.identity(), actor=ACTOR, subject=subject, related=related, ledger=b"sealed"
        )

    # --- against a store ---------------------------------------------------------------------

    def write(self, store: Store, *drafts: Draft) -> list[Committed]:
        """Commit drafts as one decision, and remember what they did."""
        events = store.commit(self.scope, lambda _: list(drafts))
        for event in events:
            self._note(event)
        return events

    def bring(self, store: Store, state: State) -> str:
        """Bring a fresh candidate to a state; return its id."""
        draft = self.capture()
        candidate_id = str(draft.subject)
        for operation in WAY_TO[state]:
            before = self.states.get(candidate_id, State.ABSENT)
            self.write(
                store, draft if operation is Operation.CAPTURE else self.operation(operation, candidate_id, before)
            )
        assert self.states.get(candidate_id, State.ABSENT) == state
        return candidate_id

    def live_at_random(self, store: Store, source: random.Random, steps: int) -> None:
        """Write so many events of any kind, each lawful."""
        for _ in range(steps):
            self.write(store, self._any(source, store))

    def _any(self, source: random.Random, store: Store) -> Draft:
        roll = source.random()
        if roll < 0.35:
            return self.capture()
        if roll < 0.45:
            return self.request(named("operation", source.randrange(1_000_000)))
        if roll < 0.55 and (
            still_open := [name for name, state in self.requests.items() if state == RequestState.OPEN]
        ):
            return self.decision(source.choice(_REQUEST_ENDS), source.choice(still_open))
        if roll < 0.6:
            return self.control(EventType.ADJUDICATION)
        if roll < 0.7:
            return self._erasure(source, store)
        return self._step(source) or self.capture()

    def _erasure(self, source: random.Random, store: Store) -> Draft:
        last = store.head(self.scope).cursor
        subject = source.choice([*self.tombstones, None])
        return self.control(EventType.ERASURE_DONE, subject=subject, related=str(source.randint(0, last)))

    def _step(self, source: random.Random) -> Draft | None:
        living = [name for name, state in self.states.items() if state not in TERMINAL]
        if not living:
            return None
        candidate_id = source.choice(living)
        before = self.states[candidate_id]
        operation = source.choice([operation for operation, state in LEGAL if state == before])
        others = [
            name for name, state in self.states.items() if state == State.ACCEPTED_CURRENT and name != candidate_id
        ]
        if operation in (Operation.SUPERSEDE, Operation.REWIND):
            if not others:
                return None
            return self.operation(operation, candidate_id, before, related=source.choice(others))
        return self.operation(operation, candidate_id, before)

    def _note(self, event: Committed) -> None:
        header = event.header
        if header.subject is None:
            return
        if header.type == EventType.ERASURE_DONE:
            self.tombstones.pop(header.subject, None)
        elif header.subject.startswith("confirmation_"):
            self.requests[header.subject] = RequestState(header.to_state)
        else:
            self.states[header.subject] = State(header.to_state)
        if header.type == EventType.REWIND and header.related is not None:
            self.states[header.related] = State.HISTORICAL
        if header.type == EventType.TOMBSTONE:
            self.tombstones[header.subject] = header.cursor


def record_of(candidate_id: str) -> str:
    """Return the record id that a candidate would get."""
    return record_id_of("sha256:" + hashlib.sha256(candidate_id.encode()).hexdigest())
