"""The strict reader's verdicts, line by line."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.limits import (
    ARGUMENTS_MAX_BYTES,
    JSON_DEPTH_MAX,
    LINE_MAX_BYTES,
    METHOD_MAX_BYTES,
    REQUEST_ID_MAX_BYTES,
    SAFE_INTEGER_MAX,
)
from tools.server.decoding import Reason
from tools.server.strict import INVALID_REQUEST, PARSE_ERROR, Clean, Dropped, Refused, read_line

TOOL = "engram_memory_get"


def call(arguments: bytes, request_id: bytes = b"7") -> bytes:
    """Return a call whose id stands at the end, as some clients write it."""
    params = b'{"name":"engram_memory_get","arguments":' + arguments + b"}"
    return b'{"method":"tools/call","params":' + params + b',"jsonrpc":"2.0","id":' + request_id + b"}"


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "id": 0, "method": "ping", "params": {}},
        {"jsonrpc": "2.0", "id": -5, "method": "tools/list", "params": None},
        {"jsonrpc": "2.0", "id": SAFE_INTEGER_MAX, "method": "ping"},
        {"jsonrpc": "2.0", "id": "", "method": "ping"},
        {"jsonrpc": "2.0", "id": "한" * (REQUEST_ID_MAX_BYTES // 3), "method": "ping"},
        {"jsonrpc": "2.0", "id": 1, "method": "m" * METHOD_MAX_BYTES},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": TOOL}},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": TOOL, "arguments": {"a": None}}},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call"},
        {"jsonrpc": "2.0", "id": 1, "method": "prompts/get", "params": {"arguments": 5}},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "no", "data": [1]}},
    ],
)
def test_a_clean_message_passes_as_it_is(message):
    assert read_line(json.dumps(message).encode()) == Clean(message)
    assert read_line(json.dumps(message, ensure_ascii=False).encode() + b"  \r") == Clean(message)


def test_an_integral_float_is_an_integer_also_as_an_id():
    verdict = read_line(b'{"jsonrpc":"2.0","id":1.0,"method":"ping","params":{"a":[2.0,2.5]}}')

    assert isinstance(verdict, Clean)
    assert json.dumps(verdict.message["id"]) == "1"
    assert json.dumps(verdict.message["params"]) == '{"a": [2, 2.5]}'


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (b"null", Reason.ARGUMENTS),
        (b"[]", Reason.ARGUMENTS),
        (b'"{}"', Reason.ARGUMENTS),
        (b"5", Reason.ARGUMENTS),
        (b'{"a":1,"a":1}', Reason.DUPLICATE_KEY),
        ('{"\u00e9":1,"e\u0301":1}'.encode(), Reason.DUPLICATE_KEY),
        (b'{"a":NaN}', Reason.NOT_A_NUMBER),
        (b'{"a":Infinity}', Reason.NOT_A_NUMBER),
        (b'{"a":1e400}', Reason.INFINITE),
        (b'{"a":-0}', Reason.NEGATIVE_ZERO),
        (b'{"a":-0.0}', Reason.NEGATIVE_ZERO),
        (b'{"a":9007199254740992}', Reason.UNSAFE_INTEGER),
        (b'{"a":' + b"9" * 4_301 + b"}", Reason.DIGITS),
        (b'{"a":"\\ud800"}', Reason.SURROGATE),
        (b'{"a":"\xed\xa0\x80"}', Reason.NOT_UTF8),
        (b'{"a":"\xff"}', Reason.NOT_UTF8),
        (b'{"a":' + b"[" * 200 + b"]" * 200 + b"}", Reason.DEPTH),
        (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", Reason.DEPTH),
        (b"{a:1}", Reason.NOT_JSON),
        (b'{"a":"\n"}', Reason.NOT_JSON),
        (b'{"a":"' + b"x" * 3_000_000 + b'"}', Reason.ARGUMENTS),
        (b'{"a":"' + b"x" * LINE_MAX_BYTES + b'"}', Reason.LENGTH),
    ],
)
@pytest.mark.parametrize("request_id", [7, "seven"])
def test_a_broken_call_is_answered_as_a_call(arguments, reason, request_id):
    verdict = read_line(call(arguments, json.dumps(request_id).encode()))

    assert isinstance(verdict, Refused)
    assert (verdict.reason, verdict.request_id, verdict.tool) == (reason, request_id, TOOL)


@pytest.mark.parametrize(("size_bytes", "fits"), [(-1, True), (0, True), (1, False)])
@pytest.mark.parametrize("filler", [b"x", "한".encode(), b"\\u0041", b'\\"'])
def test_the_arguments_bound_is_of_their_bytes_as_received(size_bytes, fits, filler):
    room = ARGUMENTS_MAX_BYTES + size_bytes - len(b'{"a":""}')
    text = filler * (room // len(filler))
    arguments = b'{"a":"' + text + b"x" * (room - len(text)) + b'"}'
    assert len(arguments) == ARGUMENTS_MAX_BYTES + size_bytes

    verdict = read_line(call(arguments))

    assert isinstance(verdict, Clean) is fits


def test_white_space_inside_the_arguments_counts():
    arguments = b'{"a":' + b" " * ARGUMENTS_MAX_BYTES + b"1}"

    assert isinstance(read_line(call(arguments)), Refused)


def test_white_space_beside_the_arguments_does_not():
    assert isinstance(read_line(call(b'{"a":1}' + b" " * ARGUMENTS_MAX_BYTES)), Clean)


def test_the_line_bound():
    for size_bytes, clean in ((LINE_MAX_BYTES, True), (LINE_MAX_BYTES + 1, False)):
        line = call(b"{}").ljust(size_bytes)

        assert isinstance(read_line(line), Clean) is clean


def test_the_deepest_line_that_passes():
    inner = JSON_DEPTH_MAX - 2  # the line's object and its params

    assert isinstance(read_line(call(b'{"a":' * inner + b"1" + b"}" * inner)), Clean)
    assert isinstance(read_line(call(b'{"a":' * (inner + 1) + b"1" + b"}" * (inner + 1))), Refused)


@pytest.mark.parametrize(
    ("line", "code", "request_id"),
    [
        (b"garbage", PARSE_ERROR, None),
        (b"{", PARSE_ERROR, None),
        (b"\xff\xfe", PARSE_ERROR, None),
        (b'{"jsonrpc":"2.0","id":4,"method":"ping"', PARSE_ERROR, 4),
        (b'{"jsonrpc":"2.0","id":4,"method":"ping","params":{NaN}}', PARSE_ERROR, 4),
        (b'{"jsonrpc":"2.0","id":4,"method":"ping"}{}', PARSE_ERROR, 4),
        (b'{"jsonrpc":"2.0","method":"notifications/initialized","par', PARSE_ERROR, None),
        (b"[]", INVALID_REQUEST, None),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', INVALID_REQUEST, None),
        (b"5", INVALID_REQUEST, None),
        (b"null", INVALID_REQUEST, None),
        (b'"ping"', INVALID_REQUEST, None),
        (b"{}", INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":1}', INVALID_REQUEST, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":5}', INVALID_REQUEST, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":null}', INVALID_REQUEST, 1),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', INVALID_REQUEST, 1),
        (b'{"jsonrpc":2.0,"id":1,"method":"ping"}', INVALID_REQUEST, 1),
        (b'{"id":1,"method":"ping"}', INVALID_REQUEST, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', INVALID_REQUEST, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}', INVALID_REQUEST, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[{"name":"x"}]}', INVALID_REQUEST, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"' + b"m" * (METHOD_MAX_BYTES + 1) + b'"}', INVALID_REQUEST, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":-0}}', INVALID_REQUEST, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}', INVALID_REQUEST, 1),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}', INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":9007199254740992,"method":"ping"}', INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":"' + b"a" * (REQUEST_ID_MAX_BYTES + 1) + b'","method":"ping"}', INVALID_REQUEST, None),
        (call(b"null", b"null"), INVALID_REQUEST, None),
        (call(b'{"a":1,"a":1}', b"true"), INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"arguments":null}}', INVALID_REQUEST, 3),
        (b'{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":5,"arguments":[]}}', INVALID_REQUEST, 3),
    ],
)
def test_what_is_no_request_gets_a_protocol_error(line, code, request_id):
    verdict = read_line(line)

    assert isinstance(verdict, Refused)
    assert (verdict.code, verdict.request_id, verdict.tool) == (code, request_id, None)


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":-0}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":[]}',
        b'{"jsonrpc":"1.0","method":"notifications/cancelled"}',
        b'{"jsonrpc":"2.0","method":"tools/call","params":{"a":1,"a":2}}',
        b'{"jsonrpc":"2.0","id":1,"result":{"a":-0}}',  # under this id they may have a request of their own
        b'{"jsonrpc":"2.0","id":1,"result":5}',
        b'{"jsonrpc":"2.0","id":null,"result":{}}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":"x","message":"y"}}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"y"},"result":{}}',
    ],
)
def test_a_broken_notification_or_answer_is_dropped(line):
    assert isinstance(read_line(line), Dropped)


clean_ids = st.integers(-SAFE_INTEGER_MAX, SAFE_INTEGER_MAX) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=64
)


@given(clean_ids, st.binary(max_size=200) | st.text(st.sampled_from('{}[]",:\\u0d8-.e1 ')).map(str.encode))
def test_whatever_the_arguments_hold_the_id_is_answered(request_id, nonsense):
    head = {"jsonrpc": "2.0", "id": request_id, "method": "tools/call"}
    line = json.dumps(head).encode()[:-1] + b',"params":{"name":"engram_memory_get","arguments":' + nonsense + b"}}"

    verdict = read_line(line)

    if isinstance(verdict, Clean):
        assert verdict.message["id"] == request_id
    else:
        assert isinstance(verdict, Refused)
        assert verdict.request_id == request_id


@given(st.binary() | st.text().map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_no_line_raises(line):
    assert isinstance(read_line(line), Clean | Refused | Dropped)
