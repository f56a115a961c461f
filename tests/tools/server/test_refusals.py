"""What is answered to a refused line."""

import pytest

from tools.server.decoding import Reason
from tools.server.refusals import refusal
from tools.server.strict import INVALID_REQUEST, PARSE_ERROR, Refused


def answer(refused, granted=("engram_memory_get",)):
    return refusal(refused, granted, lambda: "audit")


@pytest.mark.parametrize("request_id", [0, 5, "", "five", None])
@pytest.mark.parametrize("code", [PARSE_ERROR, INVALID_REQUEST])
def test_what_is_no_call_is_answered_under_its_id(request_id, code):
    told = answer(Refused(Reason.DEPTH, code, request_id))

    assert (told["jsonrpc"], told["id"], told["error"]["code"]) == ("2.0", request_id, code)
    assert "result" not in told


def test_a_call_of_a_granted_tool_is_answered_by_an_envelope():
    told = answer(Refused(Reason.DEPTH, INVALID_REQUEST, 5, "engram_memory_get"))

    assert told["id"] == 5
    assert told["result"]["isError"] is True
    assert told["result"]["structuredContent"]["error"]["code"] == "INVALID_SCHEMA"
    assert told["result"]["structuredContent"]["auditId"] == "audit"


@pytest.mark.parametrize(
    ("granted", "code", "message"),
    [((), -32602, "unknown tool"), (None, -32603, "trusted invocation context unavailable")],
)
def test_a_call_of_another_tool_is_a_protocol_error(granted, code, message):
    told = answer(Refused(Reason.DEPTH, INVALID_REQUEST, "x", "engram_memory_get"), granted)

    assert told == {"jsonrpc": "2.0", "id": "x", "error": {"code": code, "message": message}}
