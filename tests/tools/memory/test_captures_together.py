"""Captures of many callers at once: prepared and committed together, each with an answer of its own."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from journal.errors import DeadlineExceeded
from tests.tools.memory.test_stopped_writer import stopped
from tests.tools.memory.world import SCOPE, capture_arguments
from tools.host.capabilities import CAPTURE, FORGET, REQUEST_ADMISSION, WITHDRAW
from tools.memory.capture import Capture
from tools.memory.gathered import is_gathered, run_gathered


def call_of(agent):
    return agent.engine.call_of(agent.engine.binding.actor(), agent.engine.binding.principal, agent.scope)


def test_each_of_many_gets_its_own_answer(agent):
    def capture(number):
        return agent.value(CAPTURE, capture_arguments(f"text {number}"))

    with ThreadPoolExecutor(64) as callers:
        answers = list(callers.map(capture, range(256)))
    assert agent.head == 256
    assert {answer["status"] for answer in answers} == {"committed_pending"}
    assert len({answer["candidate_id"] for answer in answers}) == 256
    assert {int(answer["cursor"]) for answer in answers} == set(range(1, 257))


def test_one_that_is_refused_harms_none_of_the_others(agent):
    def capture(number):
        arguments = capture_arguments(f"text {number}")
        if number % 2:
            arguments["payload"]["primary_component_id"] = "component:none"
        return agent.code(CAPTURE, arguments)

    with ThreadPoolExecutor(32) as callers:
        codes = list(callers.map(capture, range(64)))
    assert codes == 32 * ["ok", "INVALID_SCHEMA"]
    assert agent.head == 32


def test_what_needs_no_lock_is_answered_while_another_process_keeps_it(world, agent):
    known = capture_arguments("known")
    first = agent.value(CAPTURE, known)
    conflicting = {**capture_arguments("other"), "idempotency_key": known["idempotency_key"]}
    broken = capture_arguments("broken") | {"idempotency_key": "short"}
    with stopped(world):
        again = agent.value(CAPTURE, known)
        assert agent.code(CAPTURE, conflicting) == "DIGEST_CONFLICT"
        assert agent.code(CAPTURE, broken) == "INVALID_SCHEMA"
    assert again == {**first, "status": "duplicate_exact"}
    assert agent.head == 1


def test_a_call_that_was_given_up_before_it_was_prepared_writes_nothing(agent):
    cancelled = threading.Event()
    cancelled.set()
    assert agent.code(CAPTURE, capture_arguments("cancelled"), cancelled=cancelled) == "CANCELLED"
    assert agent.head == 0


def test_a_caller_that_leaves_while_it_is_prepared_gives_its_key_back(world, agent):
    """Its deadline passes while the writer seals for it: the key is given back once that is done."""
    agent.capture("first")
    preparing, left, over = threading.Event(), threading.Event(), threading.Event()
    call = call_of(agent)

    class Slow(Capture):
        def prepare(self):
            preparing.set()
            left.wait()
            super().prepare()

        def abandon(self):
            super().abandon()
            if preparing.is_set() and not left.is_set():
                left.set()
            else:
                over.set()

    def commit(scope, decide, *, deadline, prepare):
        thread = threading.Thread(target=prepare)
        thread.start()
        preparing.wait()
        raise DeadlineExceeded("while it was prepared")

    world_commit = agent.engine.journal.commit
    agent.engine.journal.commit = commit
    try:
        with pytest.raises(DeadlineExceeded):
            run_gathered(agent.engine, call, lambda: Slow(agent.engine, call, capture_arguments("left")))
    finally:
        agent.engine.journal.commit = world_commit
    assert over.wait(10)
    assert world.journal.take_key(SCOPE).slot == 1


def test_what_may_wait_for_somebody_is_prepared_by_its_own_caller(world, agent):
    call = call_of(agent)
    assert is_gathered(agent.engine, call, CAPTURE)
    assert not any(is_gathered(agent.engine, call, tool) for tool in (REQUEST_ADMISSION, WITHDRAW, FORGET))
    agent.engine.verifier = object()
    assert not is_gathered(agent.engine, call, CAPTURE)


def test_a_key_of_a_retry_is_not_used_up(world, agent):
    arguments = capture_arguments("again")
    agent.value(CAPTURE, arguments)
    for _ in range(3):
        assert agent.value(CAPTURE, arguments)["status"] == "duplicate_exact"
    assert world.journal.take_key(SCOPE).slot == 1
