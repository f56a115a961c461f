"""Clients without manners. Each works on a server of its own until its time is over, and says what it did."""

from __future__ import annotations

import json
import select
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tests.hostile.legal_calls import NO_RECORD
from tests.hostile.served import ServedStore
from tests.tools.memory.world import PURPOSE
from tests.tools.server.raw_server import INITIALIZE
from tools.host.capabilities import CAPTURE, GET, SEARCH

MEGABYTE = 1_000_000
WAIT_SECONDS = 0.2

BadClient = Callable[[ServedStore, float], int]


def _call(request_id: int, tool: str, arguments: dict[str, Any]) -> bytes:
    params = {"name": tool, "arguments": arguments}
    message = {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}
    return json.dumps(message).encode() + b"\n"


def never_reads(server: ServedStore, seconds: float) -> int:
    """Search without reading one answer; once the server stops taking lines, keep trying. Return the bytes it took."""
    opening = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": INITIALIZE}
    waiting = json.dumps(opening).encode() + b"\n"
    number, sent, until = 0, 0, time.monotonic() + seconds
    fd = server.stdin.fileno()
    while time.monotonic() < until:
        if not waiting:
            number += 1
            waiting = _call(number, SEARCH, {"query": "honest nightly build", "purpose_ref": PURPOSE, "limit": 50})
        if select.select([], [fd], [], WAIT_SECONDS)[1]:
            piece = waiting[: select.PIPE_BUF]
            server.stdin.write(piece)
            server.stdin.flush()
            waiting = waiting[len(piece) :]
            sent += len(piece)
    return sent


def sends_megabytes(server: ServedStore, seconds: float) -> int:
    """Send a megabyte a line, as fast as the server takes them; return how many. Each is answered, if by an error."""
    server.read().handshake()
    fillers = [b"x", b"[", b"\\\\", b'{"a":', "가".encode()]
    number, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        number += 1
        filler = fillers[number % len(fillers)]
        noise = filler * (MEGABYTE // len(filler))
        call = _call(number, CAPTURE, {"idempotency_key": "@"}).replace(b'"@"', b'"' + noise + b'"')
        server.send_raw(call if number % 2 else noise + b"\n")
    for _ in range(number):
        answer = server.receive()
        assert "error" in answer or answer["result"]["structuredContent"]["error"]["code"] == "INVALID_SCHEMA"
    assert server.ask({"id": "last", "method": "ping"})["result"] == {}
    return number


def cancels_everything(server: ServedStore, seconds: float) -> int:
    """Cancel each call as soon as it is sent; return how many. Those that come too late are answered, or not."""
    server.read().handshake()
    number, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        number += 1
        tool, arguments = [
            (SEARCH, {"query": "honest nightly build", "purpose_ref": PURPOSE}),
            (GET, {"record_id": NO_RECORD, "purpose_ref": PURPOSE}),
        ][number % 2]
        server.send_raw(_call(number, tool, arguments))
        server.send({"method": "notifications/cancelled", "params": {"requestId": number}})
        if number % 100 == 0:
            server.ask({"id": f"still-there-{number}", "method": "ping"})
    assert server.ask({"id": "last", "method": "ping"})["result"] == {}
    return number


BAD_CLIENTS: dict[str, BadClient] = {
    "never reads": never_reads,
    "sends a megabyte a line": sends_megabytes,
    "cancels each call": cancels_everything,
}


def let_go(server: ServedStore) -> None:
    """Close the bad client's ends, as its death would."""
    with suppress(BrokenPipeError):
        server.stdin.close()
    server.stdout.close()
