"""Confirmation (CONTRACT 1): bound to one operation, single use, run by who approves, traceless when denied."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Any

import pytest

from journal import limits
from journal.clock import instant
from journal.errors import (
    AlreadyTerminal,
    BlobMissing,
    EngramError,
    GateFailed,
    IllegalTransition,
    JournalCorrupt,
    NotFound,
    PolicyUnavailable,
    Unauthorized,
)
from journal.events import RequestState
from journal.lifecycle import Operation, State
from journal.store.port import Part
from tests.tools.memory.world import (
    NOW,
    OTHER,
    SCOPE,
    Caller,
    capture_arguments,
    forgetting,
    key,
    withdrawal,
)
from tools.host import confirmation
from tools.host.capabilities import CAPTURE, FORGET, REQUEST_ADMISSION, WITHDRAW
from tools.host.sections import ConfirmationSection, PurposeSection
from tools.memory import approval

TTL = 300_000
WAITING = ConfirmationSection(wait_seconds=60)
EVERYTHING = ConfirmationSection(wait_seconds=0, require=("capture", "request_admission"))


def approve(agent: Caller, confirmation_id: str, operator: str = "operator") -> Any:
    return approval.approve(agent.engine, SCOPE, confirmation_id, operator)


def deny(agent: Caller, confirmation_id: str) -> None:
    confirmation.deny(agent.engine, SCOPE, confirmation_id, "operator")


def asked(agent: Caller, tool: str, arguments: dict[str, Any]) -> confirmation.Request:
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


def request_of(agent: Caller) -> confirmation.Request:
    """Wait until one request is open, and return it."""
    journal = agent.engine.journal
    while not agent.requests():
        journal.store.watch(SCOPE, agent.head, 0.05)
    (request,) = agent.requests()
    return request


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


# --- time -----------------------------------------------------------------------------------------


def test_it_lives_for_299_999_milliseconds(world, agent):
    candidate_id = agent.capture()
    request = asked(agent, WITHDRAW, withdrawal(candidate_id))
    world.clock.advance(milliseconds=TTL - 1)
    assert [each.confirmation_id for each in agent.requests()] == [request.confirmation_id]
    approve(agent, request.confirmation_id)
    assert agent.state(candidate_id) is State.WITHDRAWN


@pytest.mark.parametrize("age", [TTL, TTL + 1, 10 * TTL])
def test_it_dies_at_300_seconds(world, agent, age):
    candidate_id = agent.capture()
    request = asked(agent, WITHDRAW, withdrawal(candidate_id))
    world.clock.advance(milliseconds=age)
    assert agent.requests() == []
    with pytest.raises(GateFailed):
        approve(agent, request.confirmation_id)
    assert agent.state(candidate_id) is State.PENDING
    assert states(agent) == ["expired"]
    assert_unreadable(agent, request)


def test_it_can_expire_between_the_look_and_the_lock(world, agent, monkeypatch):
    candidate_id = agent.capture()
    request = asked(agent, WITHDRAW, withdrawal(candidate_id))
    call_of = agent.engine.call_of

    def slow(*given: Any) -> Any:
        world.clock.advance(milliseconds=TTL)
        return call_of(*given)

    monkeypatch.setattr(agent.engine, "call_of", slow)
    with pytest.raises(GateFailed):
        approve(agent, request.confirmation_id)
    assert agent.state(candidate_id) is State.PENDING


def test_a_shorter_life_is_the_hosts_to_choose(world):
    agent = world.caller(confirmation=ConfirmationSection(wait_seconds=0, ttl_seconds=1))
    request = asked(agent, WITHDRAW, withdrawal(agent.capture()))
    assert request.expires_at == instant(NOW + 1_000)
    world.clock.advance(milliseconds=1_000)
    with pytest.raises(GateFailed):
        approve(agent, request.confirmation_id)


def test_the_same_call_after_expiry_opens_a_new_request(world, agent):
    candidate_id = agent.capture()
    arguments = withdrawal(candidate_id)
    first = asked(agent, WITHDRAW, arguments)
    world.clock.advance(milliseconds=TTL)
    second = asked(agent, WITHDRAW, arguments)
    assert first.confirmation_id != second.confirmation_id
    assert states(agent) == ["expired", "open"]
    approve(agent, second.confirmation_id)
    assert agent.state(candidate_id) is State.WITHDRAWN


def test_expired_requests_are_ended_by_the_sweep(world, agent):
    requests = [asked(agent, WITHDRAW, withdrawal(agent.capture())) for _ in range(3)]
    assert confirmation.expire_requests(agent.engine, SCOPE) == 0
    world.clock.advance(milliseconds=TTL)
    assert confirmation.expire_requests(agent.engine, SCOPE) == 3
    assert confirmation.expire_requests(agent.engine, SCOPE) == 0
    for request in requests:
        assert_unreadable(agent, request)


def test_a_waiting_call_notices_that_its_request_expired(world):
    agent = world.caller(confirmation=WAITING)
    waiting = Waiting(agent, WITHDRAW, withdrawal(agent.capture()))
    request_of(agent)
    world.clock.advance(milliseconds=TTL)
    assert waiting.answer()["error"]["code"] == "gate_failed"


# --- denied ---------------------------------------------------------------------------------------


def assert_unreadable(agent: Caller, request: confirmation.Request) -> None:
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


@pytest.mark.parametrize("decide", [approve, deny])
def test_a_decided_request_can_be_read_no_more(agent, decide):
    request = asked(agent, WITHDRAW, withdrawal(agent.capture()))
    decide(agent, request.confirmation_id)
    assert agent.requests() == []
    assert_unreadable(agent, request)


def test_an_approved_captures_request_can_be_read_no_more(world):
    agent = world.caller(confirmation=EVERYTHING)
    request = asked(agent, CAPTURE, capture_arguments("kept as a candidate, not as a request"))
    approve(agent, request.confirmation_id)
    assert_unreadable(agent, request)


def test_a_denial_that_another_decision_overtook_changes_nothing(agent, monkeypatch):
    request = asked(agent, WITHDRAW, withdrawal(agent.capture()))
    approve(agent, request.confirmation_id)
    before = agent.head
    monkeypatch.setattr(confirmation, "decidable", lambda *_: request)
    with pytest.raises(GateFailed):
        deny(agent, request.confirmation_id)
    assert agent.head == before


def test_a_denial_leaves_nothing_but_itself(agent):
    candidate_id = agent.capture()
    arguments = withdrawal(candidate_id)
    request = asked(agent, WITHDRAW, arguments)
    before = agent.head
    deny(agent, request.confirmation_id)
    assert [kind for kind, _ in agent.events()][before:] == ["confirmation_denied", "erasure_done"]
    assert agent.state(candidate_id) is State.PENDING
    again = asked(agent, WITHDRAW, arguments)
    assert again.confirmation_id != request.confirmation_id
    deny(agent, again.confirmation_id)
    # The key is free: another operation may take it.
    assert agent.value(CAPTURE, capture_arguments("x", arguments["idempotency_key"]))["status"] == "committed_pending"


def test_a_waiting_call_is_told_of_a_denial(world):
    agent = world.caller(confirmation=WAITING)
    candidate_id = agent.capture()
    waiting = Waiting(agent, WITHDRAW, withdrawal(candidate_id))
    deny(agent, request_of(agent).confirmation_id)
    assert waiting.answer()["error"]["code"] == "gate_failed"
    assert agent.state(candidate_id) is State.PENDING


# --- joining --------------------------------------------------------------------------------------


def test_the_same_call_joins_the_open_request(world, agent):
    arguments = withdrawal(agent.capture())
    request = asked(agent, WITHDRAW, arguments)
    before = agent.head
    assert agent.code(WITHDRAW, arguments) == "gate_failed"
    with world.second_process() as other:
        assert other.call(WITHDRAW, arguments)["error"]["code"] == "gate_failed"
        assert agent.head == before
        assert [each.confirmation_id for each in agent.requests()] == [request.confirmation_id]
        other.ask(WITHDRAW, arguments, confirmation={"wait_seconds": 30})
        approve(agent, request.confirmation_id)
        assert other.answer()["output"]["value"]["receipt"]["to_state"] == "withdrawn"


def test_16_calls_at_once_open_one_request_and_get_one_result(world):
    agent = world.caller(confirmation=WAITING)
    arguments = forgetting(agent.remember())
    waiting = [Waiting(agent, FORGET, arguments) for _ in range(16)]
    approve(agent, request_of(agent).confirmation_id)
    receipts = {str(each.answer()["output"]["value"]["receipt"]) for each in waiting}
    assert len(receipts) == 1
    kinds = [kind for kind, _ in agent.events()]
    assert kinds.count("confirmation_requested") == kinds.count("tombstone") == 1


def test_other_arguments_under_the_same_key_reserve_nothing_while_a_request_is_open(agent):
    first, second = agent.capture("first"), agent.capture("second")
    arguments = withdrawal(first)
    one = asked(agent, WITHDRAW, arguments)
    two = asked(agent, WITHDRAW, {**arguments, "candidate_id": second})
    approve(agent, two.confirmation_id)
    assert agent.state(second) is State.WITHDRAWN
    # Now the key is the second's: the first cannot run any more, and its request is over.
    with pytest.raises(EngramError) as caught:
        approve(agent, one.confirmation_id)
    assert caught.value.code == "DIGEST_CONFLICT"
    assert agent.state(first) is State.PENDING
    assert agent.requests() == []
    assert agent.code(WITHDRAW, arguments) == "DIGEST_CONFLICT"


def test_a_key_is_free_for_another_tool_while_a_request_is_open(agent):
    candidate_id = agent.capture()
    arguments = withdrawal(candidate_id)
    request = asked(agent, WITHDRAW, arguments)
    assert agent.value(CAPTURE, capture_arguments("x", arguments["idempotency_key"]))["status"] == "committed_pending"
    with pytest.raises(EngramError) as caught:
        approve(agent, request.confirmation_id)
    assert caught.value.code == "DIGEST_CONFLICT"
    assert agent.state(candidate_id) is State.PENDING


# --- restart --------------------------------------------------------------------------------------


def test_a_request_survives_a_restart(world, agent):
    candidate_id = agent.capture()
    arguments = withdrawal(candidate_id)
    request = asked(agent, WITHDRAW, arguments)
    world.restart()
    again = world.caller()
    assert [each.confirmation_id for each in again.requests()] == [request.confirmation_id]
    assert again.code(WITHDRAW, arguments) == "gate_failed"
    approve(again, request.confirmation_id)
    assert again.value(WITHDRAW, arguments)["replayed"] is True


def test_an_approval_survives_a_restart(world, agent):
    record_id = agent.remember()
    arguments = forgetting(record_id)
    approve(agent, asked(agent, FORGET, arguments).confirmation_id)
    world.restart()
    again = world.caller()
    assert again.value(FORGET, arguments)["receipt"]["to_state"] == "tombstoned"
    assert again.requests() == []


# --- the state changed ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error"),
    [(Operation.ACCEPT, IllegalTransition), (Operation.WITHDRAW, AlreadyTerminal), (Operation.REJECT, AlreadyTerminal)],
)
def test_the_state_is_checked_again_at_execution(agent, change, error):
    candidate_id = agent.capture()
    arguments = withdrawal(candidate_id)
    request = asked(agent, WITHDRAW, arguments)
    if change is Operation.ACCEPT:
        agent.admit(candidate_id)
    else:
        agent.transit(candidate_id, change)
    with pytest.raises(error):
        approve(agent, request.confirmation_id)
    assert states(agent) == ["expired"], "what cannot run any more waits no longer"
    assert agent.code(WITHDRAW, arguments) == error.code


def test_a_waiting_call_is_told_what_the_approval_found(world):
    agent = world.caller(confirmation=WAITING)
    candidate_id = agent.capture()
    waiting = Waiting(agent, WITHDRAW, withdrawal(candidate_id))
    request = request_of(agent)
    agent.admit(candidate_id)
    with pytest.raises(IllegalTransition):
        approve(agent, request.confirmation_id)
    assert waiting.answer()["error"]["code"] == "ILLEGAL_TRANSITION"


def test_a_target_that_forbids_it_opens_no_request(agent):
    candidate_id = agent.capture()
    agent.admit(candidate_id)
    before = agent.head
    assert agent.code(WITHDRAW, withdrawal(candidate_id)) == "ILLEGAL_TRANSITION"
    assert agent.code(FORGET, forgetting("mem_" + 52 * "a")) == "NOT_FOUND"
    assert agent.head == before


# --- capture and request_admission where the host says so -----------------------------------------


def test_capture_and_admission_can_need_a_person(world):
    agent = world.caller(confirmation=EVERYTHING)
    arguments = capture_arguments("asked for")
    before = agent.head
    request = asked(agent, CAPTURE, arguments)
    assert request.target is None
    assert [kind for kind, _ in agent.events()][before:] == ["confirmation_requested"]
    approve(agent, request.confirmation_id)
    value = agent.value(CAPTURE, arguments)
    assert value["status"] == "duplicate_exact"
    admission = {"candidate_id": value["candidate_id"], "idempotency_key": key()}
    approve(agent, asked(agent, REQUEST_ADMISSION, admission).confirmation_id)
    outcome = agent.value(REQUEST_ADMISSION, admission)
    assert (outcome["outcome"]["status"], outcome["replayed"]) == ("accepted", True)


def test_a_waiting_capture_is_told_that_it_was_committed(world):
    agent = world.caller(confirmation=ConfirmationSection(wait_seconds=60, require=("capture",)))
    waiting = Waiting(agent, CAPTURE, capture_arguments("waited for"))
    approve(agent, request_of(agent).confirmation_id)
    assert waiting.answer()["output"]["value"]["status"] == "committed_pending"


def test_a_denied_capture_leaves_no_word(world):
    agent = world.caller(confirmation=EVERYTHING)
    request = asked(agent, CAPTURE, capture_arguments("never to be kept"))
    deny(agent, request.confirmation_id)
    assert_unreadable(agent, request)
    assert "capture" not in {kind for kind, _ in agent.events()}


def test_what_the_host_forbids_is_not_even_asked(world):
    agent = world.caller(confirmation=EVERYTHING)
    refused = capture_arguments("x", retention={"derivative_rule": "retain"})
    assert agent.code(CAPTURE, refused) == "UNAUTHORIZED"
    assert agent.code(CAPTURE, capture_arguments("x", retention={"expires_at": instant(NOW)})) == "INVALID_SCHEMA"
    assert agent.head == 0


def test_retention_is_checked_again_at_execution(world):
    agent = world.caller(confirmation=EVERYTHING)
    arguments = capture_arguments("x", retention={"expires_at": instant(NOW + 1_000)})
    request = asked(agent, CAPTURE, arguments)
    world.clock.advance(milliseconds=1_000)
    with pytest.raises(EngramError) as caught:
        approve(agent, request.confirmation_id)
    assert caught.value.code == "INVALID_SCHEMA"
    assert "capture" not in {kind for kind, _ in agent.events()}


def test_a_candidate_that_was_decided_meanwhile_answers_and_ends_the_request(world, agent):
    gated = world.caller(confirmation=EVERYTHING)
    candidate_id = agent.capture()
    admission = {"candidate_id": candidate_id, "idempotency_key": key()}
    request = asked(gated, REQUEST_ADMISSION, admission)
    first = agent.admit(candidate_id)
    approve(gated, request.confirmation_id)
    assert gated.requests() == []
    assert [kind for kind, _ in gated.events()].count("accept") == 1
    assert gated.value(REQUEST_ADMISSION, admission) == {
        "outcome": {**first, "status": "duplicate_exact"},
        "replayed": False,
    }


def test_a_waiting_request_for_admission_is_told_of_the_earlier_decision(world, agent):
    gated = world.caller(confirmation=ConfirmationSection(wait_seconds=60, require=("request_admission",)))
    candidate_id = agent.capture()
    waiting = Waiting(gated, REQUEST_ADMISSION, {"candidate_id": candidate_id, "idempotency_key": key()})
    request = request_of(gated)
    first = agent.admit(candidate_id)
    approve(gated, request.confirmation_id)
    assert waiting.answer()["output"]["value"]["outcome"] == {**first, "status": "duplicate_exact"}


def test_a_call_that_ran_without_a_request_ends_the_open_one(world, agent):
    # The host stopped asking for captures while one was open.
    gated = world.caller(confirmation=EVERYTHING)
    arguments = capture_arguments("both ways")
    request = asked(gated, CAPTURE, arguments)
    agent.value(CAPTURE, arguments)
    approve(gated, request.confirmation_id)
    assert gated.requests() == []
    assert [kind for kind, _ in gated.events()].count("capture") == 1


def test_a_policy_that_is_down_leaves_the_request_open(world):
    class Down:
        policy_id, policy_version = "down", "1"

        def decide(self, request: Any) -> Any:
            raise OSError

    agent = world.caller(confirmation=EVERYTHING, policy_port=Down())
    plain = world.caller()
    admission = {"candidate_id": plain.capture(), "idempotency_key": key()}
    request = asked(agent, REQUEST_ADMISSION, admission)
    with pytest.raises(PolicyUnavailable):
        approve(agent, request.confirmation_id)
    assert [each.confirmation_id for each in agent.requests()] == [request.confirmation_id]
    approve(plain, request.confirmation_id)
    assert agent.value(REQUEST_ADMISSION, admission)["outcome"]["status"] == "accepted"


# --- the host changed -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [{"granted": frozenset({WITHDRAW})}, {"enabled": False}, {"purposes": (PurposeSection(ref="purpose:another"),)}],
    ids=["not granted", "off", "purpose gone"],
)
def test_what_is_no_longer_allowed_cannot_be_approved(world, changes):
    agent = world.caller(confirmation=EVERYTHING)
    request = asked(agent, CAPTURE, capture_arguments("x"))
    changed = world.caller(**changes)
    with pytest.raises(Unauthorized):
        approve(changed, request.confirmation_id)
    assert "capture" not in {kind for kind, _ in agent.events()}
    assert agent.requests() == []
    assert_unreadable(agent, request)


# --- bounds ---------------------------------------------------------------------------------------


def test_open_requests_are_bounded(world, agent, monkeypatch):
    monkeypatch.setattr(limits, "OPEN_REQUESTS_MAX", 3)
    candidates = [agent.capture() for _ in range(4)]
    arguments = [withdrawal(candidate_id) for candidate_id in candidates]
    for each in arguments[:3]:
        asked(agent, WITHDRAW, each)
    before = agent.head
    assert agent.code(WITHDRAW, arguments[3]) == "RATE_LIMITED"
    assert agent.head == before
    assert agent.code(WITHDRAW, arguments[0]) == "gate_failed", "joining opens nothing"
    deny(agent, agent.requests()[0].confirmation_id)
    asked(agent, WITHDRAW, arguments[3])


def test_requests_whose_time_is_up_are_not_counted(world, agent, monkeypatch):
    monkeypatch.setattr(limits, "OPEN_REQUESTS_MAX", 3)
    candidates = [agent.capture() for _ in range(4)]
    for candidate_id in candidates[:3]:
        asked(agent, WITHDRAW, withdrawal(candidate_id))
    world.clock.advance(milliseconds=TTL)
    asked(agent, WITHDRAW, withdrawal(candidates[3]))


def test_a_refused_request_takes_no_data_key(world, agent, monkeypatch):
    monkeypatch.setattr(limits, "OPEN_REQUESTS_MAX", 0)
    candidate_id = agent.capture()
    for _ in range(80):
        assert agent.code(WITHDRAW, withdrawal(candidate_id)) == "RATE_LIMITED"
    slots = next(iter((world.path / "keys").glob("*.slots"))).stat().st_size
    assert slots == 512 + 64 * 128


def test_the_limit_is_64_requests_a_scope():
    assert limits.OPEN_REQUESTS_MAX == 64


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


# --- races ----------------------------------------------------------------------------------------


def decided_behind(agent: Caller, request: confirmation.Request, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a request be approved just before its key is asked for: its reader's view is older than the destruction."""
    keyring = agent.engine.journal.keyring
    opened: Callable[..., Any] = keyring.open

    def late(*given: Any) -> Any:
        monkeypatch.setattr(keyring, "open", opened)
        approve(agent, request.confirmation_id)
        return opened(*given)

    monkeypatch.setattr(keyring, "open", late)


def test_a_reader_that_a_decision_overtakes_sees_no_lost_content(agent, monkeypatch):
    request = asked(agent, WITHDRAW, withdrawal(agent.capture()))
    decided_behind(agent, request, monkeypatch)
    assert agent.requests() == []
    with pytest.raises(GateFailed):
        deny(agent, request.confirmation_id)


def test_content_that_is_truly_lost_is_said_to_be(agent, monkeypatch):
    asked(agent, WITHDRAW, withdrawal(agent.capture()))
    monkeypatch.setattr(agent.engine.journal.keyring, "open", lambda *_: None)
    with pytest.raises(BlobMissing):
        agent.requests()
