"""The host's own hand, beside other processes that write at the same time."""

from __future__ import annotations

import time

import pytest

from journal.errors import IllegalTransition, NotFound
from journal.events import Actor, EventType
from tests.tools.memory.world import NOW, Caller
from tools.conversation import upkeep
from tools.conversation.utterances import ledger_draft
from tools.host.capabilities import SAVE_MESSAGE
from tools.memory.call import Call


@pytest.fixture
def call(agent: Caller) -> Call:
    binding = agent.engine.binding
    return Call(
        binding=binding, actor=Actor(binding.principal, "operator:kim"), now=NOW, deadline=time.monotonic() + 30
    )


def meanwhile(monkeypatch, engine, act):
    """Let something happen between what is read and the first commit that rests on it."""
    commit, left = engine.journal.commit, [act]

    def late(*arguments, **how):
        if left:
            left.pop()()
        return commit(*arguments, **how)

    monkeypatch.setattr(engine.journal, "commit", late)
    return commit


def kinds(agent):
    return [kind for kind, _ in agent.events()]


def test_a_circle_that_another_process_would_close_is_refused(agent, call, monkeypatch):
    for name in ("one", "two"):
        upkeep.add_tag(agent.engine, call, name, "")
    journal = agent.engine.journal
    draft = ledger_draft(journal, call.scope, call.actor, EventType.PROJECT_ALIAS, {"name": "two", "alias_of": "one"})
    commit = meanwhile(monkeypatch, agent.engine, lambda: commit(call.scope, lambda view: [draft]))
    with pytest.raises(IllegalTransition):
        upkeep.alias_tag(agent.engine, call, "one", "two")
    assert kinds(agent) == ["project_tag", "project_tag", "project_alias"]


def test_a_project_that_another_process_made_is_not_made_twice(agent, call, monkeypatch):
    message = agent.value(SAVE_MESSAGE, {"role": "user", "message": "one"})["id"]
    journal = agent.engine.journal
    draft = ledger_draft(journal, call.scope, call.actor, EventType.PROJECT_TAG, {"name": "atlas", "description": "x"})
    commit = meanwhile(monkeypatch, agent.engine, lambda: commit(call.scope, lambda view: [draft]))
    upkeep.tag_message(agent.engine, call, message, upkeep.Tagging("atlas"))
    assert kinds(agent) == ["message", "project_tag", "message_tag"]


def test_tags_that_another_process_wrote_are_kept(agent, call, monkeypatch):
    message = agent.value(SAVE_MESSAGE, {"role": "user", "message": "one"})["id"]
    other = upkeep.Tagging(None, ("tea",))
    commit = meanwhile(monkeypatch, agent.engine, lambda: upkeep.tag_message(agent.engine, call, message, other))
    assert commit is not None
    tags = upkeep.tag_message(agent.engine, call, message, upkeep.Tagging("atlas"))
    assert (tags["p_tag"], tags["d_tags"]) == ("atlas", ["tea"])


def test_a_message_that_was_erased_meanwhile_is_not_tagged(agent, call, monkeypatch):
    message = agent.value(SAVE_MESSAGE, {"role": "user", "message": "one"})["id"]

    def erase():
        from tools.conversation import clearing

        clearing.erase_messages(agent.engine, call, [message], spare_pinned=False, progress=lambda done, total: None)

    meanwhile(monkeypatch, agent.engine, erase)
    with pytest.raises(NotFound):
        upkeep.tag_message(agent.engine, call, message, upkeep.Tagging("atlas"))
    assert kinds(agent)[-1] == "message_erased"
