"""The stdio transport, in a process of its own: every line answered, memory bounded, a quiet end."""

import asyncio
import json
import os
import select
import signal
import subprocess
import threading
from concurrent.futures import Future

import anyio
import pytest
from mcp_types import ErrorData, JSONRPCError, JSONRPCNotification, JSONRPCResponse

from journal.limits import CALLS_IN_FLIGHT_MAX, LINE_MAX_BYTES, MIB
from tests.tools.server.raw_server import ECHO_COMMAND, ENVIRONMENT, INITIALIZE, MODERN_ENVELOPE
from tools.server.direct import DirectCalls, Running
from tools.server.envelope import random_audit_id
from tools.server.stdio import StdioTransport, _encoded

CALL = b'"method":"tools/call","params":{"name":"engram_memory_get","arguments":'


def told(answer):
    return answer["result"]["structuredContent"]["output"]["value"]


def test_crlf_blank_lines_and_lines_in_pieces(server):
    server.send_raw(b'\r\n\n  \n{"jsonrpc":"2.0","id":1,"method":"ping"}\r\n{"jsonrpc":"2.0","id":2,')
    assert server.receive() == {"jsonrpc": "2.0", "id": 1, "result": {}}

    server.send_raw(b'"method":"ping"}\n')
    assert server.receive() == {"jsonrpc": "2.0", "id": 2, "result": {}}


def test_a_whole_message_without_a_line_end_counts(server):
    server.send_raw(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    server.stdin.close()

    assert server.answer(1)["result"] == {}
    assert server.end() == 0


def test_half_a_line_at_the_end_is_answered_under_its_id(server):
    server.send_raw(b'{"jsonrpc":"2.0","id":1,' + CALL + b'{"record_id":"mem_')
    server.stdin.close()

    answer = server.answer(1)["result"]
    assert answer["structuredContent"]["error"]["code"] == "INVALID_SCHEMA"
    assert server.end() == 0


def test_whoever_closes_stdin_still_gets_the_answers(server):
    for number in range(200):
        server.call(number, "echo")
    server.stdin.close()

    assert sorted(server.receive()["id"] for _ in range(200)) == list(range(200))
    assert server.end() == 0
    assert b"closed" in server.log


def test_a_line_over_the_bound_is_answered_and_not_kept(server):
    server.call("before", "echo")
    server.answer("before")
    before = server.resident_bytes()

    piece = b"x" * MIB
    server.send_raw(b"{" + CALL + b'{"a":"')
    for _ in range(64):
        server.send_raw(piece)
    held = server.resident_bytes()
    server.send_raw(b'"}},"jsonrpc":"2.0","id":"the end"}\n')

    answer = server.answer("the end")["result"]
    assert answer["structuredContent"]["error"]["code"] == "INVALID_SCHEMA"
    assert held - before < 4 * LINE_MAX_BYTES
    assert server.ask({"id": 2, "method": "ping"})["result"] == {}


def test_three_megabytes_and_deep_nesting_are_answered(server):
    server.send_raw(b"{" + CALL + b'{"a":"' + b"x" * 3 * MIB + b'"}},"jsonrpc":"2.0","id":1}\n')
    assert server.answer(1)["result"]["structuredContent"]["error"]["code"] == "INVALID_SCHEMA"

    server.send_raw(b"{" + CALL + b"[" * 100_000 + b"]" * 100_000 + b'},"jsonrpc":"2.0","id":2}\n')
    assert server.answer(2)["result"]["structuredContent"]["error"]["code"] == "INVALID_SCHEMA"


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        (b"garbage", {"id": None, "error": {"code": -32700, "message": "not JSON"}}),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', {"id": None, "error": {"code": -32600}}),
        (b'{"jsonrpc":"2.0","id":4}', {"id": 4, "error": {"code": -32600}}),
        (b'{"jsonrpc":"2.0","id":4,"method":"no/such"}', {"id": 4, "error": {"code": -32601}}),
        (b'{"jsonrpc":"2.0","id":4,"method":"tools/list","params":{"cursor":5}}', {"id": 4, "error": {"code": -32602}}),
        (
            b'{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"no_such","arguments":null}}',
            {"id": 4, "error": {"code": -32602, "message": "unknown tool"}},
        ),
        (b'{"jsonrpc":"2.0","id":4,"method":"tools/call"}', {"id": 4, "error": {"code": -32602}}),
    ],
)
def test_what_is_no_call_gets_a_protocol_error(server, line, answer):
    server.send_raw(line + b"\n")

    received = server.receive()

    assert received["id"] == answer["id"]
    assert received["error"] | answer["error"] == received["error"]


