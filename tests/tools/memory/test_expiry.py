"""Records whose time has passed get their event once, and lose their content where the host says so."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest

from journal import limits
from journal.clock import instant
from journal.errors import StoreUnavailable
from journal.lifecycle import Operation, State
from tests.tools.memory.world import NOW, SCOPE, Caller, World
from tools.memory import expiry
from tools.memory.erasure import finish_erasures
from tools.memory.expiry import expire_records
from tools.memory.sweeper import Sweeper

HOUR = 3_600_000


def until(moment: int) -> dict[str, Any]:
    return {"retention": {"derivative_rule": "make-ineligible", "expires_at": instant(moment)}}


def states(agent: Caller) -> Counter[str]:
    with agent.engine.journal.store.view(SCOPE) as view:
        return Counter(State(row.state).label for name, row in view.subjects() if name.startswith("candidate_"))


def labels(agent: Caller) -> Counter[str]:
    return Counter(label for label, _ in agent.events())


def test_what_is_past_its_time_expires_and_nothing_else(world: World, agent: Caller):
    mine = agent.capture("it expires", **until(NOW + HOUR))
    agent.admit(mine)
    disputed, old = (agent.capture(text, **until(NOW + HOUR)) for text in ("disputed", "old"))
    for candidate_id, operation in ((disputed, Operation.DISPUTE), (old, Operation.MARK_NON_CURRENT)):
        agent.admit(candidate_id)
        agent.transit(candidate_id, operation)
    untrusted = agent.capture("not trusted", **until(NOW + HOUR))
    agent.admit(untrusted)
    agent.transit(untrusted, Operation.TRUST_INVALIDATE)
    pending = agent.capture("nobody admitted it", **until(NOW + HOUR))
    agent.remember("it stays", **until(NOW + 2 * HOUR))
    agent.remember("it has no end")
    expire_records(agent.engine, SCOPE)
    assert labels(agent)["expire"] == 0
    world.clock.advance(milliseconds=HOUR - 1)
    expire_records(agent.engine, SCOPE)
    assert labels(agent)["expire"] == 0
    world.clock.advance(milliseconds=1)  # exactly now is expired
    expire_records(agent.engine, SCOPE)
    assert {agent.state(name) for name in (mine, disputed, old)} == {State.EXPIRED}
    assert agent.state(untrusted) is State.TRUST_INVALID
    assert agent.state(pending) is State.PENDING
    assert states(agent)["accepted_current"] == 2
    assert world.journal.payload(SCOPE, mine) is not None, "what expired can be read by the host"
    head = agent.head
    assert not expire_records(agent.engine, SCOPE)
    assert agent.head == head, "once"
    events = world.journal.store.read(SCOPE, 0, 1_000)
    event = next(event for event in events if event.header.kind.label == "expire")
    assert event.header.actor.principal == "engram:system"


def test_what_is_admitted_after_its_time_expires_too(world: World, agent: Caller):
    pending = agent.capture("late", **until(NOW + HOUR))
    world.clock.advance(milliseconds=HOUR)
    record_id = agent.admit(pending)["record_id"]
    assert agent.get(record_id)["error"]["code"] == "NOT_FOUND"
    expire_records(agent.engine, SCOPE)
    assert agent.state(pending) is State.EXPIRED


def test_a_round_is_bounded_and_says_that_there_is_more(world: World, agent: Caller, monkeypatch):
    monkeypatch.setattr(limits, "EXPIRY_ROUND_MAX", 3)
    for number in range(7):
        agent.remember(f"number {number}", **until(NOW + HOUR))
    world.clock.advance(milliseconds=HOUR)
    assert [expire_records(agent.engine, SCOPE) for _ in range(4)] == [True, True, False, False]
    assert labels(agent)["expire"] == 7


def test_two_that_look_at_once_write_one_event_each(world: World, agent: Caller, monkeypatch):
    for number in range(20):
        agent.remember(f"number {number}", **until(NOW + HOUR))
    world.clock.advance(milliseconds=HOUR)
    met, draft = threading.Barrier(2), expiry._drafts

    def together(*given: Any) -> Any:
        return draft(*given)

    commit = world.journal.commit

    def after_both_looked(*given: Any, **how: Any) -> Any:
        met.wait(30)
        return commit(*given, **how)

    monkeypatch.setattr(expiry, "_drafts", together)
    monkeypatch.setattr(world.journal, "commit", after_both_looked)
    other = world.caller()
    threads = [threading.Thread(target=expire_records, args=(one.engine, SCOPE)) for one in (agent, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert labels(agent)["expire"] == 20
    assert states(agent) == {"expired": 20}


def test_the_content_is_destroyed_where_the_host_says_so(world: World):
    agent = world.caller(destroy_expired=True)
    expired = agent.capture("a persimmon", **until(NOW + HOUR))
    agent.admit(expired)
    kept = agent.remember("a medlar", **until(NOW + 2 * HOUR))
    earlier = agent.capture("expired by hand, its time is to come", **until(NOW + 2 * HOUR))
    agent.admit(earlier)
    agent.transit(earlier, Operation.EXPIRE)
    agent.found("persimmon")
    world.clock.advance(milliseconds=HOUR)
    expire_records(agent.engine, SCOPE)
    assert finish_erasures(agent.engine, SCOPE)
    assert [label for label, subject in agent.events() if subject == expired] == [
        "capture", "accept", "expire", "tombstone", "erasure_done",
    ]  # fmt: skip
    assert world.journal.key_is_destroyed(SCOPE, expired)
    assert world.journal.payload(SCOPE, expired) is None
    assert agent.found("medlar") == [kept]
    assert agent.state(earlier) is State.EXPIRED
    assert agent.engine.coverage(SCOPE, expired) is not None
    again = agent.capture("a persimmon")
    assert agent.admit(again)["status"] == "pending_adjudication", "as after a forgetting"


def test_what_expired_before_the_host_said_so_is_destroyed_too(world: World, agent: Caller):
    expired = agent.capture("a persimmon", **until(NOW + HOUR))
    agent.admit(expired)
    world.clock.advance(milliseconds=HOUR)
    expire_records(agent.engine, SCOPE)
    assert agent.state(expired) is State.EXPIRED
    expire_records(world.caller(destroy_expired=True).engine, SCOPE)
    assert agent.state(expired) is State.TOMBSTONED


def test_the_sweeper_does_it_and_a_failure_keeps_nothing_else_from_being_done(world: World, agent: Caller, monkeypatch):
    for number in range(3):
        agent.remember(f"number {number}", **until(NOW + HOUR))
    world.clock.advance(milliseconds=HOUR)
    monkeypatch.setattr(limits, "EXPIRY_ROUND_MAX", 2)
    sweeper = Sweeper(agent.engine)
    try:
        sweeper.sweep()
        assert labels(agent)["expire"] == 2
        sweeper.sweep()
        assert labels(agent)["expire"] == 3
    finally:
        sweeper.close()


@pytest.mark.parametrize("step", ["snapshot", "commit"])
def test_what_cannot_be_done_now_is_done_later(world: World, agent: Caller, monkeypatch, step):
    agent.remember("it expires", **until(NOW + HOUR))
    world.clock.advance(milliseconds=HOUR)

    def failing(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("not now")

    monkeypatch.setattr(agent.engine.projections(SCOPE) if step == "snapshot" else world.journal, step, failing)
    with pytest.raises(StoreUnavailable):
        expire_records(agent.engine, SCOPE)
    monkeypatch.undo()
    expire_records(agent.engine, SCOPE)
    assert labels(agent)["expire"] == 1
