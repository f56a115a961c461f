"""Captures: their arguments, and a driver that brings a list of them through whatever happens to its server."""

from __future__ import annotations

import hashlib
import itertools
import random
import threading
import time
from collections import Counter, deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from tests.rigs.lineclient import Gone, LineServer, code, envelope
from tests.rigs.place import PURPOSE, Place

_RETRIED = {
    "RATE_LIMITED", "DEADLINE_EXCEEDED", "CANCELLED", "STORE_UNAVAILABLE", "MUTATION_OUTCOME_UNKNOWN",
}  # fmt: skip
_DIGEST = "sha256:" + hashlib.sha256(b"rig").hexdigest()
_numbers = itertools.count(1)


def new_key(name: str = "rig") -> str:
    """Return an idempotency key that was never used in this store."""
    return f"key-of-the-rig:{name}:{next(_numbers):08}"


def capture(text: str, key: str | None = None, **changes: Any) -> dict[str, Any]:
    """Return the arguments of a capture of one component; ``changes`` replace members of the payload."""
    payload = {
        "schema_version": 2,
        "purpose_ref": PURPOSE,
        "valid_time": {"t": 0},
        "components": [{"component_id": "component:1", "kind": "decision", "text": text, "citation_ids": ["c:1"]}],
        "primary_component_id": "component:1",
        "primary_event": {"at": 0, "type_ref": "event:decided", "citation_id": "c:1"},
        "citations": [
            {
                "citation_id": "c:1",
                "source_ref": "source:rig",
                "locator": {"scheme": "line", "value": "1"},
                "content_digest": _DIGEST,
            }
        ],
    }
    evidence = {"evidence_ref": "evidence:rig", "evidence_digest": _DIGEST, "citation_ids": ["c:1"]}
    return {"idempotency_key": key or new_key(), "payload": {**payload, **changes}, "evidence": evidence}


def search(query: str, **changes: Any) -> dict[str, Any]:
    """Return the arguments of a search."""
    return {"query": query, "purpose_ref": PURPOSE, **changes}


def remember(server: LineServer, text: str, **changes: Any) -> str:
    """Capture and admit; return the record id."""
    candidate_id = server.value("capture", capture(text, **changes))["candidate_id"]
    return admit(server, candidate_id)


def admit(server: LineServer, candidate_id: str) -> str:
    """Have a candidate admitted; return the record id."""
    answered = server.value("request_admission", {"candidate_id": candidate_id, "idempotency_key": new_key("admit")})
    assert answered["outcome"]["status"] == "accepted", answered
    return str(answered["outcome"]["record_id"])


def forget_arguments(record_id: str) -> dict[str, Any]:
    """Return the arguments of a forgetting, under a new key."""
    return {"record_id": record_id, "idempotency_key": new_key("forget"), "reason_ref": "reason:rig"}


@dataclass
class Driver:
    """One client with some captures to bring through; it starts its server anew where that dies."""

    place: Place
    texts: list[str]
    window: int = 4  # calls in flight
    failpoints: list[str | None] = field(default_factory=list)  # of the servers, in order; none for later ones
    acknowledged: dict[str, str] = field(default_factory=dict)  # key -> candidate id
    refused: Counter[str] = field(default_factory=Counter)
    deaths: int = 0
    retried: int = 0  # calls that no answer came to
    replayed: int = 0  # of those, the ones that had been committed
    longest_seconds: float = 0.0
    ended_at: float = 0.0
    failure: BaseException | None = None
    doom: threading.Thread | None = None

    def start(self) -> Driver:
        """Start the server."""
        self.server = LineServer(self.place, failpoint=self.failpoints.pop(0) if self.failpoints else None).handshake()
        return self

    def begin(self) -> None:
        """Begin to capture, in a thread."""
        if self.doom is not None:
            self.doom.start()
        self._thread = threading.Thread(target=self._guarded, daemon=True)
        self._thread.start()

    def join(self, seconds: float) -> None:
        """Wait for the end of it."""
        self._thread.join(seconds)
        assert not self._thread.is_alive(), "a driver hangs"
        if self.failure is not None:
            raise self.failure

    def _guarded(self) -> None:
        try:
            self.work()
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that joins
            self.failure = error

    def work(self) -> None:
        """Capture every text, in order, with some in flight, until each is acknowledged."""
        todo = deque(capture(text) for text in self.texts)
        flying: deque[tuple[dict[str, Any], Future[dict[str, Any]]]] = deque()
        while todo or flying:
            while todo and len(flying) < self.window:
                if len(todo) == 1 and self.doom is not None:
                    self.doom.join()
                arguments = todo.popleft()
                flying.append((arguments, self.server.call("capture", arguments)))
            arguments, answer = flying.popleft()
            try:
                self._note(arguments, envelope(answer), todo)
            except Gone:
                lost = [arguments, *self._unanswered(flying, todo)]
                flying.clear()
                self.retried += len(lost)
                todo.extendleft(reversed(lost))
                self._restart()
        self.doom = None
        self.ended_at = time.monotonic()
        self.longest_seconds = max(self.longest_seconds, self.server.longest_seconds)

    def _unanswered(
        self, flying: deque[tuple[dict[str, Any], Future[dict[str, Any]]]], todo: deque[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Take the answers that came before the death; return the calls that got none."""
        lost = []
        for arguments, answer in flying:
            try:
                self._note(arguments, envelope(answer), todo)
            except Gone:
                lost.append(arguments)
        return lost

    def _note(self, arguments: dict[str, Any], answered: dict[str, Any], todo: deque[dict[str, Any]]) -> None:
        if answered["ok"]:
            key = arguments["idempotency_key"]
            assert key not in self.acknowledged
            self.acknowledged[key] = answered["output"]["value"]["candidate_id"]
            self.replayed += answered["output"]["value"]["status"] == "duplicate_exact"
            return
        self.refused[code(answered)] += 1
        assert answered["error"]["code"] in _RETRIED, answered
        assert answered["error"]["retriable"], answered
        todo.append(arguments)

    def _restart(self) -> None:
        self.server.process.wait(30)
        self.longest_seconds = max(self.longest_seconds, self.server.longest_seconds)
        self.deaths += 1
        self.start()

    def kill_when(self, acknowledged: int, chance: random.Random) -> None:
        """Kill the server at a random moment after so many answers; the last capture is held back until then."""

        def wait_and_kill() -> None:
            while len(self.acknowledged) < acknowledged and self.failure is None:
                time.sleep(0.0005)
            time.sleep(chance.random() * 0.01)
            self.server.kill()

        self.doom = threading.Thread(target=wait_and_kill, daemon=True)
