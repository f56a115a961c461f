"""The short way of a call: when it is taken, and that it gives what the long way gives."""

from __future__ import annotations

import json
import threading
from concurrent.futures import Future

import pytest

from journal.limits import ENVELOPE_MAX_BYTES, ENVELOPES_REMEMBERED
from tests.tools.server.raw_server import MODERN_ENVELOPE
from tools.server.direct import DirectCalls, Envelopes, Running

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


# --- since 2026-07-28: envelopes that the library accepted --------------------------------------------

PREFIX = "io.modelcontextprotocol/"
FORMS = {**MODERN_ENVELOPE, f"{PREFIX}clientCapabilities": {"elicitation": {}}}


def enveloped(meta, **params):
    return {**CALL, "params": {"name": "save_message", "arguments": {}, "_meta": meta, **params}}


def test_a_call_goes_directly_once_the_library_answered_one_of_its_envelope(direct, begun):
    message = enveloped(MODERN_ENVELOPE)
    direct.note(message)
    assert not direct.takes(message)
    direct.note_answer(8, {})
    assert not direct.takes(message)
    direct.note_answer(7, {})
    assert direct.takes(message)
    assert direct.takes(enveloped({**MODERN_ENVELOPE, "traceparent": "of this call"}))
    direct.begin(message, bool)
    assert (begun[0][3].name, begun[0][3].protocol_version) == ("raw-modern", "2026-07-28")


@pytest.mark.parametrize(
    "message",
    [
        enveloped(FORMS),
        enveloped({**MODERN_ENVELOPE, **PROGRESS}),
        enveloped({**MODERN_ENVELOPE, f"{PREFIX}logLevel": "debug"}),
        enveloped({name: value for name, value in MODERN_ENVELOPE.items() if "Info" not in name}),
        enveloped(MODERN_ENVELOPE, requestState="x"),
        enveloped(MODERN_ENVELOPE, arguments=None),
        enveloped({}),
    ],
    ids=str,
)
def test_what_differs_from_a_known_envelope_goes_the_long_way(direct, message):
    direct.note(enveloped(MODERN_ENVELOPE))
    direct.note_answer(7, {})
    assert not direct.takes(message)


def test_a_client_that_may_show_a_form_goes_the_long_way_in_the_newest_era_too():
    direct = DirectCalls(nothing_begun, lambda _name: ["forget"])
    direct.note(enveloped(FORMS))
    direct.note_answer(7, {})
    assert direct.takes(enveloped(FORMS))
    assert not direct.takes(enveloped(FORMS, name="forget"))


def test_envelopes_are_few_and_short():
    envelopes = Envelopes()

    def of(name):
        return {**MODERN_ENVELOPE, f"{PREFIX}clientInfo": {"name": name, "version": "1"}}

    envelopes.learn(of("x" * ENVELOPE_MAX_BYTES))
    assert envelopes.client_of(of("x" * ENVELOPE_MAX_BYTES)) is None
    envelopes.learn({**MODERN_ENVELOPE, f"{PREFIX}protocolVersion": "2099-01-01"})
    assert envelopes.client_of({**MODERN_ENVELOPE, f"{PREFIX}protocolVersion": "2099-01-01"}) is None
    for number in range(ENVELOPES_REMEMBERED + 1):
        envelopes.learn(of(str(number)))
    assert envelopes.client_of(of("0")) is None
    last = envelopes.client_of(of(str(ENVELOPES_REMEMBERED)))
    assert last is not None
    assert last.name == str(ENVELOPES_REMEMBERED)


@pytest.mark.parametrize("errand", [errand for errand in ERRANDS if errand != "print"])
def test_both_ways_give_the_same_in_the_newest_era(start, errand):
    """The first call of an envelope goes the long way, and so does one that asks for progress."""
    server = start().read()
    answers = []
    for number, meta in enumerate((MODERN_ENVELOPE, MODERN_ENVELOPE, {**MODERN_ENVELOPE, **PROGRESS})):
        server.call(number, "echo" if not number else errand, meta)
        answer = server.answer(number)
        if "result" in answer:
            answer["result"].pop("content")
            assert answer["result"]["structuredContent"].pop("auditId")
        del answer["id"]
        answers.append(answer)
    assert answers[1] == answers[2]
