"""Authorised at the start, looked at again just before the effect; and what a commit of unknown end answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from journal.errors import AuthorizationRevoked, MutationOutcomeUnknown
from tests.tools.host.asking import WAITING, Waiting, request_of
from tests.tools.memory.world import (
    PURPOSE,
    SCOPE,
    Caller,
    capture_arguments,
    forgetting,
    key,
    withdrawal,
)
from tools.host import confirmation
from tools.host.capabilities import (
    ALL_TOOLS,
    CAPTURE,
    FORGET,
    GET,
    MANAGE_KNOWLEDGE,
    MEMORY_STARTUP,
    REQUEST_ADMISSION,
    SAVE_MESSAGE,
    SEARCH,
    SEARCH_MEMORY,
    WITHDRAW,
)
from tools.memory import approval
from tools.memory.authority_orders import Orders

TTL = 300_000


def calls(agent: Caller) -> dict[str, dict[str, Any]]:
    """Return a call of every tool that would succeed, or open a request."""
    record_id = agent.remember("harvest")
    return {
        SEARCH: {"query": "harvest", "purpose_ref": PURPOSE},
        GET: {"record_id": record_id, "purpose_ref": PURPOSE},
        CAPTURE: capture_arguments("another"),
        REQUEST_ADMISSION: {"candidate_id": agent.capture("third"), "idempotency_key": key()},
        WITHDRAW: withdrawal(agent.capture("fourth")),
        FORGET: forgetting(record_id),
        SAVE_MESSAGE: {"message": "둘", "role": "user"},
        SEARCH_MEMORY: {"query": "하나"},
        MEMORY_STARTUP: {},
        MANAGE_KNOWLEDGE: {
            "action": "remove", "target": "memory", "erase": True,
            "memory_id": agent.value(SAVE_MESSAGE, {"message": "하나", "role": "user"})["id"],
        },
    }  # fmt: skip


REVOKING = {
    "revoked": lambda orders, tool: orders.revoke("principal:one", [tool], by_file=ALL_TOOLS),
    "rotated": lambda orders, tool: orders.raise_epoch(),
    "opted out": lambda orders, tool: orders.opt(enabled=False),
    "another's": lambda orders, tool: orders.revoke("principal:two", [tool], by_file=ALL_TOOLS),
}
"""What voids receipts. Revoking another principal's grant does too: an epoch is the scope's."""


def between(agent: Caller, monkeypatch: pytest.MonkeyPatch, do: Callable[[Orders], object]) -> None:
    """Let an order be carried out between the first look at the caller's authority and the second."""
    permitted = agent.engine.authority.permitted

    def once(*given: Any) -> int:
        epoch = permitted(*given)
        monkeypatch.setattr(agent.engine.authority, "permitted", permitted)
        do(Orders(agent.engine, agent.scope, "tests"))
        return epoch

    monkeypatch.setattr(agent.engine.authority, "permitted", once)


@pytest.mark.parametrize("how", REVOKING)
@pytest.mark.parametrize("tool", [SEARCH, GET, CAPTURE, REQUEST_ADMISSION, SAVE_MESSAGE, SEARCH_MEMORY, MEMORY_STARTUP])
def test_a_revocation_during_the_call_is_seen_before_its_effect(agent, monkeypatch, tool, how):
    arguments = calls(agent)[tool]
    before = agent.head
    between(agent, monkeypatch, lambda orders: REVOKING[how](orders, tool))
    assert agent.code(tool, arguments) == "AUTHORIZATION_REVOKED"
    assert agent.head == before + 1, "the order's own event and no other"
    if how == "revoked":
        Orders(agent.engine, SCOPE, "tests").grant("principal:one", [tool])
    elif how == "opted out":
        Orders(agent.engine, SCOPE, "tests").opt(enabled=True)
    assert agent.code(tool, arguments) == "ok"


@pytest.mark.parametrize("how", REVOKING)
@pytest.mark.parametrize("tool", [WITHDRAW, FORGET, MANAGE_KNOWLEDGE])
def test_a_revocation_is_seen_before_a_confirmed_effect(agent, monkeypatch, tool, how):
    arguments = calls(agent)[tool]
    assert agent.code(tool, arguments) == "gate_failed"
    (request,) = agent.requests()
    before = agent.head
    between(agent, monkeypatch, lambda orders: REVOKING[how](orders, tool))
    with pytest.raises(AuthorizationRevoked):
        approval.approve(agent.engine, SCOPE, request.confirmation_id, "operator")
    assert [kind for kind, _ in agent.events()][before + 1 :] == ["confirmation_expired", "erasure_done"]


@pytest.mark.parametrize("tool", [WITHDRAW, FORGET, MANAGE_KNOWLEDGE])
def test_no_request_opens_for_what_was_revoked_meanwhile(agent, monkeypatch, tool):
    arguments = calls(agent)[tool]
    before = agent.head
    between(agent, monkeypatch, lambda orders: orders.raise_epoch())
    assert agent.code(tool, arguments) == "AUTHORIZATION_REVOKED"
    assert agent.head == before + 1
    assert agent.requests() == []


@pytest.mark.parametrize("tool", [WITHDRAW, FORGET, MANAGE_KNOWLEDGE])
def test_what_was_revoked_since_it_was_asked_for_cannot_be_approved(agent, tool):
    assert agent.code(tool, calls(agent)[tool]) == "gate_failed"
    (request,) = agent.requests()
    Orders(agent.engine, SCOPE, "tests").revoke("principal:one", [tool], by_file=ALL_TOOLS)
    before = agent.head
    with pytest.raises(AuthorizationRevoked):
        approval.approve(agent.engine, SCOPE, request.confirmation_id, "operator")
    assert [kind for kind, _ in agent.events()][before:] == ["confirmation_expired", "erasure_done"]


