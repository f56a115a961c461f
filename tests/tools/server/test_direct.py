"""The short way of a call: when it is taken, and that it gives what the long way gives."""

from __future__ import annotations

import json
import threading
from concurrent.futures import Future

import pytest

from tests.tools.server.raw_server import MODERN_ENVELOPE
from tools.server.direct import DirectCalls, Running

PROGRESS = {"progressToken": "token"}
ERRANDS = ["echo", "missing", "untrusted", "broken", "surrogate", "large", "print"]
GREETING = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"clientInfo": {"name": "codex"}}}
CALL = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "save_message", "arguments": {}}}


@pytest.fixture
def begun():
    return []


@pytest.fixture
def direct(begun):
    def begin(*told):
        begun.append(told)
        return Running(Future(), threading.Event())

    return DirectCalls(begin)


def shake_hands(direct, name="codex"):
    direct.note({**GREETING, "params": {"clientInfo": {"name": name}}})
    direct.note_answer(0, {"protocolVersion": "2025-11-25"})
    direct.note({"jsonrpc": "2.0", "method": "notifications/initialized"})


def test_no_call_goes_directly_before_both_have_shaken_hands(direct):
    assert not direct.takes(CALL)
    direct.note({"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert not direct.takes(CALL)
    direct.note(GREETING)
    assert not direct.takes(CALL)
    direct.note_answer(1, {"protocolVersion": "2025-11-25"})
    direct.note({"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert not direct.takes(CALL)
    shake_hands(direct)
    assert direct.takes(CALL)
    direct.note(GREETING)
    assert not direct.takes(CALL)


def nothing_begun(*_: object) -> Running:
    return Running(Future(), threading.Event())


@pytest.mark.parametrize(
    ("capabilities", "name", "tool", "directly"),
    [
        ({"elicitation": {}}, "believed", "forget", False),
        ({"elicitation": {"form": {}}}, "believed", "forget", False),
        ({"elicitation": {}}, "believed", "save_message", True),
        ({"elicitation": {}}, "another", "forget", True),
        ({"elicitation": None}, "believed", "forget", True),
        ({}, "believed", "forget", True),
        ([], "believed", "forget", True),
    ],
)
def test_a_call_whose_client_may_have_to_show_a_form_goes_the_long_way(capabilities, name, tool, directly):
    direct = DirectCalls(nothing_begun, lambda name: ["forget"] if name == "believed" else [])
    direct.note({**GREETING, "params": {"clientInfo": {"name": name}, "capabilities": capabilities}})
    direct.note_answer(0, {"protocolVersion": "2025-11-25"})
    direct.note({"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert direct.takes({**CALL, "params": {"name": tool, "arguments": {}}}) is directly


@pytest.mark.parametrize(
    "message",
    [
        {**CALL, "method": "tools/list"},
        {name: member for name, member in CALL.items() if name != "id"},
        {name: member for name, member in CALL.items() if name != "params"},
        {**CALL, "params": {"arguments": {}}},
        {**CALL, "params": {"name": 7}},
        {**CALL, "params": {"name": "save_message", "task": {}}},
        {**CALL, "params": {"name": "save_message", "_meta": PROGRESS}},
        {**CALL, "params": {"name": "save_message", "_meta": MODERN_ENVELOPE}},
        {**CALL, "params": {"name": "save_message", "_meta": None}},
    ],
    ids=str,
)
def test_what_means_something_to_the_library_goes_its_way(direct, message):
    shake_hands(direct)
    assert not direct.takes(message)


def test_the_clients_own_notes_do_not_matter(direct, begun):
    shake_hands(direct, "claude-code")
    message = {**CALL, "params": {"name": "save_message", "arguments": {}, "_meta": {"claudecode/toolUseId": "x"}}}
    assert direct.takes(message)
    direct.begin(message, bool)
    assert begun[0][:3] == (7, "save_message", {})
    assert (begun[0][3].name, begun[0][3].protocol_version) == ("claude-code", "2025-11-25")


def test_a_cancellation_reaches_its_own_call(direct):
    shake_hands(direct)
    running = direct.begin(CALL, bool)
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
    assert not direct.cancels({**cancel, "params": {"requestId": 8}})
    assert not direct.cancels({**cancel, "params": {"requestId": True}})
    assert not running.cancelled.is_set()
    assert direct.cancels(cancel)
    assert running.cancelled.is_set()
    direct.end(7, running)
    assert not direct.cancels(cancel)


@pytest.mark.parametrize("errand", ERRANDS)
def test_both_ways_give_the_same(server, errand):
    """A progress token makes a call go the long way."""
    answers = []
    for meta in (None, PROGRESS):
        server.call(errand, errand, meta)
        answer = server.answer(errand)
        if "result" in answer:
            content = answer["result"].pop("content")
            assert [json.loads(part["text"]) for part in content] == [answer["result"]["structuredContent"]]
            assert answer["result"]["structuredContent"].pop("auditId")
        answers.append(answer)
    assert answers[0] == answers[1]


def test_an_unknown_tool_is_refused_alike(server):
    answers = [
        server.ask({"id": number, "method": "tools/call", "params": {"name": "nothing", "arguments": {}} | meta})
        for number, meta in enumerate([{}, {"_meta": PROGRESS}])
    ]
    assert answers[0]["error"] == answers[1]["error"] == {"code": -32602, "message": "unknown tool"}
