"""What a request must look like, one refusal after the other, and what an operator looks at."""

from __future__ import annotations

import json
import socket
import time

import pytest

from tests.tools.memory.world import PURPOSE
from tests.tools.server.http.team import ANNA_TOKEN, HELLO, LIST, MODERN, answer_of, call, modern
from tools.host.capabilities import CAPTURE, GET, SEARCH


def until(holds):
    ends = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_a_refused_call_is_one_line_that_says_whose_it_was_and_why(static_team):
    session, before = static_team.opened(ANNA_TOKEN), len(static_team.log)
    refused = answer_of(
        static_team.post(call(GET, {"record_id": "mem_" + "a" * 52, "purpose_ref": PURPOSE}), ANNA_TOKEN,
        mcp_session_id=session)
    )["result"]["structuredContent"]  # fmt: skip
    foreign = call(SEARCH, {"query": "x", "purpose_ref": "purpose:foreign"})
    assert answer_of(static_team.post(foreign, ANNA_TOKEN, mcp_session_id=session))["error"]["code"] == -32603
    until(lambda: len(static_team.log) >= before + 2)
    first, second = [line for line in static_team.log[before:] if line["event"] not in ("request refused", "opened")]
    whose = {"tenant": "default", "workspace": "default", "principal": "Anna"}
    assert first.items() >= {**whose, "event": "call", "code": "NOT_FOUND", "audit_id": refused["auditId"]}.items()
    assert second.items() >= {**whose, "event": "call", "code": "-32603", "tool": SEARCH}.items()
    assert second["detail"] == "a purpose that the host did not bind"
    assert second["audit_id"]