def test_a_broken_notification_gets_no_answer(server):
    server.send_raw(b'{"jsonrpc":"2.0","method":"notifications/x","params":{"a":-0}}\n')
    server.send_raw(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":-0}}\n')
    server.send_raw(b'{"jsonrpc":"2.0","id":1,"result":{"a":-0}}\n')
    server.send({"id": 2, "method": "ping"})

    assert server.receive()["id"] == 2


def test_nothing_but_protocol_reaches_stdout(server):
    server.call(1, "print")
    server.answer(1)

    assert server.end() == 0
    assert b"printed by a service\n" in server.log  # and the fixture looked at stdout


def test_a_refused_line_is_answered_in_the_era_of_the_connection(start):
    broken = b'{"jsonrpc":"2.0","id":5,' + CALL + b"null}}\n"
    modern = start().read()
    modern.ask({"id": 1, "method": "server/discover", "params": {"_meta": MODERN_ENVELOPE}})
    modern.send_raw(broken)
    legacy = start().read().handshake()
    legacy.send_raw(broken)

    result = modern.answer(5)["result"]
    assert result["resultType"] == "complete"
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "engram-memory"
    assert set(legacy.answer(5)["result"]) == {"content", "structuredContent", "isError"}


def fill(server, line: bytes, limit_bytes: int) -> int:
    """Send copies of a line until the server takes no more; return the bytes that it took."""
    os.set_blocking(server.stdin.fileno(), False)
    taken = 0
    while taken < limit_bytes:
        if not select.select([], [server.stdin], [], 3)[1]:
            return taken
        taken += os.write(server.stdin.fileno(), line)
    pytest.fail("the server took everything")


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n',
        b'{"jsonrpc":"2.0","id":1,' + CALL + b"null}}\n",
        b'{"jsonrpc":"2.0","id":1,' + CALL + b'{"record_id":"mem_large"}}}\n',
        b"garbage\n",
    ],
)
def test_a_client_that_never_reads_waits_in_its_own_pipe(start, line):
    server = start()
    server.send({"id": 0, "method": "initialize", "params": INITIALIZE})

    fill(server, line * 20, 50 * MIB)

    assert server.resident_bytes() < 500 * MIB
    server.process.send_signal(signal.SIGTERM)
    assert server.wait() == 0


def test_a_megabyte_a_line_stays_bounded(server):
    server.call("before", "echo")
    server.answer("before")
    line = b"{" + CALL + b'{"text":"' + b"x" * (MIB - 11) + b'"}},"jsonrpc":"2.0","id":1}\n'

    for _ in range(60):
        server.send_raw(line)
    for _ in range(60):
        answer = server.receive()
        assert len(told(answer)["arguments"]["text"]) == MIB - 11

    assert server.resident_bytes() < 300 * MIB


def test_more_calls_than_fit_are_all_answered(server):
    for number in range(3 * CALLS_IN_FLIGHT_MAX):
        server.call(number, "progress")
    server.send({"id": "last", "method": "ping"})

    answered = [server.receive()["id"] for _ in range(3 * CALLS_IN_FLIGHT_MAX + 1)]
    assert sorted(answered, key=str) == sorted([*range(3 * CALLS_IN_FLIGHT_MAX), "last"], key=str)


def test_cancelled_calls_hold_no_room(server):
    """A cancelled call is never answered; were it not counted out, the server would read no further."""
    for number in range(3 * CALLS_IN_FLIGHT_MAX):
        server.call(number, "wait")
        server.send({"method": "notifications/cancelled", "params": {"requestId": number}})

    server.call("last", "echo")
    assert told(server.answer("last"))["tool"] == "engram_memory_get"


def test_one_id_twice_is_answered_twice(server):
    for _ in range(2):
        server.call("same", "progress")

    assert [server.receive()["id"] for _ in range(2)] == ["same", "same"]


