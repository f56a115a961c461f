"""Forgettings of a large scope gather, within stated bounds, so that one compaction serves many."""

from __future__ import annotations

import pytest

from journal import limits
from tests.tools.memory.world import SCOPE
from tools.memory.erasure import Gathering
from tools.memory.sweeper import Sweeper


@pytest.fixture
def sweeper(agent, monkeypatch):
    """A sweeper over a scope that counts as large; only calls of ``sweep`` make it work."""
    monkeypatch.setattr(limits, "ERASURE_INLINE_MAX_EVENTS", 0)
    made = Sweeper(agent.engine)
    made.close()
    return made


def generation(agent):
    with agent.engine.projections(SCOPE).snapshot() as snapshot:
        return int(snapshot.generation("lexical"))


def pending(world):
    with world.journal.store.view(SCOPE) as view:
        return len(view.pending_erasures())


def test_a_hundred_forgettings_make_one_compaction(world, agent, sweeper, monkeypatch):
    records = [agent.remember(f"number {number}") for number in range(100)]
    agent.found("number")
    before = generation(agent)
    for number, record_id in enumerate(records):
        assert agent.forget(record_id)["projection_invalidation"] == "pending"
        if number % 10 == 0:
            sweeper.sweep()
    assert (pending(world), generation(agent)) == (100, before)
    assert all(world.journal.key_is_destroyed(SCOPE, name) for _, name in waiting(world)), "keys wait for nothing"
    monkeypatch.setattr(limits, "ERASURE_GATHER_SECONDS", 0)
    sweeper.sweep()
    assert (pending(world), generation(agent)) == (0, before + 1)


def waiting(world):
    with world.journal.store.view(SCOPE) as view:
        return view.pending_erasures()


def test_many_wait_no_longer(world, agent, sweeper, monkeypatch):
    monkeypatch.setattr(limits, "ERASURE_GATHER_MAX", 3)
    for number in range(3):
        sweeper.sweep()
        assert pending(world) == number
        agent.forget(agent.remember(f"number {number}"))
    sweeper.sweep()
    assert pending(world) == 0


def test_each_gathering_has_its_own_time(agent, sweeper):
    now = [1_000.0]
    due = Gathering(lambda: now[0]).is_due
    agent.remember("what makes the scope a large one")
    assert not due(agent.engine, SCOPE)
    now[0] += 100
    assert not due(agent.engine, SCOPE), "nothing waited all that time"
    agent.forget(agent.remember("one"))
    assert not due(agent.engine, SCOPE)
    now[0] += limits.ERASURE_GATHER_SECONDS - 1
    assert not due(agent.engine, SCOPE)
    now[0] += 1
    assert due(agent.engine, SCOPE)


def test_the_bounds_fit_each_other():
    assert limits.ERASURE_GATHER_SECONDS + limits.SWEEP_INTERVAL_SECONDS < limits.ERASURE_BOUND_SECONDS
