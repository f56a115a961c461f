"""The wire: connections that ask for nothing are closed, and what is written in one turn leaves together."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import httpx2
import pytest

from tests.tools.server.http.team import ANNA_TOKEN, HELLO, TeamServer, answer_of, call
from tools.host.capabilities import GET
from tools.server.http.wire import Together


@pytest.fixture(scope="module")
def impatient() -> Iterator[TeamServer]:
    """A server that waits half a second for a head."""
    with TeamServer.of_echoes("impatient") as server:
        yield server


def wire_to(team: TeamServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", team.port), timeout=60)


def closed(wire: socket.socket) -> bytes:
    """Read until the server hangs up; the test's own time-out fails where it does not."""
    read = b""
    while True:
        try:
            piece = wire.recv(65_536)
        except ConnectionResetError:
            return read
        if not piece:
            return read
        read += piece


@pytest.mark.parametrize("sent", [b"", b"P", b"POST /mcp HTTP/1.1\r\nHost: x\r\n"])
def test_no_whole_head(impatient, sent):
    with wire_to(impatient) as wire:
        wire.sendall(sent)
        assert closed(wire) == b""


def test_a_byte_now_and_then_keeps_nothing_open(impatient):
    with wire_to(impatient) as wire:
        wire.settimeout(0.05)
        for number in range(1_000):
            try:
                wire.sendall(b"POST /mcp HTTP/1.1\r\nX: " if number == 0 else b"x")
                if wire.recv(100) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        else:
            pytest.fail("it is still open")


def test_the_rest_of_a_body_that_was_answered_keeps_nothing_open(impatient):
    with wire_to(impatient) as wire:
        head = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{impatient.port}\r\nContent-Length: 4000000\r\n"
        wire.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode())
        assert closed(wire).startswith(b"HTTP/1.1 401 ")


def test_a_call_may_take_longer_than_a_head(impatient):
    """The errand takes twice the time of a head, and the connection serves the next request after it."""
    session = impatient.opened(ANNA_TOKEN)
    message, headers = call(GET, {"record_id": "mem_long"}), {
        "authorization": f"Bearer {ANNA_TOKEN}", "mcp-session-id": session, "content-type": "application/json",
        "accept": "application/json, text/event-stream",
    }  # fmt: skip
    with httpx2.Client(trust_env=False, timeout=60) as client:
        for _ in range(2):
            answer = client.post(impatient.url + "/mcp", json=message, headers=headers)
            assert answer_of(answer)["result"]["isError"] is False


def test_connections_that_say_nothing_do_not_keep_others_out(impatient):
    idle = [wire_to(impatient) for _ in range(200)]
    try:
        assert impatient.post(HELLO, ANNA_TOKEN).status_code == 200
        for wire in idle:
            assert closed(wire) == b""
    finally:
        for wire in idle:
            wire.close()


class Wire(asyncio.Transport):
    """Notes what is done to it."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[object] = []

    def write(self, data):
        self.done.append(bytes(data))

    def close(self):
        self.done.append("closed")

    def abort(self):
        self.done.append("aborted")


def test_what_is_written_in_one_turn_leaves_together():
    async def scenario():
        wire = Wire()
        together = Together(wire)
        for piece in (b"head ", b"", b"body"):
            together.write(piece)
        assert wire.done == []
        await asyncio.sleep(0)
        together.write(b"next")
        await asyncio.sleep(0)
        return wire.done

    assert asyncio.run(scenario()) == [b"head body", b"next"]


@pytest.mark.parametrize(("end", "done"), [("close", [b"last", "closed"]), ("abort", ["aborted"])])
def test_a_connection_that_closes_writes_what_there_is_first(end, done):
    async def scenario():
        wire = Wire()
        together = Together(wire)
        together.write(b"last")
        getattr(together, end)()
        await asyncio.sleep(0)
        return wire.done

    assert asyncio.run(scenario()) == done
