"""A search that waits for its query's vector: until its deadline, while somebody wants it, and for no other's query."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from journal import layout
from projections.vector.threads import threads
from tests.projections.vector.wordly import Wordly
from tests.tools.memory.test_semantic_search import BOTH, TEXTS, channel_with, cited
from tests.tools.memory.world import PURPOSE
from tools.host.capabilities import SEARCH

pytestmark = pytest.mark.usefixtures("everything_meant")
ASKED = {"query": "nightly tea", "purpose_ref": PURPOSE, "capability_policy": BOTH}


class Stuck(Wordly):
    """A provider whose queries wait until they are let go, and which notes what it began to embed."""

    def __init__(self):
        super().__init__()
        self.goes_on = threading.Event()
        self.begun = []

    def queries(self, asked):
        self.begun.append(asked)
        if asked == [ASKED["query"]]:
            self.goes_on.wait(30)
        return super().queries(asked)


@pytest.fixture
def stuck(world):
    provider = Stuck()
    agent = world.caller()
    agent.engine.semantic = channel_with(world, provider)
    for number, text in enumerate(TEXTS):
        agent.remember(text, citations=[cited(number)])
    yield provider, agent
    provider.goes_on.set()


def test_it_waits_no_longer_than_the_call_may_take(stuck):
    provider, agent = stuck
    assert agent.code(SEARCH, ASKED, seconds=0.3) == "DEADLINE_EXCEEDED"
    assert not provider.goes_on.is_set()


def test_it_waits_no_longer_than_somebody_wants_it(stuck):
    provider, agent = stuck
    cancelled = threading.Event()
    with ThreadPoolExecutor(1) as aside:
        asked = aside.submit(agent.code, SEARCH, ASKED, cancelled=cancelled, seconds=60)
        while not provider.begun:
            time.sleep(0.001)
        cancelled.set()
        assert asked.result(timeout=20) == "CANCELLED"


def test_what_nobody_waits_for_any_more_is_not_embedded(stuck):
    provider, agent = stuck
    at_once = threads()._max_workers
    with ThreadPoolExecutor(at_once + 5) as aside:
        codes = list(aside.map(lambda _: agent.code(SEARCH, ASKED, seconds=1), range(at_once + 5)))
    assert set(codes) == {"DEADLINE_EXCEEDED"}
    provider.goes_on.set()
    assert agent.search("noon", capability_policy=BOTH)["records"]
    assert provider.begun.count([ASKED["query"]]) == at_once


@pytest.mark.parametrize("error", [MemoryError, ValueError, KeyError, RuntimeError, TimeoutError])
def test_whatever_a_provider_raises_is_no_fault_of_the_projections(stuck, world, monkeypatch, error):
    provider, agent = stuck
    agent.search("noon", capability_policy=BOTH)
    projections = world.path / layout.PROJECTIONS
    before = sorted(projections.rglob("*"))

    def raises(_asked):
        raise error("nightly tea")

    monkeypatch.setattr(provider, "queries", raises)
    assert agent.code(SEARCH, ASKED) == "RANKING_UNAVAILABLE"
    monkeypatch.undo()
    provider.goes_on.set()
    assert agent.search("noon", capability_policy=BOTH)["records"]
    assert sorted(projections.rglob("*")) == before, "none is built anew"


def test_why_a_provider_embeds_nothing_is_logged_once(stuck, capsys):
    provider, agent = stuck
    provider.returned_dimension = 32
    projections = agent.engine.projections(agent.scope)
    for _ in range(3):
        agent.engine.semantic.step(projections)
    assert capsys.readouterr().out.count("provider_refused") == 1
