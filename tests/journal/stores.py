"""Whole stores, journal and keys, and a host's few gestures in them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from journal import identity, layout
from journal.digests import candidate_id_of
from journal.events import Actor, Draft, EventType
from journal.lifecycle import Operation, State, next_state
from journal.log import Journal
from journal.scope import Scope
from tests.journal.store.history import record_of

if TYPE_CHECKING:
    from pathlib import Path

    from journal.store.port import Committed, View

ROOT = bytes(range(32))
SCOPE = Scope.of("tenant:one", "workspace:one")
OTHER = Scope.of("tenant:one", "workspace:two")
ACTOR = Actor("operator:test")  # nobody grants anything in these stores, and no agent is ever approved
BEFORE_ACCEPTANCE = frozenset({Operation.REJECT, Operation.WITHDRAW})


def make(path: Path) -> Path:
    """Make a store; return its place."""
    layout.create(path, "2026-01-02T03:04:05.678Z")
    return path


@contextmanager
def opened(path: Path, **how: Any):
    """Open a store's journal for a while."""
    journal = Journal.open(path, ROOT, **how)
    try:
        yield journal
    finally:
        journal.close()


def payload_of(text: str) -> dict[str, Any]:
    """Return the part of a payload that guards are made of, and a little more."""
    component = {"component_id": "component:1", "kind": "decision", "text": text, "citation_ids": ["citation:1"]}
    return {"schema_version": 2, "components": [component], "primary_component_id": "component:1"}


def capture(journal: Journal, key: str, text: str = "what was decided", scope: Scope = SCOPE) -> tuple[str, bool]:
    """Capture under an idempotency key; return the candidate's id and whether it was captured now."""
    identity_key = journal.keyring.identity_key(scope)
    event_id = identity.event_id(identity_key, scope, ACTOR.principal, key)
    candidate_id = candidate_id_of(event_id)
    data_key = journal.take_key(scope)
    draft = Draft(
        type=EventType.CAPTURE, event_id=event_id, actor=ACTOR, subject=candidate_id, to_state=State.PENDING,
        key_id=data_key.key_id, slot=data_key.slot, slot_generation=data_key.generation,
        intent=identity.intent(identity_key, "capture", None, text),
        guards=identity.guards(identity_key, payload_of(text)),
        content=journal.seal_content(scope, event_id, candidate_id, data_key, {"payload": payload_of(text)}),
        ledger=journal.seal_ledger(scope, event_id, candidate_id, {"outcome": key}),
    )  # fmt: skip

    def decide(view: View) -> list[Draft]:
        return [] if view.outcome(event_id) is not None else [draft]

    made = journal.commit(scope, decide)
    if not made:
        journal.keyring.give_back(scope, data_key)
    return candidate_id, bool(made)


def move(journal: Journal, operation: Operation, candidate_id: str, scope: Scope = SCOPE) -> Committed:
    """Move a candidate by an operation; what it leaves to destroy is left."""
    event_id = journal.random_event_id(scope)
    ledger = journal.seal_ledger(scope, event_id, candidate_id, {"reason": operation.label})

    def decide(view: View) -> list[Draft]:
        row = view.subject(candidate_id)
        before = State.ABSENT if row is None else State(row.state)
        record_id = None if operation in BEFORE_ACCEPTANCE else record_of(candidate_id)
        draft = Draft(
            type=EventType(int(operation)), event_id=event_id, actor=ACTOR, subject=candidate_id, record_id=record_id,
            from_state=before, to_state=next_state(operation, before), ledger=ledger,
        )  # fmt: skip
        return [draft]

    return journal.commit(scope, decide)[0]


def text_of(journal: Journal, candidate_id: str, scope: Scope = SCOPE) -> str | None:
    """Return the text that a candidate was captured with, or None where it was erased."""
    payload = journal.payload(scope, candidate_id)
    return None if payload is None else str(payload["components"][0]["text"])


def key_of(journal: Journal, candidate_id: str) -> tuple[bytes, int]:
    """Return a candidate's data key by its id and its slot's number."""
    with journal.store.view(SCOPE) as view:
        row = view.subject(candidate_id)
        assert row is not None
        assert row.key_id is not None
        slot = view.slot(row.key_id)
        assert slot is not None
        return row.key_id, slot
