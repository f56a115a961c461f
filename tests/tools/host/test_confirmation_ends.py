"""How a confirmation request ends: approved, denied, expired; and that nothing readable is left of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from journal.clock import instant
from journal.errors import (
    BlobMissing,
    EngramError,
    GateFailed,
)
from journal.lifecycle import State
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
    SCOPE,
    Caller,
    capture_arguments,
    forgetting,
    withdrawal,
)
from tools.host import confirmation
from tools.host.capabilities import CAPTURE, FORGET, WITHDRAW
from tools.host.requests import Request
from tools.host.sections import ConfirmationSection

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


# --- races ----------------------------------------------------------------------------------------


def decided_behind(agent: Caller, request: Request, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_waiting_call_that_the_approval_overtakes_gets_its_result(world, monkeypatch):
    agent = world.caller(confirmation=WAITING)
    keyring = world.journal.keyring
    opened: Callable[..., Any] = keyring.open

    def late(*given: Any) -> Any:
        monkeypatch.setattr(keyring, "open", opened)
        approve(agent, agent.requests()[0].confirmation_id)
        return opened(*given)

    arguments = withdrawal(agent.capture())
    monkeypatch.setattr(keyring, "open", late)
    assert agent.value(WITHDRAW, arguments)["receipt"]["to_state"] == "withdrawn"


def test_a_request_whose_key_is_lost_is_listed_as_unreadable_and_cannot_be_approved(agent, monkeypatch):
    asked(agent, WITHDRAW, withdrawal(agent.capture()))
    monkeypatch.setattr(agent.engine.journal.keyring, "open", lambda *_: None)
    (request,) = agent.requests()
    assert (request.readable, request.capability, request.arguments) == (False, "(unreadable)", {})
    with pytest.raises(BlobMissing):
        approve(agent, request.confirmation_id)
    monkeypatch.undo()
    assert agent.requests()[0].readable


def test_a_request_whose_key_is_lost_keeps_no_other_from_ending(world, agent, monkeypatch):
    lost, kept = agent.capture(), agent.capture()
    arguments = withdrawal(lost)
    broken = asked(agent, WITHDRAW, arguments)
    asked(agent, WITHDRAW, withdrawal(kept))
    keyring = agent.engine.journal.keyring
    opened = keyring.open

    def losing(scope: Any, key_id: bytes, slot: int) -> Any:
        return None if key_id == broken.header.key_id else opened(scope, key_id, slot)

    monkeypatch.setattr(keyring, "open", losing)
    assert [request.readable for request in agent.requests()] == [False, True]
    assert asked(agent, WITHDRAW, arguments).confirmation_id != broken.confirmation_id  # the lost one is no request
    assert broken.confirmation_id not in [request.confirmation_id for request in agent.requests()]
    world.clock.advance(seconds=301)
    assert confirmation.expire_requests(agent.engine, SCOPE) == 2
    assert agent.requests() == []
