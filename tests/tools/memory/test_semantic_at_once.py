"""A search by words and meaning while others change what is in force: its answer is of one cursor all the same."""

from __future__ import annotations

import os
import signal
import threading
import warnings

import pytest

from projections.vector.index import VectorIndex
from projections.vector.threads import threads
from tests.projections.vector.wordly import Wordly
from tests.tools.memory.keeping import kept_search, value_of
from tests.tools.memory.test_semantic_search import BOTH, TEXTS, channel_with, check, cited, texts
from tools.memory.receipt_check import Verdict

pytestmark = pytest.mark.usefixtures("everything_meant")
ASKED = "nightly tea"


class Held(Wordly):
    """A provider that embeds one query only when it is let go."""

    def __init__(self):
        super().__init__()
        self.goes_on = threading.Event()

    def queries(self, asked):
        if asked == [ASKED]:
            assert self.goes_on.wait(30)
        return super().queries(asked)


@pytest.fixture
def held(world):
    provider = Held()
    agent = world.caller()
    agent.engine.semantic = channel_with(world, provider)
    ids = [agent.remember(text, citations=[cited(number)]) for number, text in enumerate(TEXTS)]
    return provider, agent, ids


def asked_meanwhile(world, provider, agent, change, monkeypatch):
    """Return the answer to a search that waited for its vector while another changed something and searched."""
    found, waits, prepare = [], threading.Event(), VectorIndex.prepared

    def prepared(*asked):
        try:
            return prepare(*asked)
        finally:
            waits.set()  # it has its snapshot, and now waits for the vector

    monkeypatch.setattr(VectorIndex, "prepared", prepared)
    searching = threading.Thread(target=lambda: found.append(kept_search(agent, ASKED, capability_policy=BOTH)))
    searching.start()
    assert waits.wait(30)
    change()
    kept_search(agent, "noon", capability_policy=BOTH)
    provider.goes_on.set()
    searching.join()
    (document,) = found
    assert check(world, document, Wordly()).verdict is Verdict.DERIVED
    return value_of(document)


@pytest.mark.parametrize("count", [1, 5])
def test_what_was_admitted_meanwhile_moves_nothing(world, held, count, monkeypatch):
    provider, agent, _ = held
    before = agent.head

    def change():
        for number in range(count):
            agent.remember(f"zebra quagga okapi {number}", citations=[cited(9 + number)])

    value = asked_meanwhile(world, provider, agent, change, monkeypatch)
    assert value["rank_receipt"]["system_as_of"] == str(before)
    assert not any("zebra" in text for text in texts(value))


def test_what_was_forgotten_meanwhile_is_not_answered_with(world, held, monkeypatch):
    provider, agent, ids = held
    value = asked_meanwhile(world, provider, agent, lambda: agent.forget(ids[2]), monkeypatch)
    assert TEXTS[2] not in texts(value)


def test_a_child_of_a_process_that_searched_has_threads_of_its_own():
    assert threads().submit(int).result() == 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer versions tell of threads that a child has not
        child = os.fork()
    if not child:
        signal.alarm(20)
        os._exit(threads().submit(int, 7).result())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
