"""What a client is told of the user in the answer to its first request, in either era."""

from __future__ import annotations

import pytest

from journal.limits import INSTRUCTIONS_STATIC_MAX_BYTES
from tests.tools.server.raw_server import INITIALIZE, MODERN_ENVELOPE, RawServer

KNOWN = "이름은 안나"
HELLO = {"id": 0, "method": "initialize", "params": INITIALIZE}


def told(server: RawServer) -> str:
    text = server.read().ask(HELLO)["result"]["instructions"]
    assert isinstance(text, str)
    return text


def test_the_handshake_tells_what_is_remembered(start):
    text = told(start(KNOWN))

    assert f"About the user:\n{KNOWN}\nPinned:\n- a pin\nCall memory_startup" in text
    assert '"purpose:case"' in text


def test_a_client_of_the_modern_era_is_told_the_same(start):
    server = start(KNOWN).read()

    answer = server.ask({"id": 1, "method": "server/discover", "params": {"_meta": MODERN_ENVELOPE}})["result"]

    assert answer["instructions"] == told(start(KNOWN))


@pytest.mark.parametrize("trouble", ["slow", "broken"])
def test_a_store_that_does_not_answer_leaves_the_static_part_and_a_server_that_serves(start, trouble):
    server = start(trouble)

    text = told(server)
    assert len(text.encode()) <= INSTRUCTIONS_STATIC_MAX_BYTES
    assert "About the user" not in text
    assert "the text of an exception" not in text
    server.send({"method": "notifications/initialized"})
    server.call(2, "echo")
    assert server.answer(2)["result"]["isError"] is False
    assert server.end() == 0
    assert b"the text of an exception" not in server.log


def test_another_answer_carries_no_instructions(start):
    server = start(KNOWN).read().handshake()

    assert "instructions" not in server.ask({"id": 1, "method": "tools/list"})["result"]
    assert "instructions" not in server.ask({"id": 2, "method": "ping"})["result"]
