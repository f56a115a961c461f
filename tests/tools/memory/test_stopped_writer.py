"""Another process that holds the store's lock and does not go on: every call is answered by its deadline."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from journal import limits
from journal.filelock import FileLock
from journal.lifecycle import Operation, State
from tests.tools.memory.world import (
    SCOPE,
    World,
    capture_arguments,
    forgetting,
    key,
    withdrawal,
)
from tools.host.capabilities import CAPTURE, FORGET, REQUEST_ADMISSION, WITHDRAW
from tools.memory import approval


@contextmanager
def stopped(world: World) -> Iterator[None]:
    """Hold the journal's writer lock, as a stopped process would."""
    lock = FileLock(world.path / "journal" / "writer.lock")
    assert lock.acquire(time.monotonic() + 10)
    try:
        yield
    finally:
        lock.close()


def test_mutations_are_answered_by_their_deadline_and_reads_go_on(world, agent):
    record_id = agent.remember("harvest")
    assert agent.found("harvest") == [record_id]
    candidate_id = agent.capture("pending")
    capture = capture_arguments("late")
    calls: list[tuple[str, dict[str, Any]]] = [
        (CAPTURE, capture),
        (REQUEST_ADMISSION, {"candidate_id": candidate_id, "idempotency_key": key()}),
        (WITHDRAW, withdrawal(candidate_id)),
        (FORGET, forgetting(record_id)),
    ]
    before = agent.head
    with stopped(world):
        for tool, arguments in calls:
            assert agent.code(tool, arguments, seconds=0.1) == "DEADLINE_EXCEEDED", tool
        assert agent.get(record_id)["ok"]
        assert agent.found("harvest") == [record_id]
    assert agent.head == before
    assert agent.value(CAPTURE, capture)["status"] == "committed_pending"


def test_what_a_dead_process_left_over_delays_no_call_beyond_its_deadline(world, agent):
    candidate_id = agent.capture("left over")
    agent.transit(candidate_id, Operation.WITHDRAW)  # its key is not destroyed yet
    world.restart()
    again = world.caller()
    with stopped(world):
        assert again.code(CAPTURE, capture_arguments("late"), seconds=0.1) == "DEADLINE_EXCEEDED"
    assert again.value(CAPTURE, capture_arguments("later"))["status"] == "committed_pending"
    assert world.journal.key_is_destroyed(SCOPE, candidate_id)


def test_a_lock_that_is_lost_after_the_commit_does_not_hold_the_answer(world, agent, monkeypatch):
    monkeypatch.setattr(limits, "ERASURE_INLINE_SECONDS", 0.1)
    candidate_id = agent.capture("withdrawn")
    arguments = withdrawal(candidate_id)
    agent.code(WITHDRAW, arguments)
    (request,) = agent.requests()
    finish = world.journal.finish_destructions

    def overtaken(*given: Any) -> bool:
        with stopped(world):
            return finish(*given)

    with monkeypatch.context() as patch:
        patch.setattr(world.journal, "finish_destructions", overtaken)
        approval.approve(agent.engine, SCOPE, request.confirmation_id, "operator")
    assert agent.state(candidate_id) is State.WITHDRAWN
    assert agent.value(WITHDRAW, arguments)["receipt"]["to_state"] == "withdrawn"
    with world.journal.store.view(SCOPE) as view:
        assert view.pending_destructions()
    finish(SCOPE)
    with world.journal.store.view(SCOPE) as view:
        assert not view.pending_destructions()


def test_a_key_that_a_late_call_took_is_given_back(world, agent):
    agent.capture("first")
    with stopped(world):
        for _ in range(3):
            assert agent.code(CAPTURE, capture_arguments("late"), seconds=0.1) == "DEADLINE_EXCEEDED"
    assert world.journal.take_key(SCOPE).slot == 1
