"""A store whose clock and randomness stand still, two scopes, and callers who speak through the memory service."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import itertools
import json
import subprocess
import sys
import threading
import time
import unicodedata
from pathlib import Path
from typing import Any, Self

import msgspec

from journal import layout
from journal.events import Actor, Draft, EventType
from journal.lifecycle import LEGAL, Operation, State
from journal.log import Journal
from journal.scope import Scope
from journal.testing import ManualClock, SeededRandomness
from tools.host import confirmation
from tools.host.binding import Binding
from tools.host.capabilities import ALL_TOOLS, CAPTURE, FORGET, GET, REQUEST_ADMISSION, SEARCH, WITHDRAW
from tools.host.conversation import ConversationBinding
from tools.host.policies.port import Policy
from tools.host.requests import Request
from tools.host.sections import ConfirmationSection, PurposeSection
from tools.memory import approval
from tools.memory.engine import Engine
from tools.memory.service import MemoryService
from tools.server.service import CallContext, Progress

NOW = 1_755_350_096_789
SCOPE = Scope.of("tenant", "work")
OTHER = Scope.of("tenant", "side")
PURPOSE = "purpose:work"
SECOND = "purpose:second"
ROOT_KEY = bytes(range(32))
ROOT = Path(__file__).resolve().parents[3]
DAY = 86_400_000

_numbers = itertools.count(1)


def key(name: str = "") -> str:
    """Return an idempotency key: of this name, or one that was never used."""
    return f"key-of-at-least-16-bytes:{name or next(_numbers)}"


def sha256(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def payload(text: str = "The nightly build moved to half past two.", **changes: Any) -> dict[str, Any]:
    """Return a payload of one component; ``changes`` replace or add members, None removes one."""
    made = {
        "schema_version": 2,
        "purpose_ref": PURPOSE,
        "valid_time": {"t": NOW - 1_000},
        "components": [component("component:1", text)],
        "primary_component_id": "component:1",
        "primary_event": {"at": NOW - 1_000, "type_ref": "event:decided", "citation_id": "citation:1"},
        "citations": [citation("citation:1")],
    }
    return {name: value for name, value in {**made, **changes}.items() if value is not None}


def component(
    component_id: str, text: str, kind: str = "decision", cited: tuple[str, ...] = ("citation:1",)
) -> dict[str, Any]:
    return {"component_id": component_id, "kind": kind, "text": text, "citation_ids": list(cited)}


def citation(citation_id: str, **changes: Any) -> dict[str, Any]:
    made = {
        "citation_id": citation_id,
        "source_ref": "source:minutes",
        "locator": {"scheme": "line", "value": "1-3"},
        "content_digest": sha256(citation_id),
    }
    return {**made, **changes}


def evidence(**changes: Any) -> dict[str, Any]:
    made = {"evidence_ref": "evidence:minutes", "evidence_digest": sha256("evidence"), "citation_ids": ["citation:1"]}
    return {**made, **changes}


def capture_arguments(
    text: str = "The nightly build moved to half past two.", idempotency_key: str = "", **changes: Any
) -> dict[str, Any]:
    return {"idempotency_key": idempotency_key or key(), "payload": payload(text, **changes), "evidence": evidence()}


def changed(document: Any, path: str, value: Any) -> Any:
    """Return a deep copy with the place at a dotted path set; ``...`` removes it."""
    made = copy.deepcopy(document)
    *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    place = made
    for step in steps:
        place = place[step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return made


def at(document: Any, path: str) -> Any:
    for step in path.split("."):
        document = document[int(step) if step.isdigit() else step]
    return document


def nfd(text: str) -> str:
    return unicodedata.normalize("NFD", text)


def binding(scope: Scope = SCOPE, **changes: Any) -> Binding:
    """Return a binding that accepts what is asserted and never waits for a person."""
    made: dict[str, Any] = {
        "scope": scope,
        "principal": "principal:one",
        "agent_id": None,
        "enabled": True,
        "purposes": (PurposeSection(ref=PURPOSE), PurposeSection(ref=SECOND)),
        "granted": frozenset(ALL_TOOLS),
        "policy": "accept-asserted",
        "confirmation": ConfirmationSection(wait_seconds=0),
        "retention_ceiling_milliseconds": 3_650 * DAY,
        "allow_retain": False,
        "packet_cap_bytes": 1 << 20,
        "families": frozenset({"assertion-family:binary-status"}),
    }
    made |= changes
    return Binding(**{"conversation": ConversationBinding.of(made["scope"], made["principal"]), **made})


class Caller:
    """An agent's side: calls go in, documents come out."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.service = MemoryService(engine)
        self.told: list[tuple[float, float | None, str | None]] = []

    @property
    def scope(self) -> Scope:
        return self.engine.binding.scope

    def call(
        self, tool: str, arguments: dict[str, Any], *, cancelled: threading.Event | None = None, seconds: float = 30,
        progress: Progress | None = None, ending: threading.Event | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Return the envelope as it stands on the wire."""
        context = CallContext(
            client_name="tests", session_id="session", protocol_version="2025-06-18",
            deadline=time.monotonic() + seconds, cancelled=cancelled or threading.Event(),
            progress=progress or (lambda *told: self.told.append(told)), ending=ending or threading.Event(),
        )  # fmt: skip
        document = self.service.call(tool, arguments, context).document()
        return json.loads(msgspec.json.encode(document))

    def value(self, tool: str, arguments: dict[str, Any], **how: Any) -> dict[str, Any]:
        """Return the value of a call that must succeed."""
        document = self.call(tool, arguments, **how)
        assert document["ok"], document
        return document["output"]["value"]

    def code(self, tool: str, arguments: dict[str, Any], **how: Any) -> str:
        """Return the code of a call, or ``ok``."""
        document = self.call(tool, arguments, **how)
        return "ok" if document["ok"] else document["error"]["code"]

    # --- the tools -------------------------------------------------------------------------------

    def capture(self, text: str = "The nightly build moved to half past two.", **changes: Any) -> str:
        """Capture and return the candidate id."""
        return self.value(CAPTURE, capture_arguments(text, **changes))["candidate_id"]

    def admit(self, candidate_id: str) -> dict[str, Any]:
        """Request admission and return the outcome."""
        return self.value(REQUEST_ADMISSION, {"candidate_id": candidate_id, "idempotency_key": key()})["outcome"]

    def remember(self, text: str = "The nightly build moved to half past two.", **changes: Any) -> str:
        """Capture, admit, and return the record id."""
        outcome = self.admit(self.capture(text, **changes))
        assert outcome["status"] == "accepted", outcome
        return outcome["record_id"]

    def get(self, record_id: str, **more: Any) -> dict[str, Any]:
        """Return the envelope of a get."""
        return self.call(GET, {"record_id": record_id, "purpose_ref": PURPOSE, **more})

    def search(self, query: str, **more: Any) -> dict[str, Any]:
        """Return the value of a search."""
        return self.value(SEARCH, {"query": query, "purpose_ref": PURPOSE, **more})

    def found(self, query: str, **more: Any) -> list[str]:
        """Return the record ids that a search finds."""
        return [packet["record"]["record_id"] for packet in self.search(query, **more)["records"]]

    def confirmed(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Open a request, have a person approve it, and return the value that the repeated call gives."""
        assert self.code(tool, arguments) == "gate_failed"
        approval.approve(self.engine, self.scope, self.requests()[-1].confirmation_id, "operator")
        return self.value(tool, arguments)

    def withdraw(self, candidate_id: str) -> dict[str, Any]:
        return self.confirmed(WITHDRAW, withdrawal(candidate_id))

    def forget(self, record_id: str) -> dict[str, Any]:
        return self.confirmed(FORGET, forgetting(record_id))

    def requests(self) -> list[Request]:
        return confirmation.list_requests(self.engine, self.scope)

    # --- the journal -----------------------------------------------------------------------------

    @property
    def head(self) -> int:
        return self.engine.journal.store.head(self.scope).cursor

    def state(self, candidate_id: str) -> State:
        with self.engine.journal.store.view(self.scope) as view:
            subject = view.subject(candidate_id)
        return State.ABSENT if subject is None else State(subject.state)

    def record_id_of(self, candidate_id: str) -> str:
        """Return a record's id, as only the host can know it before acceptance."""
        with self.engine.journal.store.view(self.scope) as view:
            subject = view.subject(candidate_id)
        assert subject is not None
        assert subject.record_id is not None
        return subject.record_id

    def events(self) -> list[tuple[str, str | None]]:
        """Return (type, subject) of every event."""
        return [
            (event.header.kind.label, event.header.subject)
            for event in self.engine.journal.store.read(self.scope, 0, 100_000)
        ]

    def transit(self, candidate_id: str, operation: Operation, related: str | None = None) -> None:
        """Let the host change a record's state, by the journal's own verb."""
        draft = transition_draft(
            self.engine.journal, self.scope, candidate_id, operation, self.state(candidate_id), related
        )
        if operation >= Operation.DISPUTE:
            draft = dataclasses.replace(draft, record_id=self.record_id_of(candidate_id))
        self.engine.journal.commit(self.scope, lambda view: [draft])


def withdrawal(candidate_id: str, idempotency_key: str = "", reason: str = "reason:mistaken") -> dict[str, Any]:
    return {"candidate_id": candidate_id, "idempotency_key": idempotency_key or key(), "reason_ref": reason}


def forgetting(record_id: str, idempotency_key: str = "", reason: str = "reason:asked") -> dict[str, Any]:
    return {"record_id": record_id, "idempotency_key": idempotency_key or key(), "reason_ref": reason}


def transition_draft(
    journal: Journal, scope: Scope, candidate_id: str, operation: Operation, state: State, related: str | None = None
) -> Draft:
    """Return a host's transition; an illegal one claims the state that the operation leads to elsewhere."""
    to_state = LEGAL.get((operation, state)) or next(to for (name, _), to in LEGAL.items() if name is operation)
    event_id = journal.random_event_id(scope)
    return Draft(
        type=EventType(operation), event_id=event_id, actor=Actor("operator:tests"), subject=candidate_id,
        related=related, from_state=state, to_state=to_state,
        ledger=journal.seal_ledger(scope, event_id, candidate_id, {"reason": "tests"}),
    )  # fmt: skip


class World:
    """One store. ``caller`` gives an agent, ``restart`` closes and opens the store, ``second_process`` is another."""

    def __init__(self, path: Path, *, seed: bytes = b"seed") -> None:
        self.path = path
        self.clock = ManualClock(NOW)
        self.randomness = SeededRandomness(seed)
        layout.create(path, "2026-08-16T12:34:56.789Z")
        self.journal = self._opened()
        self._engines: list[Engine] = []

    def _opened(self) -> Journal:
        return Journal.open(self.path, ROOT_KEY, clock=self.clock, randomness=self.randomness)

    def engine(self, scope: Scope = SCOPE, *, policy_port: Policy | None = None, **changes: Any) -> Engine:
        engine = Engine(self.journal, binding(scope, **changes), policy=policy_port)
        self._engines.append(engine)
        return engine

    def caller(self, scope: Scope = SCOPE, *, policy_port: Policy | None = None, **changes: Any) -> Caller:
        return Caller(self.engine(scope, policy_port=policy_port, **changes))

    def restart(self) -> None:
        """Close the store and open it again; callers made before are of no more use."""
        self.close()
        self.journal = self._opened()

    def close(self) -> None:
        engines, self._engines = self._engines, []
        for engine in engines:
            engine.close()
        self.journal.close()

    def second_process(self) -> SecondProcess:
        return SecondProcess(self.path)


class SecondProcess:
    """Another process with the same store open, at a clock of the test's choosing."""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.tools.memory.second_process", str(path)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, cwd=ROOT, text=True,
        )  # fmt: skip

    def ask(self, tool: str, arguments: dict[str, Any], *, now: int = NOW, **changes: Any) -> None:
        """Send a call; ``changes`` are of the binding."""
        assert self._process.stdin is not None
        line = {"tool": tool, "arguments": arguments, "now": now, "changes": changes}
        self._process.stdin.write(json.dumps(line) + "\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """Return the envelope of the call that was sent."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the second process died"
        return json.loads(line)

    def call(self, tool: str, arguments: dict[str, Any], **how: Any) -> dict[str, Any]:
        self.ask(tool, arguments, **how)
        return self.answer()

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
