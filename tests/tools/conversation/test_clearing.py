"""Erasing by hand beside other processes: what was erased or pinned meanwhile is passed over."""

from __future__ import annotations

import time

import pytest

from journal.errors import AlreadyTerminal, NotFound
from journal.events import Actor, EventType
from tests.tools.memory.world import NOW, Caller
from tools.conversation import clearing, upkeep
from tools.host.capabilities import SAVE_MESSAGE
from tools.memory.call import Call


@pytest.fixture
def call(agent: Caller) -> Call:
    binding = agent.engine.binding
    return Call(
        binding=binding, actor=Actor(binding.principal, "operator:kim"), now=NOW, deadline=time.monotonic() + 30
    )


def said(agent, count):
    return [agent.value(SAVE_MESSAGE, {"role": "user", "message": f"say {number}"})["id"] for number in range(count)]


def erased(agent, call, ids, *, spare_pinned=True):
    return clearing.erase_messages(agent.engine, call, ids, spare_pinned=spare_pinned, progress=lambda *_: None)


def test_what_was_pinned_or_erased_since_it_was_chosen_is_passed_over(agent, call):
    ids = said(agent, 4)
    chosen, spared = clearing.older_than(agent.engine, call, NOW + 1, pinned_too=False)
    assert (sorted(chosen), spared) == (sorted(ids), 0)
    upkeep.move(agent.engine, call, EventType.MESSAGE_PIN, ids[0])
    assert erased(agent, call, [ids[1]]) == [ids[1]]
    assert sorted(erased(agent, call, chosen)) == sorted(ids[2:])
    assert erased(agent, call, ids, spare_pinned=False) == [ids[0]]
    assert clearing.finish(agent.engine, call, ids, lambda done, total: None) == {
        "key_destruction": "complete", "projection_invalidation": "complete",
    }  # fmt: skip


def test_a_key_that_stands_is_said_to_stand(agent, call):
    ids = said(agent, 1)
    assert clearing.finish(agent.engine, call, ids, lambda done, total: None)["key_destruction"] == "pending"


def test_only_what_is_older(agent, call):
    said(agent, 1)
    assert clearing.older_than(agent.engine, call, NOW, pinned_too=True) == ([], 0)
    assert len(clearing.older_than(agent.engine, call, NOW + 1, pinned_too=True)[0]) == 1


def test_what_cannot_be_erased(agent, call):
    (message,) = said(agent, 1)
    clearing.erasable(agent.engine, call, [message])
    with pytest.raises(NotFound):
        clearing.erasable(agent.engine, call, [message, "message_" + 32 * "0"])
    erased(agent, call, [message])
    with pytest.raises(AlreadyTerminal):
        clearing.erasable(agent.engine, call, [message])
