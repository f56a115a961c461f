"""save_message: what is stored, under whose name, what is answered, and what is refused."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from journal import limits
from journal.events import EventType
from journal.messages import MessageState
from tests.tools.conversation.talks import ONE, born, labels, speaker
from tests.tools.memory.world import NOW, OTHER, SCOPE
from tools.host.capabilities import ALL_TOOLS, SAVE_MESSAGE
from tools.server.service import UnknownTool

SAID = {"role": "user", "message": "야간 빌드를 옮기자 \U0001f642"}


@pytest.fixture
def one(world):
    return speaker(world)


def test_the_answer_has_exactly_these_fields(one):
    value = one.value(SAVE_MESSAGE, SAID)
    assert value == {"stored": True, "id": value["id"], "role": "user", "created_at": "2025-08-16T13:14:56.789Z"}
    assert value["id"].startswith("message_")
    assert len(value["id"]) == len("message_") + 32


def test_what_a_user_said_is_stored_as_it_was_said(world, one):
    header, content = born(world, one.save(SAID["message"], agent_model="gpt-5"))
    assert content == {
        "message": SAID["message"], "role": "user", "agent_platform": "codex", "client_name": "codex-mcp-client",
        "device_name": "desk", "session_id": "session-of-the-speaker", "cwd": str(Path.cwd()),
    }  # fmt: skip
    assert header.type == EventType.MESSAGE
    assert (header.actor.principal, header.actor.agent_id) == (ONE, "codex")
    assert header.actor.session is not None
    assert header.to_state == MessageState.ACTIVE
    assert header.recorded_at == NOW


def test_everything_that_can_be_told_is_stored(world):
    one = speaker(world, agent_id="agent:of-the-host", talk={"agent_key": "persona"})
    told = {
        "agent_model": "opus", "agent_platform": "Claude_Code", "subagent": True, "subagent_model": "haiku",
        "subagent_role": "  Code REVIEW ",
    }  # fmt: skip
    header, content = born(world, one.save("\r\n  as it was\t", role="assistant", **told))
    kept = {"agent_model": "opus", "agent_platform": "claude-code", "subagent": True, "subagent_model": "haiku"}
    assert content.items() >= {**kept, "subagent_role": "code review", "agent_key": "persona"}.items()
    assert content["client_name"] == "codex-mcp-client"
    assert content["message"] == "\r\n  as it was\t"
    assert header.actor.agent_id == "agent:of-the-host"


def test_an_assistant_that_names_no_model_is_unknown(world, one):
    assert born(world, one.save("so be it", role="assistant"))[1]["agent_model"] == "unknown"


@pytest.mark.parametrize(
    ("client", "platform"),
    [
        ("Codex-CLI", "codex"),
        ("gemini-cli-mcp-client-engram", "gemini-cli"),
        ("Zed Editor", "zed editor"),
        (None, "unknown"),
    ],
)
def test_the_platform_is_the_clients_never_the_environments(world, monkeypatch, client, platform):
    monkeypatch.setenv("AGENT_PLATFORM", "hermes-agent")
    monkeypatch.setenv("AGENT_MODEL", "of the environment")
    one = speaker(world)
    one.client = client
    header, content = born(world, one.save("hello", role="assistant"))
    assert content["agent_platform"] == platform
    assert content["agent_model"] == "unknown"
    assert content.get("client_name") == client
    assert ("client_name" in content) is (client is not None)
    assert header.actor.agent_id == platform


REFUSED = {
    "no role": {"message": "m"},
    "no message": {"role": "user"},
    "an empty message": {"role": "user", "message": ""},
    "a role of its own": {"role": "system", "message": "m"},
    "a message too long": {"role": "user", "message": "m" * (limits.MESSAGE_MAX_BYTES + 1)},
    "a message too long in bytes": {"role": "user", "message": "한" * (limits.MESSAGE_MAX_BYTES // 3 + 1)},
    "a further field": {**SAID, "device_name": "elsewhere"},
    "another's name": {**SAID, "user_id": "principal:two"},
    "an instant": {**SAID, "created_at": 1},
    "a null": {**SAID, "agent_model": None},
    "a number": {**SAID, "agent_platform": 7},
    "a subagent alone": {**SAID, "subagent": True},
    "a subagent without a model": {**SAID, "subagent": True, "subagent_role": "r"},
    "a role that is nothing": {**SAID, "subagent": True, "subagent_model": "m", "subagent_role": " "},
    "a model of no subagent": {**SAID, "subagent_model": "m", "subagent_role": "r"},
    "a subagent's name": {**SAID, "subagent": "s", "subagent_model": "m", "subagent_role": "r"},
    "a surrogate": {"role": "user", "message": "\ud800"},
    "a name too long": {**SAID, "agent_platform": "x" * 513},
}


@pytest.mark.parametrize("arguments", REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused_and_nothing_is_written(one, arguments):
    before = one.head
    assert one.code(SAVE_MESSAGE, arguments) == "INVALID_SCHEMA"
    assert one.head == before


def test_the_longest_message_is_kept_whole(world, one):
    text = "한" * (limits.MESSAGE_MAX_BYTES // 3)
    assert born(world, one.save(text))[1]["message"] == text


def test_the_same_words_twice_are_two_messages(one):
    assert one.save("yes") != one.save("yes")
    assert len(one.ids("yes")) == 2


def test_what_is_stored_does_not_wait_for_a_projection(world, one, monkeypatch):
    def broken(_scope):
        raise AssertionError("a save reads nothing")

    monkeypatch.setattr(one.engine, "projections", broken)
    assert labels(world, one.save("kept all the same")) == ["message"]


def test_without_its_grant_it_is_no_tool(world):
    one = speaker(world, granted=frozenset(ALL_TOOLS) - {SAVE_MESSAGE})
    with pytest.raises(UnknownTool):
        one.call(SAVE_MESSAGE, SAID)


def test_a_call_whose_time_is_up_or_that_was_given_up_writes_nothing(one):
    one.save("before")
    head, given_up = one.head, threading.Event()
    given_up.set()
    assert one.code(SAVE_MESSAGE, SAID, cancelled=given_up) == "CANCELLED"
    assert one.code(SAVE_MESSAGE, SAID, seconds=-1) == "DEADLINE_EXCEEDED"
    assert one.head == head


def test_a_conversation_lies_where_the_host_says(world):
    elsewhere = speaker(world, talk={"scope": OTHER})
    message_id = elsewhere.save("told in the other workspace")
    assert world.journal.store.head(SCOPE).cursor == 0
    assert elsewhere.ids() == [message_id]
    assert elsewhere.erase(message_id)["key_destruction"] == "complete"
    assert elsewhere.ids() == []
