"""The handshakes of known clients against the real server, line by line; then a call, as each of them writes one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.clients.handshakes import OPENINGS
from tests.hostile.served import Store
from tests.tools.memory.world import PURPOSE
from tools.host.capabilities import ALL_TOOLS, SEARCH


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store.make(tmp_path_factory.mktemp("clients"))


@pytest.fixture
def server(store):
    served = store.serve()
    yield served.read()
    served.kill()


def judge(answer, right):
    if right == "result":
        assert "result" in answer, answer
    else:
        assert answer["error"]["code"] == right
        assert len(answer["error"]["message"]) < 100


@pytest.mark.parametrize("client", list(OPENINGS))
def test_a_client_is_answered_at_each_step(server, client):
    listed: list[dict[str, Any]] = []
    envelope: dict[str, Any] = {}
    for message, right in OPENINGS[client]:
        server.send_raw(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        if right is None:
            continue
        answer = server.answer(message["id"])
        judge(answer, right)
        if message["method"] == "initialize":
            assert answer["result"]["protocolVersion"] == message["params"]["protocolVersion"]
            assert set(answer["result"]["capabilities"]) == {"tools"}
        envelope = message["params"].get("_meta", envelope)
        if message["method"] == "tools/list":
            listed = answer["result"]["tools"]
    assert listed
    assert {tool["name"] for tool in listed} <= set(ALL_TOOLS)
    assert all(tool["inputSchema"]["type"] == "object" for tool in listed)
    arguments = {"query": "what was there", "purpose_ref": PURPOSE}
    params = {
        "name": SEARCH,
        "arguments": arguments,
        "_meta": envelope | {"progressToken": 9, "some.client/toolUseId": "toolu_1"},
    }
    answer = server.ask({"id": 9, "method": "tools/call", "params": params})
    assert answer["result"]["structuredContent"]["output"]["value"]["records"]
    assert server.end() == 0
    assert server.impure == []


@pytest.mark.parametrize("client", list(OPENINGS))
def test_a_client_that_waits_for_nothing_is_answered_the_same(server, client):
    """All of its lines in one write, the handshake's answer unread."""
    steps = OPENINGS[client]
    server.send_raw(b"".join(json.dumps(message).encode() + b"\r\n" for message, _ in steps))
    waited = {message["id"]: right for message, right in steps if right is not None}
    while waited:
        answer = server.receive()
        judge(answer, waited.pop(answer["id"]))
    assert server.end() == 0
    assert server.impure == []