@pytest.mark.parametrize("granted_again", [False, True])
@pytest.mark.parametrize("tool", [WITHDRAW, FORGET, MANAGE_KNOWLEDGE])
def test_what_was_asked_for_under_an_earlier_epoch_cannot_be_approved(agent, tool, granted_again):
    arguments = calls(agent)[tool]
    assert agent.code(tool, arguments) == "gate_failed"
    (request,) = agent.requests()
    orders = Orders(agent.engine, SCOPE, "tests")
    if granted_again:
        orders.revoke("principal:one", [tool], by_file=ALL_TOOLS)
        orders.grant("principal:one", [tool])
    else:
        orders.raise_epoch()
    before = agent.head
    assert agent.requests() == [], "what nobody may approve waits for nobody"
    for _ in range(2):
        with pytest.raises(AuthorizationRevoked, match="may ask anew"):
            approval.approve(agent.engine, SCOPE, request.confirmation_id, "operator")
    assert [kind for kind, _ in agent.events()][before:] == ["confirmation_expired", "erasure_done"]
    assert agent.code(tool, arguments) == "gate_failed"
    (anew,) = agent.requests()
    assert anew.confirmation_id != request.confirmation_id
    approval.approve(agent.engine, SCOPE, anew.confirmation_id, "operator")
    assert agent.call(tool, arguments)["ok"]


@pytest.mark.parametrize("tool", [WITHDRAW, FORGET, MANAGE_KNOWLEDGE])
def test_a_call_that_waits_for_a_person_is_told_that_the_epoch_was_raised(world, tool):
    agent = world.caller(confirmation=WAITING)
    waiting = Waiting(agent, tool, calls(agent)[tool])
    request = request_of(agent)
    before = agent.head
    Orders(agent.engine, SCOPE, "tests").raise_epoch()
    assert waiting.answer()["error"]["code"] == "AUTHORIZATION_REVOKED"
    assert {kind for kind, _ in agent.events()[before:]} == {"epoch", "confirmation_expired", "erasure_done"}
    with pytest.raises(AuthorizationRevoked):
        approval.approve(agent.engine, SCOPE, request.confirmation_id, "operator")


def test_a_call_that_waits_is_told_so_too_where_another_has_ended_its_request(world):
    agent = world.caller(confirmation=WAITING)
    waiting = Waiting(agent, FORGET, forgetting(agent.remember("harvest")))
    request_of(agent)
    Orders(agent.engine, SCOPE, "tests").raise_epoch()
    confirmation.expire_requests(agent.engine, SCOPE)
    assert waiting.answer()["error"]["code"] == "AUTHORIZATION_REVOKED"


def test_an_upkeep_of_messages_is_revoked_too(agent, monkeypatch):
    message_id = agent.value(SAVE_MESSAGE, {"message": "하나", "role": "user"})["id"]
    before = agent.head
    between(agent, monkeypatch, lambda orders: orders.raise_epoch())
    arguments = {"action": "remove", "target": "memory", "memory_id": message_id}
    assert agent.code(MANAGE_KNOWLEDGE, arguments) == "AUTHORIZATION_REVOKED"
    assert agent.head == before + 1


@pytest.mark.parametrize("tool", [SEARCH, GET, CAPTURE])
@pytest.mark.parametrize(("age", "code"), [(TTL - 1, "ok"), (TTL, "AUTHORIZATION_EXPIRED")])
def test_an_authorization_lives_for_less_than_300_seconds(world, agent, monkeypatch, tool, age, code):
    arguments = calls(agent)[tool]

    read = world.clock.now
    reads: list[int] = []

    def now() -> int:
        reads.append(1)
        if len(reads) == 3:  # the list's, the call's one instant; the next is the look before the effect
            world.clock.advance(milliseconds=age)
        return read()

    monkeypatch.setattr(world.clock, "now", now)
    assert agent.code(tool, arguments) == code


def test_a_commit_whose_end_is_unknown_is_made_clear_by_its_retry(world, agent, monkeypatch):
    for committed in (True, False):
        arguments = capture_arguments(f"unknown {committed}")
        commit = world.journal.store.commit

        def lost(*given: Any, commit: Any = commit, committed: bool = committed, **more: Any) -> Any:
            if committed:
                commit(*given, **more)
            raise MutationOutcomeUnknown("the process was lost during the commit")

        with monkeypatch.context() as patch:
            patch.setattr(world.journal.store, "commit", lost)
            document = agent.call(CAPTURE, arguments)
        assert (document["error"]["code"], document["error"]["retriable"]) == ("MUTATION_OUTCOME_UNKNOWN", True)
        status = agent.value(CAPTURE, arguments)["status"]
        assert status == ("duplicate_exact" if committed else "committed_pending")
    assert agent.head == 2


def test_a_data_key_is_not_used_again_after_an_unknown_commit(world, agent, monkeypatch):
    commit = world.journal.store.commit

    def lost(*given: Any, **more: Any) -> Any:
        commit(*given, **more)
        raise MutationOutcomeUnknown("the process was lost during the commit")

    candidate_id = agent.capture("zero")
    with monkeypatch.context() as patch:
        patch.setattr(world.journal.store, "commit", lost)
        assert agent.code(CAPTURE, capture_arguments("one")) == "MUTATION_OUTCOME_UNKNOWN"
        assert agent.code(WITHDRAW, withdrawal(candidate_id)) == "MUTATION_OUTCOME_UNKNOWN"
    agent.capture("two")
    agent.code(WITHDRAW, withdrawal(agent.capture("three")))
    keys = [event.header.key_id for event in world.journal.store.read(SCOPE, 0, 100) if event.header.key_id]
    assert len(keys) == len(set(keys)) == 6
