"""What changes between a request and its approval; captures and admissions that need one; bounds."""

from __future__ import annotations

from typing import Any

import pytest

from journal import limits
from journal.clock import instant
from journal.errors import (
    AlreadyTerminal,
    EngramError,
    IllegalTransition,
    PolicyUnavailable,
    Unauthorized,
)
from journal.lifecycle import Operation
from tests.tools.host.asking import (
    EVERYTHING,
    TTL,
    WAITING,
    Waiting,
    approve,
    asked,
    assert_unreadable,
    deny,
    request_of,
    states,
)
from tests.tools.memory.world import (
    NOW,
    capture_arguments,
    forgetting,
    key,
    withdrawal,
)
from tools.host.capabilities import CAPTURE, FORGET, REQUEST_ADMISSION, WITHDRAW
from tools.host.sections import ConfirmationSection, PurposeSection

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
