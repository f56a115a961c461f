"""Erasure to the end: no mark is taken away before its key is gone, and nothing readable is left in any live file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from journal.errors import StoreUnavailable
from journal.events import Actor
from journal.lifecycle import Operation
from tests.tools.memory.world import SCOPE, Caller, World, withdrawal
from tools.host.capabilities import WITHDRAW
from tools.memory import sweeper as sweeping
from tools.memory import transition
from tools.memory.erasure import finish_erasures
from tools.memory.sweeper import Sweeper

SECRET_WORDS = ("zanzibar", "quokka", "한라봉")


def scan(path: Path, words: tuple[str, ...]) -> list[str]:
    """Return the words that some file of a store holds, in UTF-8 or UTF-16."""
    needles = [encoded for word in words for encoded in (word.encode(), word.encode("utf-16-le"))]
    return [
        f"{file.name}: {needle!r}"
        for file in path.rglob("*")
        if file.is_file()
        for needle in needles
        if needle in file.read_bytes()
    ]


def unfinished(agent: Caller) -> list[str]:
    """Return terminal subjects whose key is neither destroyed nor marked to be."""
    journal = agent.engine.journal
    with journal.store.view(SCOPE) as view:
        marked = {key_id for _, key_id in view.pending_destructions()}
        rows = [(name, row) for name, row in view.subjects() if name.startswith("candidate_")]
    return [
        name
        for name, row in rows
        if row.state in (2, 3, 9) and row.key_id not in marked and not journal.key_is_destroyed(SCOPE, name)
    ]


def test_a_forgetting_that_overtakes_an_erasure_keeps_its_mark(world, agent, monkeypatch):
    first, second = agent.capture("first"), agent.capture("second")
    for candidate_id in (first, second):
        agent.admit(candidate_id)
    agent.transit(first, Operation.TOMBSTONE)
    finish = world.journal.finish_destructions

    def overtaken(*given: Any, **more: Any) -> bool:
        done = finish(*given, **more)
        monkeypatch.setattr(world.journal, "finish_destructions", finish)
        agent.transit(second, Operation.TOMBSTONE)  # by a process that dies before it destroys the key
        return done

    monkeypatch.setattr(world.journal, "finish_destructions", overtaken)
    finish_erasures(agent.engine, SCOPE)
    assert unfinished(agent) == []
    assert finish_erasures(agent.engine, SCOPE)
    assert unfinished(agent) == []
    assert world.journal.key_is_destroyed(SCOPE, second)
    with world.journal.store.view(SCOPE) as view:
        assert view.pending_destructions() == []
        assert view.pending_erasures() == []


def test_no_file_holds_a_word_before_or_after_a_forgetting(world: World):
    agent = world.caller()
    record_id = agent.remember(" ".join(SECRET_WORDS))
    for word in SECRET_WORDS:
        assert agent.found(word) == [record_id]
    agent.found("an absent word")
    assert scan(world.path, SECRET_WORDS) == []
    agent.forget(record_id)
    assert scan(world.path, SECRET_WORDS) == []
    world.close()
    assert scan(world.path, SECRET_WORDS) == []
    assert scan(world.path, ("store.toml",)) == []
    world.restart()


def test_the_scan_finds_what_is_there(tmp_path):
    (tmp_path / "file").write_bytes(b"\0\1" + SECRET_WORDS[2].encode() + b"\0")
    assert len(scan(tmp_path, SECRET_WORDS)) == 1


def test_a_sweep_finishes_what_was_left(world, agent, monkeypatch):
    monkeypatch.setattr(transition, "erase_now", lambda _engine, _scope: None)
    record_id = agent.remember("left over")
    agent.forget(record_id)
    with world.journal.store.view(SCOPE) as view:
        assert len(view.pending_erasures()) == 1
    sweeper = Sweeper(agent.engine)
    try:
        sweeper.sweep()
    finally:
        sweeper.close()
    with world.journal.store.view(SCOPE) as view:
        assert view.pending_erasures() == []


@pytest.mark.parametrize("error", [StoreUnavailable("the disk is full"), ValueError("a fault of ours")])
@pytest.mark.parametrize("step", ["expire_requests", "finish_erasures"])
def test_a_step_that_fails_keeps_no_other_from_being_done(world, agent, monkeypatch, step, error):
    monkeypatch.setattr(transition, "erase_now", lambda _engine, _scope: None)
    agent.forget(agent.remember("left over"))
    agent.code(WITHDRAW, withdrawal(agent.capture()))
    world.clock.advance(milliseconds=300_000)
    monkeypatch.setattr(sweeping, step, raising(error))
    sweeper = Sweeper(agent.engine)
    sweeper.sweep()
    sweeper.close()
    with world.journal.store.view(SCOPE) as view:
        assert bool(view.open_requests()) is (step == "expire_requests")
        assert bool(view.pending_erasures()) is (step == "finish_erasures")


def raising(error: Exception) -> Callable[..., None]:
    def act(*_: Any, **__: Any) -> None:
        raise error

    return act


def test_an_erasure_is_complete_across_a_rotation_and_a_restart(world, agent):
    record_id = agent.remember("rotated")
    world.journal.rotate_keys(SCOPE, Actor("operator:tests"))
    agent.forget(record_id)
    world.restart()
    again = world.caller()
    assert unfinished(again) == []
    assert again.get(record_id)["error"]["code"] == "NOT_FOUND"
