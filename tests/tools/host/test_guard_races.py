"""Idempotency under concurrency: one key makes one event, and who comes second takes nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from journal.scope import Scope
from tests.tools.host.replays import still
from tests.tools.memory.world import (
    SCOPE,
    World,
    capture_arguments,
    key,
)
from tools.host.capabilities import CAPTURE, REQUEST_ADMISSION

# --- concurrency ----------------------------------------------------------------------------------


def together(count: int, call: Callable[[int], dict[str, Any]]) -> list[dict[str, Any]]:
    answers: list[dict[str, Any]] = []
    gate = threading.Barrier(count)

    def run(number: int) -> None:
        gate.wait()
        answers.append(call(number))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == count
    return answers


def test_32_captures_with_one_key_make_one_event(agent):
    arguments = capture_arguments("crowded")
    answers = together(32, lambda _: agent.value(CAPTURE, arguments))
    assert agent.head == 1
    assert sorted(answer["status"] for answer in answers) == ["committed_pending"] + 31 * ["duplicate_exact"]
    assert len({str(still(answer)) for answer in answers}) == 1


def test_32_captures_of_32_contents_with_one_key_make_one_event(agent):
    used = key()
    answers = together(32, lambda number: agent.call(CAPTURE, capture_arguments(f"text {number}", used)))
    assert agent.head == 1
    codes = sorted("ok" if answer["ok"] else answer["error"]["code"] for answer in answers)
    assert codes == 31 * ["DIGEST_CONFLICT"] + ["ok"]


def test_32_requests_for_admission_with_one_key_make_one_event(agent):
    arguments = {"candidate_id": agent.capture(), "idempotency_key": key()}
    answers = together(32, lambda _: agent.value(REQUEST_ADMISSION, arguments))
    assert agent.head == 2
    assert [answer["replayed"] for answer in answers].count(False) == 1
    assert len({str(answer["outcome"]) for answer in answers}) == 1


def test_32_requests_for_admission_with_32_keys_make_one_decision(agent):
    candidate_id = agent.capture()
    answers = together(32, lambda _: agent.admit(candidate_id))
    assert agent.head == 2
    assert sorted(answer["status"] for answer in answers) == ["accepted"] + 31 * ["duplicate_exact"]
    assert len({answer["record_id"] for answer in answers}) == 1


def test_processes_with_one_key_make_one_event(world, agent):
    arguments = [capture_arguments(f"raced {number}") for number in range(20)]
    with world.second_process() as other:
        other.call(CAPTURE, capture_arguments("warm"))
        statuses = []
        for each in arguments:
            other.ask(CAPTURE, each)
            mine = agent.value(CAPTURE, each)
            theirs = other.answer()["output"]["value"]
            assert still(mine) == still(theirs)
            statuses.append({mine["status"], theirs["status"]})
    assert agent.head == 1 + len(arguments)
    assert all(each == {"committed_pending", "duplicate_exact"} for each in statuses)


def slot_count(world: World) -> int:
    """Return how many data keys of the scope were ever written: 64 ahead each time."""
    (file,) = (world.path / "keys").glob(f"{SCOPE.tag.hex()}.*.slots")
    return (file.stat().st_size - 512) // 128


def test_a_capture_that_is_overtaken_gives_its_key_back(world, agent, monkeypatch):
    # A data key under which nothing was stored serves the next capture: no slot is lost to a race.
    take_key = world.journal.take_key
    for number in range(40):
        arguments = capture_arguments(f"overtaken {number}")

        def overtaken(scope: Scope, arguments: dict[str, Any] = arguments) -> Any:
            taken = take_key(scope)
            monkeypatch.setattr(world.journal, "take_key", take_key)
            agent.value(CAPTURE, arguments)
            return taken

        monkeypatch.setattr(world.journal, "take_key", overtaken)
        assert agent.value(CAPTURE, arguments)["status"] == "duplicate_exact"
    assert agent.head == 40
    assert slot_count(world) == 64


def test_a_capture_that_comes_too_late_gives_its_key_back(world, agent):
    for _ in range(70):
        assert agent.code(CAPTURE, capture_arguments("late"), seconds=-1) == "DEADLINE_EXCEEDED"
    assert agent.head == 0
    assert slot_count(world) == 64
