"""Authorised at the start, looked at again just before the effect; and what a commit of unknown end answers."""

from __future__ import annotations

from typing import Any

import pytest

from journal.errors import AuthorizationRevoked, MutationOutcomeUnknown
from tests.tools.memory.world import (
    PURPOSE,
    SCOPE,
    Caller,
    capture_arguments,
    forgetting,
    key,
    withdrawal,
)
from tools.host.capabilities import CAPTURE, FORGET, GET, REQUEST_ADMISSION, SEARCH, WITHDRAW
from tools.memory import approval

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
    }


def revoked_between(agent: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the scope's authority be revoked between the first look at it and the second."""
    looked: list[int] = []

    def epoch(_: object) -> int:
        looked.append(1)
        return int(len(looked) > 1)

    monkeypatch.setattr(agent.engine, "epoch", epoch)


@pytest.mark.parametrize("tool", [SEARCH, GET, CAPTURE, REQUEST_ADMISSION])
def test_a_revocation_during_the_call_is_seen_before_its_effect(world, agent, monkeypatch, tool):
    arguments = calls(agent)[tool]
    before = agent.head
    with monkeypatch.context() as patch:
        revoked_between(agent, patch)
        assert agent.code(tool, arguments) == "AUTHORIZATION_REVOKED"
    assert agent.head == before
    assert agent.code(tool, arguments) == "ok"


@pytest.mark.parametrize("tool", [WITHDRAW, FORGET])
def test_a_revocation_is_seen_before_a_confirmed_effect(world, agent, monkeypatch, tool):
    arguments = calls(agent)[tool]
    assert agent.code(tool, arguments) == "gate_failed"
    (request,) = agent.requests()
    before = agent.head
    revoked_between(agent, monkeypatch)
    with pytest.raises(AuthorizationRevoked):
        approval.approve(agent.engine, SCOPE, request.confirmation_id, "operator")
    assert [kind for kind, _ in agent.events()][before:] == ["confirmation_expired", "erasure_done"]


@pytest.mark.parametrize("tool", [SEARCH, GET, CAPTURE])
@pytest.mark.parametrize(("age", "code"), [(TTL - 1, "ok"), (TTL, "AUTHORIZATION_EXPIRED")])
def test_an_authorization_lives_for_less_than_300_seconds(world, agent, monkeypatch, tool, age, code):
    arguments = calls(agent)[tool]

    read = world.clock.now
    reads: list[int] = []

    def now() -> int:
        reads.append(1)
        if len(reads) == 2:  # the call's one instant was the first; the next is the look before the effect
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