@pytest.mark.parametrize("host", ["evil.example.com", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example.com:80"])
def test_a_foreign_host(static_team, host):
    assert static_team.post(HELLO, ANNA_TOKEN, host=host).status_code == 421
    for path in ("/metrics", "/.well-known/oauth-protected-resource/mcp"):
        assert static_team.ask("GET", path, headers={"host": host}).status_code == 421


@pytest.mark.parametrize("origin", ["https://evil.example.com", "null", "http://127.0.0.1:1"])
def test_a_foreign_origin(static_team, origin):
    assert static_team.post(HELLO, ANNA_TOKEN, origin=origin).status_code == 403
    assert "access-control-allow-origin" not in static_team.post(HELLO, ANNA_TOKEN, origin=origin).headers


def test_local_names_are_served(static_team):
    for name in ("localhost", "127.0.0.1", "[::1]"):
        own = f"{name}:{static_team.port}"
        assert static_team.post(HELLO, ANNA_TOKEN, host=own, origin=f"http://{own}").status_code == 200


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS", "HEAD", "TRACE"])
def test_other_methods(static_team, method):
    answer = static_team.ask(method, token=ANNA_TOKEN)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST, GET, DELETE")


@pytest.mark.parametrize("media_type", ["text/plain", "application/json-patch+json", "multipart/form-data", ""])
def test_other_media_types(static_team, media_type):
    assert static_team.post(HELLO, ANNA_TOKEN, content_type=media_type).status_code == 415


def test_a_packed_body_and_an_unacceptable_answer(static_team):
    assert static_team.post(HELLO, ANNA_TOKEN, content_encoding="gzip").status_code == 415
    assert static_team.post(HELLO, ANNA_TOKEN, accept="text/html").status_code == 406


def test_a_body_that_is_too_large_whether_it_says_so_or_not(static_team):
    size_bytes = 4 * 1024 * 1024
    padded = json.dumps(HELLO).encode()
    assert static_team.post(padded + b" " * (size_bytes - len(padded)), ANNA_TOKEN).status_code == 200
    assert static_team.post(b" " * (size_bytes + 1), ANNA_TOKEN).status_code == 413

    def pieces():
        for _ in range(5):
            yield b" " * 1024 * 1024

    headers = {"content-type": "application/json"}
    assert static_team.ask("POST", token=ANNA_TOKEN, headers=headers, content=pieces()).status_code == 413


def test_nothing_of_a_body_is_read_before_the_sender_is_known(static_team):
    """A request without a token is answered although its body never comes."""
    with socket.create_connection(("127.0.0.1", static_team.port), timeout=30) as wire:
        head = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{static_team.port}\r\n"
        wire.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 4000000\r\n\r\n".encode())
        assert wire.recv(100).startswith(b"HTTP/1.1 401 ")


def test_headers_without_an_end_are_refused(static_team):
    with socket.create_connection(("127.0.0.1", static_team.port), timeout=30) as wire:
        wire.sendall(b"POST /mcp HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 100_000)
        assert wire.recv(100).startswith(b"HTTP/1.1 400 ")


BAD_BODIES = {
    "not JSON": (b"{", 400, -32700),
    "empty": (b"", 400, -32700),
    "not UTF-8": (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', 400, -32700),
    "a batch": (json.dumps([HELLO]).encode(), 400, -32600),
    "duplicate keys": (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', 400, -32600),
    "NaN": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}', 400, -32700),
    "a broken notification": (b'{"jsonrpc":"2.0","method":"x","params":{"a":1,"a":2}}', 400, -32600),
    "an unknown tool": (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":[]}}',
        400,
        -32602,
    ),
}


@pytest.mark.parametrize("name", list(BAD_BODIES))
def test_the_same_filter_of_bad_json_as_over_stdio(static_team, name):
    body, status, code = BAD_BODIES[name]
    answer = static_team.post(body, ANNA_TOKEN)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


@pytest.mark.parametrize(
    "arguments",
    ['{"query":"\\ud800"}', '{"query":"x","query":"y"}', '{"limit":-0}', '{"limit":' + "1" * 4_301 + "}", "[" * 200],
)
@pytest.mark.parametrize("is_modern", [False, True])
def test_a_call_that_cannot_be_read_is_answered_by_its_tool(static_team, arguments, is_modern):
    body = f'{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"{SEARCH}","arguments":{arguments}}}}}'
    headers = {"mcp_protocol_version": MODERN} if is_modern else {}
    answer = static_team.post(body.encode(), ANNA_TOKEN, **headers).json()
    if "result" not in answer:  # nothing closes the brackets: whose call it is cannot be told
        assert arguments.startswith("[")
        assert answer["error"]["code"] in {-32600, -32700}
        return
    assert answer["id"] == 7
    result = answer["result"]
    assert result["structuredContent"]["error"]["code"] == "INVALID_SCHEMA"
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    assert ("resultType" in result, "_meta" in result) == (is_modern, is_modern)


def test_the_version_of_the_protocol(static_team):
    session = static_team.opened(ANNA_TOKEN)
    good = static_team.post(LIST, ANNA_TOKEN, mcp_session_id=session, mcp_protocol_version="2025-06-18")
    assert good.status_code == 200
    for version in ("1999-01-01", "x"):
        answer = static_team.post(LIST, ANNA_TOKEN, mcp_session_id=session, mcp_protocol_version=version)
        assert answer.status_code == 400


def test_headers_that_do_not_say_what_the_body_says(static_team):
    message, headers = modern(call(SEARCH, {"query": "x", "purpose_ref": PURPOSE}))
    assert "result" in answer_of(static_team.post(message, ANNA_TOKEN, **headers))
    for other in ({"mcp_name": CAPTURE}, {"mcp_method": "tools/list"}):
        answer = static_team.post(message, ANNA_TOKEN, **{**headers, **other})
        assert (answer.status_code, "error" in answer.json()) == (400, True)


def test_a_session_that_was_never_opened(static_team):
    assert static_team.post(LIST, ANNA_TOKEN, mcp_session_id="0" * 32).status_code == 404
    assert static_team.post(LIST, ANNA_TOKEN).status_code == 400


def test_what_an_operator_looks_at(static_team):
    session = static_team.opened(ANNA_TOKEN)
    static_team.post(
        call(SEARCH, {"query": "x", "purpose_ref": PURPOSE}), ANNA_TOKEN, mcp_session_id=session
    ).raise_for_status()
    static_team.post(call(SEARCH, {"query": 1}), ANNA_TOKEN, mcp_session_id=session).raise_for_status()
    static_team.post(HELLO)
    assert (static_team.ask("GET", "/healthz").text, static_team.ask("GET", "/readyz").text) == ("ok\n", "ready\n")
    text = static_team.ask("GET", "/metrics").text
    assert f'engram_calls_total{{tool="{SEARCH}",code="ok"}}' in text
    assert f'engram_calls_total{{tool="{SEARCH}",code="INVALID_SCHEMA"}}' in text
    assert f'engram_call_seconds_bucket{{tool="{SEARCH}",le="+Inf"}}' in text
    assert 'engram_requests_refused_total{reason="token: no token"}' in text
    assert "engram_calls_in_flight 0\n" in text
    assert "engram_draining 0\n" in text


def test_the_figures_are_for_this_machine_and_for_who_has_a_token(static_team):
    for name in ("x-forwarded-for", "forwarded", "x-real-ip"):
        assert static_team.ask("GET", "/metrics", headers={name: "192.0.2.1"}).status_code == 401
    headers = {"x-forwarded-for": "192.0.2.1"}
    assert static_team.ask("GET", "/metrics", token=ANNA_TOKEN, headers=headers).status_code == 200


@pytest.mark.parametrize("path", ["/", "/mcp/", "/mcp/x", "/metrics/", "/docs", "//mcp"])
def test_nothing_else_stands_here(static_team, path):
    answer = static_team.ask("GET", path, token=ANNA_TOKEN)
    assert (answer.status_code, "location" in answer.headers) == (404, False)
