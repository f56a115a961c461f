"""Generated nonsense against a server process: answered, alive, and nothing but protocol on stdout."""

import json
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tools.server.raw_server import RawServer
from tools.server.decoding import Flaw, decode

TOOL = "engram_memory_capture"
KNOWN_CODES = {-32700, -32600, -32601, -32602, -32603}

scalars = st.sampled_from(
    [
        b"null",
        b"true",
        b"0",
        b"-0",
        b"-0.0",
        b"1.0",
        b"1e400",
        b"NaN",
        b"-Infinity",
        b"9007199254740993",
        b"1" * 4_301,
        b'""',
        b'"\\ud800"',
        b'"\xed\xa0\x80"',
        b'"\xff"',
        b'"\\u0000\\u200f\\u202e"',
        '"e\u0301\u200b한글"'.encode(),
        b"[" * 70 + b"]" * 70,
        b"[" * 2_000 + b"]" * 2_000,
    ]
) | st.text(max_size=20).map(lambda text: json.dumps(text).encode())
keys = st.sampled_from([b'"a"', b'"a"', b'"query"', b'"payload"', '"\u00e9"'.encode(), '"e\u0301"'.encode()])


def objects(values):
    members = st.lists(st.tuples(keys, values).map(b":".join), max_size=4)
    return members.map(lambda pairs: b"{" + b",".join(pairs) + b"}")


values = st.recursive(
    scalars, lambda inner: objects(inner) | st.lists(inner, max_size=4).map(lambda all_: b"[" + b",".join(all_) + b"]")
)
arguments = values | st.binary(max_size=30).map(lambda some: some.replace(b"\n", b"").replace(b'"id"', b""))
requests = st.fixed_dictionaries(
    {
        "method": st.sampled_from([b'"tools/call"'] * 5 + [b'"tools/list"', b'"ping"', b'"no/such"', b"5", b"null"]),
        "tool": st.sampled_from([b'"engram_memory_capture"'] * 5 + [b'"no_such_tool"', b"null", b'"\\ud800"']),
        "arguments": arguments,
        "meta": st.none() | objects(values),
        "id_first": st.booleans(),
        "version": st.sampled_from([b'"2.0"'] * 6 + [b'"1.0"', b"2"]),
    }
)


def line_of(request: dict, request_id: int) -> bytes:
    """Write a request out; its id stands once and is well formed, whatever the rest is."""
    meta = b',"_meta":' + request["meta"] if request["meta"] else b""
    params = b'{"name":' + request["tool"] + b',"arguments":' + request["arguments"] + meta + b"}"
    identity = b'"id":%d' % request_id
    rest = b'"jsonrpc":' + request["version"] + b',"method":' + request["method"]
    if request["id_first"]:
        return b"{" + identity + b"," + rest + b',"params":' + params + b"}\n"
    return b"{" + rest + b',"params":' + params + b"," + identity + b"}\n"


def is_readable(line: bytes, request_id: int) -> bool:
    """Tell whether nonsense in the arguments did not hide the id behind it: an unclosed string or bracket does."""
    try:
        return decode(line)["id"] == request_id
    except (Flaw, KeyError, TypeError):
        return line.startswith(b'{"id"')


def check(answer: dict, request: dict) -> None:
    """An answer is a well-formed envelope or a protocol error of constant words."""
    if "error" in answer:
        assert answer["error"]["code"] in KNOWN_CODES
        assert len(answer["error"]["message"]) < 100
        return
    if request["method"] == b'"tools/call"':
        assert answer["result"]["structuredContent"] == json.loads(answer["result"]["content"][0]["text"])
        assert answer["result"]["isError"] is not answer["result"]["structuredContent"]["ok"]
        if answer["result"]["isError"]:
            assert answer["result"]["structuredContent"]["error"]["code"] == "INVALID_SCHEMA"


@pytest.fixture(scope="module")
def long_lived():
    """One server for all examples, with the number of the next id."""
    server = RawServer().read().handshake()
    yield server, count(1)
    assert server.end() == 0
    assert server.impure == []
    assert b"Traceback" not in server.log
    server.stdout.close()
    server.stderr.close()


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(requests, min_size=1, max_size=20))
def test_every_line_with_a_readable_id_is_answered(long_lived, batch):
    server, numbers = long_lived
    numbered = [(next(numbers), request) for request in batch]
    lines = {number: line_of(request, number) for number, request in numbered}
    marker = next(numbers)

    server.send_raw(b"".join(lines.values()) + b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n' % marker)

    answers: dict[int | None, dict] = {}
    expected = {number for number, line in lines.items() if is_readable(line, number)} | {marker}
    while not expected <= set(answers):
        answer = server.receive()
        assert answer["id"] not in answers or answer["id"] is None
        answers[answer["id"]] = answer
    for number, request in numbered:
        if number in answers:
            check(answers[number], request)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(max_size=200) | st.text(max_size=50).map(str.encode), max_size=20))
def test_noise_does_not_end_it(long_lived, noise):
    server, numbers = long_lived
    marker = next(numbers)

    server.send_raw(b"\n".join(noise) + b'\n{"jsonrpc":"2.0","id":%d,"method":"ping"}\n' % marker)

    assert server.answer(marker)["result"] == {}
