"""Idempotency (CONTRACT 6): the first result whatever became of clock, process and keys; one key, one operation."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from blake3 import blake3

from journal.clock import instant
from journal.errors import DigestConflict
from journal.events import Actor
from journal.lifecycle import Operation as LifecycleOperation
from tests.tools.host.replays import MINUTE, still
from tests.tools.memory.world import (
    NOW,
    OTHER,
    SCOPE,
    SECOND,
    Caller,
    capture_arguments,
    changed,
    forgetting,
    key,
    nfd,
    withdrawal,
)
from tools.host.capabilities import CAPTURE, FORGET, REQUEST_ADMISSION, WITHDRAW
from tools.host.guard import Operation, operation_of, replayed


@dataclass
class Done:
    """Calls that were made, each with its first result."""

    calls: list[tuple[str, dict[str, Any], dict[str, Any]]]
    events: int


def all_done(agent: Caller) -> Done:
    calls: list[tuple[str, dict[str, Any], dict[str, Any]]] = []

    def do(tool: str, arguments: dict[str, Any], *, confirmed: bool = False) -> dict[str, Any]:
        value = agent.confirmed(tool, arguments) if confirmed else agent.value(tool, arguments)
        calls.append((tool, arguments, value))
        return value

    expiring = {"expires_at": instant(NOW + MINUTE // 2)}
    candidate_id = do(CAPTURE, capture_arguments("first", retention=expiring))["candidate_id"]
    outcome = do(REQUEST_ADMISSION, {"candidate_id": candidate_id, "idempotency_key": key()})["outcome"]
    do(FORGET, forgetting(outcome["record_id"]), confirmed=True)
    second = do(CAPTURE, capture_arguments("second", retention=expiring))["candidate_id"]
    do(WITHDRAW, withdrawal(second), confirmed=True)
    third = do(CAPTURE, capture_arguments("first", retention=expiring))["candidate_id"]
    do(REQUEST_ADMISSION, {"candidate_id": third, "idempotency_key": key()})  # pending_adjudication
    return Done(calls, agent.head)


def assert_replayed(done: Done, call: Callable[[str, dict[str, Any]], dict[str, Any]]) -> None:
    for tool, arguments, first in done.calls:
        document = call(tool, arguments)
        assert document["ok"], (tool, document)
        value = document["output"]["value"]
        assert still(value) == still(first), tool
        if tool == CAPTURE:
            assert value["status"] == "duplicate_exact"
        else:
            assert value["replayed"] is True


def test_a_retry_at_once_and_a_minute_and_ten_years_later(world, agent):
    done = all_done(agent)
    for later in (0, MINUTE, 3_650 * 86_400_000):
        world.clock.advance(milliseconds=later)
        assert_replayed(done, agent.call)
    assert agent.head == done.events


def test_a_retry_after_a_restart(world, agent):
    done = all_done(agent)
    world.clock.advance(milliseconds=MINUTE)
    world.restart()
    again = world.caller()
    assert_replayed(done, again.call)
    assert again.head == done.events


def test_a_retry_from_a_second_process(world, agent):
    done = all_done(agent)
    with world.second_process() as other:
        assert_replayed(done, lambda tool, arguments: other.call(tool, arguments, now=NOW + MINUTE))
    assert agent.head == done.events


def test_a_retry_after_the_keys_were_rotated(world, agent):
    done = all_done(agent)
    for _ in range(2):
        world.journal.rotate_keys(SCOPE, Actor("operator:tests"))
    assert_replayed(done, agent.call)
    world.restart()
    again = world.caller()
    assert_replayed(done, again.call)
    assert again.head == done.events + 2


def test_a_retry_under_a_host_that_has_become_stricter(world, agent):
    done = all_done(agent)
    stricter = world.caller(
        retention_ceiling_milliseconds=1,
        packet_cap_bytes=4_096,
        families=frozenset(),
        policy="adjudicate",
    )
    assert_replayed(done, stricter.call)
    assert stricter.head == done.events


def test_a_retry_of_other_spelling_is_the_same_content(agent):
    arguments = capture_arguments("spelling")
    first = agent.value(CAPTURE, arguments)
    backwards = {name: arguments[name] for name in reversed(arguments)}
    backwards["payload"] = {name: arguments["payload"][name] for name in reversed(arguments["payload"])}
    assert still(agent.value(CAPTURE, backwards)) == still(first)


# --- another content, target or tool --------------------------------------------------------------

OTHER_CONTENT: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "text": lambda document: changed(document, "payload.components.0.text", "카페가 열렸다."),
    "normal form": lambda document: changed(document, "payload.components.0.text", nfd("카페")),
    "space": lambda document: changed(document, "payload.components.0.text", "카페 "),
    "kind": lambda document: changed(document, "payload.components.0.kind", "context"),
    "time": lambda document: changed(document, "payload.valid_time.t", 1),
    "end": lambda document: changed(document, "payload.valid_time.t_end", NOW),
    "purpose": lambda document: changed(document, "payload.purpose_ref", SECOND),
    "retention said": lambda document: changed(document, "payload.retention", {"derivative_rule": "make-ineligible"}),
    "families said": lambda document: changed(document, "payload.reconciliation", {"family_refs": []}),
    "locator": lambda document: changed(document, "payload.citations.0.locator.value", "9"),
    "evidence": lambda document: changed(document, "evidence.evidence_ref", "evidence:other"),
    "attestation": lambda document: changed(document, "evidence.attestation", ""),
}


@pytest.mark.parametrize("what", OTHER_CONTENT)
def test_another_content_under_a_used_key_is_a_conflict(agent, what):
    arguments = capture_arguments("카페")
    agent.value(CAPTURE, arguments)
    before = agent.head
    assert agent.code(CAPTURE, OTHER_CONTENT[what](arguments)) == "DIGEST_CONFLICT"
    assert agent.head == before
    assert agent.value(CAPTURE, arguments)["status"] == "duplicate_exact"


def test_a_key_serves_one_tool_one_target_and_one_content(agent):
    done = all_done(agent)
    targets = {"candidate_id": "candidate_" + 64 * "c", "record_id": "mem_" + 52 * "c", "reason_ref": "reason:other"}
    whole = capture_arguments("another")
    for tool, arguments, _ in done.calls:
        used = {"idempotency_key": arguments["idempotency_key"]}
        others: list[tuple[str, dict[str, Any]]] = [
            (name, {**arguments, name: targets[name]}) for name in arguments if name in targets
        ]
        for _, changed_arguments in others:
            assert agent.code(tool, changed_arguments) == "DIGEST_CONFLICT"
        target = targets["candidate_id"]
        for other_tool, other_arguments in (
            (CAPTURE, {**whole, **used}),
            (REQUEST_ADMISSION, {"candidate_id": arguments.get("candidate_id", target), **used}),
            (WITHDRAW, {"candidate_id": arguments.get("candidate_id", target), "reason_ref": "reason:asked", **used}),
            (FORGET, {"record_id": arguments.get("record_id", targets["record_id"]), "reason_ref": "reason:x", **used}),
        ):
            if other_tool != tool:
                assert agent.code(other_tool, other_arguments) == "DIGEST_CONFLICT", (tool, other_tool)
    assert agent.head == done.events
    assert agent.requests() == []


# --- what reserves a key, and for whom ------------------------------------------------------------


def test_a_key_is_one_principals_and_one_scopes(world, agent):
    arguments = capture_arguments("shared")
    first = agent.value(CAPTURE, arguments)
    second = world.caller(principal="principal:two").value(CAPTURE, arguments)
    third = world.caller(OTHER).value(CAPTURE, arguments)
    values = [first, second, third]
    assert [value["status"] for value in values] == 3 * ["committed_pending"]
    assert len({value["candidate_id"] for value in values}) == 3
    assert world.caller(principal="principal:two").code(CAPTURE, changed(arguments, "payload.valid_time.t", 1)) == (
        "DIGEST_CONFLICT"
    )


def test_an_agents_id_and_session_are_not_part_of_the_identity(world, agent):
    arguments = capture_arguments("whoever")
    first = agent.value(CAPTURE, arguments)
    assert still(world.caller(agent_id="agent:other").value(CAPTURE, arguments)) == still(first)


def test_a_refused_call_reserves_nothing(world, agent):
    used = key()
    candidate_id = agent.capture()
    refusals = [
        (agent, REQUEST_ADMISSION, {"candidate_id": "candidate_" + 64 * "0", "idempotency_key": used}),
        (agent, WITHDRAW, withdrawal(candidate_id, used)),
        (agent, FORGET, forgetting("mem_" + 52 * "a", used)),
        (agent, CAPTURE, capture_arguments("x", used, retention={"derivative_rule": "retain"})),
        (agent, CAPTURE, capture_arguments("x", used, retention={"expires_at": instant(NOW)})),
    ]
    for caller, tool, arguments in refusals:
        assert caller.code(tool, arguments) not in ("ok", "DIGEST_CONFLICT")
    assert agent.value(CAPTURE, capture_arguments("y", used))["status"] == "committed_pending"


def test_a_duplicate_under_a_new_key_reserves_nothing(agent):
    candidate_id = agent.capture()
    first = agent.admit(candidate_id)
    used = key()
    again = agent.value(REQUEST_ADMISSION, {"candidate_id": candidate_id, "idempotency_key": used})
    assert again == {"outcome": {**first, "status": "duplicate_exact"}, "replayed": False}
    assert agent.value(CAPTURE, capture_arguments("z", used))["status"] == "committed_pending"


def test_pending_adjudication_is_replayed_under_its_key_and_asked_again_under_another(world, agent):
    careful = world.caller(policy="adjudicate")
    candidate_id = careful.capture()
    asked = {"candidate_id": candidate_id, "idempotency_key": key()}
    first = careful.value(REQUEST_ADMISSION, asked)
    assert first["outcome"]["status"] == "pending_adjudication"
    assert careful.value(REQUEST_ADMISSION, asked) == {**first, "replayed": True}
    agent.admit(candidate_id)  # as if a person had decided
    assert careful.value(REQUEST_ADMISSION, asked) == {**first, "replayed": True}
    again = careful.value(REQUEST_ADMISSION, {**asked, "idempotency_key": key()})
    assert again["outcome"]["status"] == "duplicate_exact"
    assert again["outcome"]["record_id"].startswith("mem_")


def test_a_duplicate_tells_the_first_decision_whatever_became_of_the_record(agent):
    candidate_id = agent.capture()
    first = agent.admit(candidate_id)
    agent.transit(candidate_id, LifecycleOperation.EXPIRE)
    agent.forget(first["record_id"])
    assert agent.admit(candidate_id) == {**first, "status": "duplicate_exact"}


# --- the guard itself -----------------------------------------------------------------------------


def test_the_key_is_stored_nowhere(world, agent):
    used = "an idempotency key that nobody else uses"
    agent.value(CAPTURE, capture_arguments("hidden", used))
    agent.code(WITHDRAW, withdrawal(agent.capture(), used + "2"))
    world.close()
    digests = [used.encode(), hashlib.sha256(used.encode()).digest(), blake3(used.encode()).digest()]
    digests += [digest.hex().encode() for digest in digests]
    for file in world.path.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            assert not any(digest in content for digest in digests), file
    world.restart()


def test_an_operation_is_what_is_done_and_not_when(world):
    def operation(**changes: Any) -> Operation:
        made: dict[str, Any] = {"scope": SCOPE, "principal": "p", "tool": CAPTURE, "idempotency_key": "k" * 16}
        return operation_of(world.journal, **{**made, "target": None, "content": {"a": 1}, **changes})

    base = operation()
    world.clock.advance(milliseconds=MINUTE)
    assert operation() == base
    assert operation(idempotency_key="l" * 16).event_id != base.event_id
    assert operation(principal="q").event_id != base.event_id
    assert operation(scope=OTHER).event_id != base.event_id
    for change in ({"tool": FORGET}, {"target": "t"}, {"content": {"a": 2}}):
        other = operation(**change)
        assert other.event_id == base.event_id
        assert other.intent != base.intent
        assert other.request_id != base.request_id
        assert other.digest != base.digest
    assert len(base.event_id) == len(base.intent) == len(base.request_id) == 32


def test_replayed_finds_the_event_or_refuses(world, agent):
    arguments = capture_arguments("guarded")
    content = {"payload": arguments["payload"], "evidence": arguments["evidence"]}
    mine = operation_of(world.journal, SCOPE, "principal:one", CAPTURE, arguments["idempotency_key"], None, content)
    other = operation_of(world.journal, SCOPE, "principal:one", CAPTURE, arguments["idempotency_key"], None, {})
    with world.journal.store.view(SCOPE) as view:
        assert replayed(view, mine) is None
        assert replayed(view, other) is None
    agent.value(CAPTURE, arguments)
    with world.journal.store.view(SCOPE) as view:
        found = replayed(view, mine)
        assert found is not None
        assert found.header.event_id == mine.event_id
        with pytest.raises(DigestConflict):
            replayed(view, other)
    with world.journal.store.view(OTHER) as view:
        assert replayed(view, mine) is None
