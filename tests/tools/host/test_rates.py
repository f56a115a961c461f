"""How often a principal may call: a minute's worth at once, then at a steady rate, each scope and principal apart."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from journal import limits
from journal.errors import RateLimited
from tests.tools.memory.world import OTHER, PURPOSE, binding, capture_arguments
from tools.host.capabilities import CAPTURE, GET, SAVE_MESSAGE, SEARCH
from tools.host.rates import RateLimiter, Rates
from tools.server.service import UnknownTool

BINDING = binding()


class Seconds:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


def passes(limiter: RateLimiter, tool: str = SEARCH, whose=BINDING) -> bool:
    try:
        limiter.admit(whose, tool)
    except RateLimited:
        return False
    return True


def test_without_a_rate_any_number_passes(seconds):
    limiter = RateLimiter(Rates(), seconds)
    assert all(passes(limiter) for _ in range(2_000))


def test_a_minute_s_worth_at_once_and_then_as_time_passes(seconds):
    limiter = RateLimiter(Rates(calls=6), seconds)
    assert [passes(limiter) for _ in range(7)] == [True] * 6 + [False]
    seconds.now += 9.9
    assert not passes(limiter)
    seconds.now += 0.2
    assert [passes(limiter), passes(limiter)] == [True, False]
    seconds.now += 1_000
    assert [passes(limiter) for _ in range(7)] == [True] * 6 + [False], "no more than a minute's worth is saved up"


def test_a_refusal_says_to_the_log_when_there_is_room_again(seconds):
    limiter = RateLimiter(Rates(calls=6), seconds)
    for _ in range(6):
        limiter.admit(BINDING, SEARCH)
    with pytest.raises(RateLimited) as refused:
        limiter.admit(BINDING, SEARCH)
    assert refused.value.detail == "room again in 10.0 s"
    assert refused.value.retriable


def test_what_writes_counts_twice_and_a_refused_call_takes_nothing(seconds):
    limiter = RateLimiter(Rates(calls=3, mutations=1), seconds)
    assert [passes(limiter, CAPTURE), passes(limiter, SAVE_MESSAGE)] == [True, False]
    assert [passes(limiter, GET), passes(limiter, SEARCH), passes(limiter, GET)] == [True, True, False]


def test_reads_are_free_where_only_mutations_are_counted(seconds):
    limiter = RateLimiter(Rates(mutations=1), seconds)
    assert all(passes(limiter, GET) for _ in range(10))
    assert [passes(limiter, CAPTURE), passes(limiter, CAPTURE)] == [True, False]


def test_principals_and_scopes_are_counted_apart(seconds):
    limiter = RateLimiter(Rates(calls=1), seconds)
    theirs = (BINDING, replace(BINDING, principal="principal:two"), binding(OTHER))
    assert [passes(limiter, SEARCH, each) for each in theirs] == [True, True, True]
    assert [passes(limiter, SEARCH, each) for each in theirs] == [False, False, False]
    assert not passes(limiter, SEARCH, replace(BINDING, agent_id="agent:other")), "an agent's name buys no calls"


def test_the_buckets_are_bounded(seconds, monkeypatch):
    monkeypatch.setattr(limits, "RATE_BUCKETS_MAX", 3)
    limiter = RateLimiter(Rates(calls=1), seconds)
    for number in range(10):
        assert passes(limiter, SEARCH, replace(BINDING, principal=f"principal:{number}"))
    assert len(limiter._buckets) == 3
    assert not passes(limiter, SEARCH, replace(BINDING, principal="principal:9"))


@pytest.mark.parametrize("seed", range(5))
def test_no_minute_has_more_than_two_of_them(seconds, seed):
    source, limiter, passed = random.Random(seed), RateLimiter(Rates(calls=10), seconds), []
    for _ in range(500):
        seconds.now += source.random() * 2
        if passes(limiter):
            passed.append(seconds.now)
    assert len(passed) > 50
    assert max(sum(start <= each < start + 60 for each in passed) for start in passed) <= 20
    total = passed[-1] - passed[0]
    assert len(passed) <= 10 + total / 6 + 1


def test_a_call_too_many_is_answered_and_writes_nothing(agent):
    agent.engine.rates = RateLimiter(Rates(calls=3, mutations=1))
    assert agent.code(CAPTURE, capture_arguments("하나")) == "ok"
    head = agent.head
    document = agent.call(CAPTURE, capture_arguments("둘"))
    assert document["error"] == {
        "code": "RATE_LIMITED", "message": RateLimited.message(), "retriable": True,
    }  # fmt: skip
    assert agent.head == head
    assert agent.code(SEARCH, {"query": "하나", "purpose_ref": PURPOSE}) == "ok"


def test_views_of_one_engine_count_together(agent):
    agent.engine.rates = RateLimiter(Rates(calls=1))
    other = agent.engine.bound_to(replace(agent.engine.binding, agent_id="agent:other"))
    assert agent.code(SEARCH, {"query": "하나", "purpose_ref": PURPOSE}) == "ok"
    with pytest.raises(RateLimited):
        other.rates.admit(other.binding, SEARCH)


def test_what_is_not_granted_is_not_counted(agent):
    agent.engine.rates = RateLimiter(Rates(calls=1))
    for _ in range(3):
        with pytest.raises(UnknownTool):
            agent.call("no_such_tool", {})
    assert agent.code(SEARCH, {"query": "하나", "purpose_ref": PURPOSE}) == "ok"
