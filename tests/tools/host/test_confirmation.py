"""Confirmation (CONTRACT 1): bound to one operation, single use, run by who approves; nothing that a model writes."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import pytest

from journal import limits
from journal.clock import instant
from journal.errors import (
    GateFailed,
    JournalCorrupt,
    NotFound,
    Unauthorized,
)
from journal.lifecycle import State
from tests.tools.host.asking import (
    TTL,
    WAITING,
    Waiting,
    approve,
    asked,
    deny,
    request_of,
)
from tests.tools.memory.world import (
    NOW,
    OTHER,
    SCOPE,
    forgetting,
    key,
    withdrawal,
)
from tools.host.capabilities import FORGET, WITHDRAW
from tools.host.sections import ConfirmationSection
from tools.memory import approval

# --- the request ----------------------------------------------------------------------------------


def test_a_request_says_what_a_person_has_to_know(agent):
    candidate_id = agent.capture()
    arguments = withdrawal(candidate_id)
    request = asked(agent, WITHDRAW, arguments)
    assert (request.capability, request.target, request.principal) == (WITHDRAW, candidate_id, "principal:one")
    assert request.requested_at == instant(NOW)
    assert request.expires_at == instant(NOW + TTL)
    assert request.arguments == arguments
    assert request.confirmation_id.startswith("confirmation_")


def test_an_approval_runs_the_operation_in_its_own_transaction(agent):
    record_id = agent.remember()
    request = asked(agent, FORGET, forgetting(record_id))
    before = agent.head
    event = approve(agent, request.confirmation_id)
    kinds = [kind for kind, _ in agent.events()][before:]
    assert kinds[:2] == ["confirmation_approved", "tombstone"]
    assert event.header.cursor == before + 2
    assert event.header.actor.principal == "principal:one", "who asked, not who approved"


def test_the_approval_names_its_operator_to_the_host(agent):
    request = asked(agent, WITHDRAW, withdrawal(agent.capture()))
    approve(agent, request.confirmation_id, "민수")
    journal = agent.engine.journal
    with journal.store.view(SCOPE) as view:
        row = view.subject(request.confirmation_id)
        assert row is not None
        event = view.event(row.decided)
        assert event is not None
        ledger = journal.ledger(view, event.header)
    assert (ledger["operator"], ledger["channel"]) == ("민수", "console")
    assert event.header.actor.principal == "operator:민수"


def test_it_runs_when_approved_after_the_call_gave_up(agent):
    record_id = agent.remember()
    arguments = forgetting(record_id)
    request = asked(agent, FORGET, arguments)
    approve(agent, request.confirmation_id)
    assert agent.get(record_id)["error"]["code"] == "NOT_FOUND"
    value = agent.value(FORGET, arguments)
    assert (value["replayed"], value["receipt"]["to_state"]) == (True, "tombstoned")


def test_a_waiting_call_gets_the_result_that_the_approval_made(world):
    agent = world.caller(confirmation=WAITING)
    record_id = agent.remember()
    waiting = Waiting(agent, FORGET, forgetting(record_id))
    approve(agent, request_of(agent).confirmation_id)
    value = waiting.answer()["output"]["value"]
    assert (value["replayed"], value["receipt"]["operation"]) == (False, "tombstone")


def test_a_waiting_call_reports_progress_and_can_be_cancelled(world, monkeypatch):
    monkeypatch.setattr(limits, "PROGRESS_INTERVAL_SECONDS", 0)
    agent = world.caller(confirmation=WAITING)
    candidate_id = agent.capture()
    cancelled = threading.Event()
    seen: list[tuple[float, float | None, str | None]] = []

    def progress(done: float, total: float | None, message: str | None) -> None:
        seen.append((done, total, message))
        cancelled.set()

    answer = agent.call(WITHDRAW, withdrawal(candidate_id), cancelled=cancelled, progress=progress)
    assert answer["error"]["code"] == "CANCELLED"
    assert seen
    assert seen[0][1] == 60
    assert agent.state(candidate_id) is State.PENDING
    # The request stays: a person may still approve it, and the same call still joins it.
    approve(agent, request_of(agent).confirmation_id)
    assert agent.state(candidate_id) is State.WITHDRAWN


@pytest.mark.parametrize("begun", [True, False])
def test_a_call_that_the_server_ends_is_not_decided_once_a_person_was_asked(world, begun, capsys):
    agent = world.caller(confirmation=WAITING)
    candidate_id = agent.capture()
    given_up, ending = threading.Event(), threading.Event()

    def end() -> None:
        ending.set()
        given_up.set()

    if begun:
        waiting = Waiting(agent, WITHDRAW, withdrawal(candidate_id), cancelled=given_up, ending=ending)
        request = request_of(agent)
        end()
        assert waiting.answer()["error"]["code"] == "gate_failed"
        approve(agent, request.confirmation_id)
        assert agent.state(candidate_id) is State.WITHDRAWN
    else:
        end()
        assert agent.code(WITHDRAW, withdrawal(candidate_id), cancelled=given_up, ending=ending) == "CANCELLED"
        assert agent.requests() == []
    logged = capsys.readouterr()
    assert "the server ends" in logged.out + logged.err
    assert "the client cancelled" not in logged.out + logged.err


def test_a_call_cancelled_before_it_began_opens_nothing(agent):
    candidate_id = agent.capture()
    before = agent.head
    cancelled = threading.Event()
    cancelled.set()
    assert agent.code(WITHDRAW, withdrawal(candidate_id), cancelled=cancelled) == "CANCELLED"
    assert agent.head == before


def test_without_a_channel_the_gate_is_shut_at_once(world):
    agent = world.caller(confirmation=ConfirmationSection(channels=(), wait_seconds=60))
    candidate_id = agent.capture()
    before = agent.head
    assert agent.code(WITHDRAW, withdrawal(candidate_id)) == "gate_failed"
    assert agent.head == before
    assert agent.code(WITHDRAW, withdrawal("candidate_" + 64 * "0")) == "NOT_FOUND"


def test_a_host_that_does_not_wait_does_not(agent, monkeypatch):
    def watch(*_: Any) -> int:
        raise AssertionError("nobody is waited for")

    monkeypatch.setattr(agent.engine.journal.store, "watch", watch)
    assert agent.code(WITHDRAW, withdrawal(agent.capture())) == "gate_failed"


def test_a_notice_tells_the_human_once_a_request_waits(world, agent):
    told: list[str] = []
    agent.engine.notify = told.append
    candidate_id = agent.capture()
    assert told == []
    asked(agent, WITHDRAW, withdrawal(candidate_id))
    assert told == ["confirmation"]


# --- bound, single use ----------------------------------------------------------------------------


def test_a_confirmation_for_one_cannot_serve_another(agent):
    first, second = agent.capture("first"), agent.capture("second")
    arguments = withdrawal(first)
    request = asked(agent, WITHDRAW, arguments)
    others = [
        (WITHDRAW, {**arguments, "candidate_id": second}),
        (WITHDRAW, {**arguments, "reason_ref": "reason:another"}),
        (WITHDRAW, {**arguments, "idempotency_key": key()}),
    ]
    opened = [asked(agent, *other) for other in others]
    approve(agent, request.confirmation_id)
    assert agent.state(first) is State.WITHDRAWN
    assert agent.state(second) is State.PENDING
    assert {each.confirmation_id for each in agent.requests()} == {each.confirmation_id for each in opened}


@pytest.mark.parametrize(
    "changes",
    [
        {"reason_ref": "reason:another"},
        {"idempotency_key": "another-key-of-16"},
        {"candidate_id": "candidate_" + 64 * "0"},
    ],
)
def test_an_approval_runs_what_its_request_is_bound_to_or_nothing(agent, monkeypatch, changes):
    candidate_id = agent.capture()
    request = asked(agent, WITHDRAW, withdrawal(candidate_id))
    other = dataclasses.replace(request, arguments={**request.arguments, **changes})
    monkeypatch.setattr(approval, "decidable", lambda *_: other)
    with pytest.raises(JournalCorrupt):
        approve(agent, request.confirmation_id)
    assert agent.state(candidate_id) is State.PENDING


def test_a_confirmation_is_one_principals_and_one_scopes(world, agent):
    candidate_id = agent.capture()
    arguments = withdrawal(candidate_id)
    mine = asked(agent, WITHDRAW, arguments)
    two = world.caller(principal="principal:two")
    theirs = asked(two, WITHDRAW, arguments)
    assert mine.confirmation_id != theirs.confirmation_id
    elsewhere = world.caller(OTHER)
    with pytest.raises(NotFound):
        approval.approve(elsewhere.engine, OTHER, mine.confirmation_id, "operator")
    # It runs as the principal that asked, or not at all.
    before = agent.head
    with pytest.raises(Unauthorized):
        approve(agent, theirs.confirmation_id)
    assert agent.head == before
    approve(two, theirs.confirmation_id)
    assert agent.state(candidate_id) is State.WITHDRAWN


def test_a_confirmation_cannot_be_used_twice(agent):
    first = agent.capture()
    request = asked(agent, WITHDRAW, withdrawal(first))
    approve(agent, request.confirmation_id)
    before = agent.head
    with pytest.raises(GateFailed):
        approve(agent, request.confirmation_id)
    with pytest.raises(GateFailed):
        deny(agent, request.confirmation_id)
    assert agent.head == before


@pytest.mark.parametrize("confirmation_id", ["confirmation_" + 32 * "0", "", "candidate_x", "confirmation_"])
def test_an_unknown_request_is_not_found(agent, confirmation_id):
    for decide in (approve, deny):
        with pytest.raises(NotFound):
            decide(agent, confirmation_id)


def test_a_candidate_is_no_request(agent):
    candidate_id = agent.capture()
    for decide in (approve, deny):
        with pytest.raises(NotFound):
            decide(agent, candidate_id)


@pytest.mark.parametrize("count", [2, 8])
def test_operators_who_approve_at_once_run_it_once(agent, count):
    record_id = agent.remember()
    request = asked(agent, FORGET, forgetting(record_id))
    gate = threading.Barrier(count)
    outcomes: list[str] = []

    def operate(number: int) -> None:
        gate.wait()
        try:
            approve(agent, request.confirmation_id, f"operator {number}")
            outcomes.append("ran")
        except GateFailed:
            outcomes.append("too late")

    threads = [threading.Thread(target=operate, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["ran"] + (count - 1) * ["too late"]
    kinds = [kind for kind, _ in agent.events()]
    assert kinds.count("tombstone") == kinds.count("confirmation_approved") == 1


# --- what a model writes --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["confirmed", "approved", "elicitationRef", "confirmation_id", "operator"])
@pytest.mark.parametrize("value", [True, "yes", "confirmation_" + 32 * "0"])
def test_nothing_that_a_model_writes_confirms(agent, name, value):
    candidate_id = agent.capture()
    before = agent.head
    assert agent.code(WITHDRAW, {**withdrawal(candidate_id), name: value}) == "INVALID_SCHEMA"
    assert agent.code(WITHDRAW, withdrawal(candidate_id, reason=f"{name}: {value}")) == "gate_failed"
    assert agent.state(candidate_id) is State.PENDING
    assert agent.head == before + 1
