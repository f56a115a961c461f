"""The short way of a get over HTTP: when it is taken, and that it gives what the long way gives."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request

from journal import limits
from tests.tools.server.http.team import (
    ANNA_TOKEN,
    BEN_TOKEN,
    ENVELOPE,
    HELLO,
    LIST,
    MODERN,
    READY,
    TeamServer,
    answer_of,
    call,
    modern,
)
from tools.host.capabilities import GET, SEARCH
from tools.server.http.direct import IDENTITY, DirectGets
from tools.server.http.tokens import Identity

ANNA, BEN = Identity(token="anna"), Identity(token="ben")
SESSION = "0123456789abcdef"
VERSION = "2025-11-25"
IN_SESSION = {"mcp-session-id": SESSION, "mcp-protocol-version": VERSION}
IN_ENVELOPE = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": GET}
PLAIN = call(GET, {"record_id": "mem_echo"})
ENVELOPED = {**PLAIN, "params": {**PLAIN["params"], "_meta": ENVELOPE}}


def request(*more: tuple[str, str], accept: str = "application/json, text/event-stream", **headers: str) -> Request:
    named = {"accept": accept, **headers}
    raw = [(name.encode(), value.encode()) for name, value in (*named.items(), *more)]
    return Request({"type": "http", "method": "POST", "headers": raw, IDENTITY: ANNA})


def with_params(message: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**message, "params": {**message["params"], **changes}}


def answered_in_session() -> Any:
    """A call that the library answered."""
    client = SimpleNamespace(client_params=SimpleNamespace(client_info=SimpleNamespace(name="codex")))
    return SimpleNamespace(request=request(**IN_SESSION), protocol_version=VERSION, params={}, session=client)


@pytest.fixture
def gets() -> DirectGets:
    """What has learned of one session and of one envelope; nothing is answered here."""
    made = DirectGets(None)  # type: ignore[arg-type]
    made.learn(answered_in_session())
    asked = request(**IN_ENVELOPE)
    made.learn(SimpleNamespace(request=asked, protocol_version=MODERN, params={"_meta": ENVELOPE}))  # type: ignore[arg-type]
    return made


def test_a_get_of_a_known_session_goes_directly(gets):
    get = gets.taken(ANNA, request(**IN_SESSION), PLAIN)
    assert (get.client.name, get.client.protocol_version, get.session_id) == ("codex", VERSION, SESSION)


def test_a_get_of_a_known_envelope_goes_directly(gets):
    get = gets.taken(BEN, request(**IN_ENVELOPE), with_params(ENVELOPED, _meta={**ENVELOPE, "traceparent": "x"}))
    assert (get.client.name, get.client.protocol_version, get.session_id) == ("raw", MODERN, None)
    assert get.trace_parent == "x"


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        (IN_SESSION | {"mcp-session-id": "another"}, PLAIN),
        ({"mcp-protocol-version": VERSION}, PLAIN),
        ({"mcp-session-id": SESSION}, PLAIN),
        (IN_SESSION | {"mcp-protocol-version": "2025-06-18"}, PLAIN),
        (IN_SESSION | {"accept": "application/json"}, PLAIN),
        (IN_SESSION | {"accept": "text/event-stream"}, PLAIN),
        (IN_SESSION, with_params(PLAIN, name=SEARCH)),
        (IN_SESSION, with_params(PLAIN, arguments=None)),
        (IN_SESSION, with_params(PLAIN, task={})),
        (IN_SESSION, with_params(PLAIN, _meta={"progressToken": 1})),
        (IN_SESSION, {name: member for name, member in PLAIN.items() if name != "id"}),
        (IN_SESSION, LIST),
        (IN_SESSION, ENVELOPED),
        (IN_ENVELOPE, PLAIN),
        (IN_ENVELOPE | {"mcp-method": "tools/list"}, ENVELOPED),
        (IN_ENVELOPE | {"mcp-name": SEARCH}, ENVELOPED),
        (IN_ENVELOPE | {"mcp-protocol-version": VERSION}, ENVELOPED),
        ({name: value for name, value in IN_ENVELOPE.items() if name != "mcp-name"}, ENVELOPED),
        (IN_ENVELOPE, with_params(ENVELOPED, _meta={**ENVELOPE, "progressToken": 1})),
        (IN_ENVELOPE, with_params(ENVELOPED, requestState="x")),
    ],
    ids=str,
)
def test_what_differs_goes_the_long_way(gets, headers, message):
    assert gets.taken(ANNA, request(**headers), message) is None


@pytest.mark.parametrize("name", IN_ENVELOPE)
def test_a_header_that_is_there_twice_goes_the_long_way(gets, name):
    assert gets.taken(ANNA, request((name, IN_ENVELOPE[name]), **IN_ENVELOPE), ENVELOPED) is None


def test_a_session_is_its_openers_and_only_while_the_library_surely_has_it(gets, monkeypatch):
    asked = request(**IN_SESSION)
    assert gets.taken(BEN, asked, PLAIN) is None
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + limits.HTTP_SESSION_IDLE_SECONDS / 2 + 1)
    assert gets.taken(ANNA, asked, PLAIN) is None
    monkeypatch.undo()
    assert gets.taken(ANNA, asked, PLAIN)
    gets.forget(SESSION)
    gets.learn(answered_in_session())  # by a call that was under way when the session ended
    assert gets.taken(ANNA, asked, PLAIN) is None
    for number in range(limits.HTTP_SESSIONS_MAX):
        gets.forget(f"another {number}")
    assert len(gets._ended) == limits.HTTP_SESSIONS_MAX


# --- before a real server ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def echoes() -> Iterator[TeamServer]:
    with TeamServer.of_echoes() as server:
        yield server


def opened(server: TeamServer) -> dict[str, str]:
    """Open a session, have the library answer a call of it, and return the headers of its requests."""
    headers = {"mcp_session_id": server.opened(ANNA_TOKEN), "mcp_protocol_version": "2025-06-18"}
    assert server.post(PLAIN, ANNA_TOKEN, **headers).status_code == 200
    return headers


def comparable(response) -> tuple[int, dict[str, Any]]:
    answer = answer_of(response)
    if "result" in answer:
        answer["result"].pop("content")
        assert answer["result"]["structuredContent"].pop("auditId")
    return response.status_code, answer


ERRANDS = ["echo", "missing", "untrusted", "broken", "surrogate", "large"]


@pytest.mark.parametrize("errand", ERRANDS)
def test_both_ways_give_the_same_in_a_session(echoes, errand):
    headers = opened(echoes)
    message = call(GET, {"record_id": f"mem_{errand}"})
    short = echoes.post(message, ANNA_TOKEN, **headers)
    long = echoes.post(with_params(message, _meta={"progressToken": 1}), ANNA_TOKEN, **headers)
    assert short.headers["content-type"] == "application/json"
    assert long.headers["content-type"].startswith("text/event-stream")
    assert short.headers["mcp-session-id"] == long.headers["mcp-session-id"] == headers["mcp_session_id"]
    assert comparable(short) == comparable(long)


@pytest.mark.parametrize("errand", ERRANDS)
def test_both_ways_give_the_same_by_an_envelope(echoes, errand):
    message, headers = modern(PLAIN)
    assert echoes.post(message, ANNA_TOKEN, **headers).status_code == 200  # known from here on
    message, headers = modern(call(GET, {"record_id": f"mem_{errand}"}))
    short = echoes.post(message, ANNA_TOKEN, **headers)
    long = echoes.post(
        with_params(message, _meta={**message["params"]["_meta"], "progressToken": 1}), ANNA_TOKEN, **headers
    )
    assert comparable(short) == comparable(long)


def test_a_session_that_is_ended_or_anothers_is_not_found(echoes):
    headers = opened(echoes)
    assert echoes.post(PLAIN, ANNA_TOKEN, **headers).headers["content-type"] == "application/json"
    assert echoes.post(PLAIN, BEN_TOKEN, **headers).status_code == 404
    session = {"mcp-session-id": headers["mcp_session_id"]}
    assert echoes.ask("DELETE", token=ANNA_TOKEN, headers=session).status_code == 200
    assert echoes.post(PLAIN, ANNA_TOKEN, **headers).status_code == 404


def test_a_greeting_in_a_known_session_is_the_librarys(echoes):
    headers = opened(echoes)
    assert echoes.post(HELLO, ANNA_TOKEN, **headers).status_code == 200
    assert echoes.post(READY, ANNA_TOKEN, **headers).status_code == 202
    assert comparable(echoes.post(PLAIN, ANNA_TOKEN, **headers))[0] == 200
