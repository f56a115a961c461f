"""What a person and a waiting agent do with a confirmation request."""

from __future__ import annotations

import threading
from typing import Any

from journal.events import RequestState
from journal.store.port import Part
from tests.tools.memory.world import (
    SCOPE,
    Caller,
)
from tools.host import confirmation
from tools.host.requests import Request
from tools.host.sections import ConfirmationSection
from tools.memory import approval

TTL = 300_000
WAITING = ConfirmationSection(wait_seconds=60)
EVERYTHING = ConfirmationSection(wait_seconds=0, require=("capture", "request_admission"))


def approve(agent: Caller, confirmation_id: str, operator: str = "operator") -> Any:
    return approval.approve(agent.engine, SCOPE, confirmation_id, operator)


def deny(agent: Caller, confirmation_id: str) -> None:
    confirmation.deny(agent.engine, SCOPE, confirmation_id, "operator")


def asked(agent: Caller, tool: str, arguments: dict[str, Any]) -> Request:
    """Make a call that nobody approves, and return the request that it left open."""
    known = {request.confirmation_id for request in agent.requests()}
    assert agent.code(tool, arguments) == "gate_failed"
    (request,) = [request for request in agent.requests() if request.confirmation_id not in known]
    return request


def states(agent: Caller) -> list[str]:
    """Return the states of all requests, oldest first."""
    with agent.engine.journal.store.view(SCOPE) as view:
        rows = [row for name, row in view.subjects() if name.startswith("confirmation_")]
    return [RequestState(row.state).name.lower() for row in sorted(rows, key=lambda row: row.born)]


class Waiting:
    """A call that waits for a person in a thread of its own."""

    def __init__(self, agent: Caller, tool: str, arguments: dict[str, Any], **how: Any) -> None:
        self._answer: dict[str, Any] = {}
        self._thread = threading.Thread(target=lambda: self._answer.update(agent.call(tool, arguments, **how)))
        self._thread.start()

    def answer(self) -> dict[str, Any]:
        self._thread.join(30)
        assert not self._thread.is_alive()
        return self._answer


def request_of(agent: Caller) -> Request:
    """Wait until one request is open, and return it."""
    journal = agent.engine.journal
    while not agent.requests():
        journal.store.watch(SCOPE, agent.head, 0.05)
    (request,) = agent.requests()
    return request


def assert_unreadable(agent: Caller, request: Request) -> None:
    """Check that nothing opens a request's arguments: not the engine, and not a key on the disk."""
    journal = agent.engine.journal
    with journal.store.view(SCOPE) as view:
        assert journal.content(view, request.header) is None
        assert view.pending_destructions() == []
        assert request.header.key_id is not None
        slot = view.slot(request.header.key_id)
        assert view.body(request.header.cursor, Part.CONTENT) is not None, "the log is not rewritten"
    assert slot is not None
    assert journal.keyring.open(SCOPE, request.header.key_id, slot) is None