@pytest.mark.parametrize("closed", ["stdin", "stdout"])
def test_a_closed_pipe_is_a_quiet_end(start, closed):
    server = start()
    getattr(server, closed).close()
    if closed == "stdout":
        server.send({"id": 1, "method": "ping"})

    assert server.wait() == 0
    assert server.log == b"closed\n"


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_gracefully(start, stop):
    server = start().read().handshake()
    server.call("waiting", "give")
    server.ask({"id": 1, "method": "ping"})

    server.process.send_signal(stop)

    assert server.answer("waiting")["result"]["structuredContent"]["error"]["code"] == "CANCELLED"
    assert server.wait() == 0
    assert b"closed" in server.log
    assert b"Traceback" not in server.log


def test_stdin_may_be_a_file(tmp_path):
    """A regular file is always readable, and epoll does not take it."""
    script = tmp_path / "calls.jsonl"
    script.write_bytes(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n' * 3)

    with script.open("rb") as stdin:
        ended = subprocess.run(ECHO_COMMAND, stdin=stdin, capture_output=True, env=ENVIRONMENT, check=True, timeout=60)

    assert [json.loads(line)["id"] for line in ended.stdout.splitlines()] == [1, 1, 1]


def test_a_log_that_nobody_reads_stops_nothing():
    with subprocess.Popen(
        ECHO_COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(
            json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": INITIALIZE}).encode()
        )
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()
        for number in range(1_000):  # each logs a line: more than a pipe holds
            process.stdin.write(b'{"jsonrpc":"2.0","id":%d,' % number + CALL + b'{"record_id":"mem_broken"}}}\n')
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["id"] == number
        process.kill()


def test_it_ends_when_the_client_dies(start):
    server = start()
    server.send({"id": 0, "method": "initialize", "params": INITIALIZE})
    server.stdout.readline()
    server.call("waiting", "wait")
    server.send({"id": 1, "method": "ping"})
    server.stdout.readline()

    server.stdout.close()
    server.stdin.close()

    assert server.wait() == 0
    assert b"Traceback" not in server.log


def test_the_text_of_an_exception_is_not_written():
    """The SDK answers an exception that it does not know with code 0 and the exception's text."""
    error = JSONRPCError(jsonrpc="2.0", id=5, error=ErrorData(code=0, message="a secret", data="a secret"))
    expected = {"jsonrpc": "2.0", "id": 5, "error": {"code": -32603, "message": "internal error"}}

    assert json.loads(_encoded(error)) == expected
    assert json.loads(_encoded(JSONRPCResponse(jsonrpc="2.0", id=5, result={"a": "\ud800"}))) == expected
    assert _encoded(JSONRPCNotification(jsonrpc="2.0", method="m", params={"a": "\ud800"})) == b""


def test_a_direct_call_that_ends_in_an_exception_is_answered_and_its_text_told_nobody(capfd):
    """Whatever happens to the thread of a call, its client does not wait for nothing."""

    def begin(*_told):
        rest: Future[bytes | None] = Future()
        rest.set_exception(RuntimeError("the text of an exception"))
        return Running(rest, threading.Event())

    async def granted():
        return ()

    async def serve(read_fd, write_fd):
        direct = DirectCalls(begin)
        direct.note({"method": "initialize", "id": 0})
        direct.note_answer(0, {"protocolVersion": "2025-11-25"})
        direct.note({"method": "notifications/initialized"})
        transport = StdioTransport(
            read_fd, write_fd, granted_tools=granted, cancel_calls=lambda: None,
            audit_ids=random_audit_id, server_info=dict, direct=direct,
        )  # fmt: skip
        with pytest.raises(anyio.EndOfStream):
            await transport.receive()

    (read_fd, client_out), (client_in, write_fd) = os.pipe(), os.pipe()
    os.write(client_out, b'{"jsonrpc":"2.0","id":1,' + CALL + b"{}}}\n")
    os.close(client_out)
    asyncio.run(serve(read_fd, write_fd))
    os.close(write_fd)
    with os.fdopen(client_in, "rb") as lines:
        [answer] = map(json.loads, lines)
    os.close(read_fd)
    assert answer == {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "internal error"}}
    assert "the text" not in "".join(capfd.readouterr())
