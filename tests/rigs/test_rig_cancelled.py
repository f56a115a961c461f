"""Captures through the official client, each cancelled at a random moment and tried again: one event each."""

from __future__ import annotations

import random
import statistics
import time

import anyio
import pytest
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.stdio import stdio_client

from tests.rigs.captures import capture
from tests.rigs.lineclient import CALL_SECONDS, envelope
from tests.rigs.place import LONG

CAPTURE = "engram_memory_capture"


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"] if LONG else ["2026-07-28"])
def test_a_cancelled_capture_tried_again_is_there_once(place, sized, told, mode):
    count = sized(60, 500)
    words = place.words("serve")
    parameters = StdioServerParameters(command=words[0], args=words[1:], env=place.environment())
    names, cut = [], 0

    async def run():
        nonlocal cut
        with place.log_file.open("a", encoding="utf-8") as log:
            async with Client(stdio_client(parameters, errlog=log), mode=mode) as client:
                waits = []
                for _ in range(20):
                    begun = time.monotonic()
                    names.append((await ask(client, capture("measured")))["candidate_id"])
                    waits.append(time.monotonic() - begun)
                usual = statistics.median(waits)
                for number in range(count):
                    arguments = capture(f"cancelled {number}")
                    with anyio.move_on_after(random.random() * 2 * usual) as scope:
                        await client.call_tool(CAPTURE, arguments)
                    cut += scope.cancelled_caught
                    names.append((await ask(client, arguments))["candidate_id"])

    async def ask(client, arguments):
        with anyio.fail_after(CALL_SECONDS):
            answered = (await client.call_tool(CAPTURE, arguments)).structured_content
        assert answered["ok"], answered
        return answered["output"]["value"]

    anyio.run(run)
    assert cut > count // 10
    assert len(set(names)) == count + 20
    assert place.captured() == dict.fromkeys(names, 1)
    place.audited()
    told(captures=count, cancelled_before_the_answer=cut)


def test_many_in_flight_are_cancelled_and_tried_again(place, servers, sized, told):
    """By the raw client, sixteen at a time, so that a cancellation meets a call in every step, also in the queue."""
    [server] = servers(1)
    assert server.value("capture", capture("warm"))
    rounds, kept, answered = sized(5, 60), [], 0
    for number in range(rounds):
        many = [capture(f"flight {number} {n}") for n in range(16)]
        first = server.number + 1
        answers = server.calls("capture", many)
        ids = list(range(first, first + 16))
        random.shuffle(ids)
        time.sleep(random.random() * 0.02)
        for each in ids:
            server.notify("notifications/cancelled", {"requestId": each, "reason": "changed my mind"})
        retried = server.calls("capture", many)
        kept += [envelope(answer)["output"]["value"]["candidate_id"] for answer in retried]
        answered += sum(answer.done() for answer in answers)
    counted = place.captured()
    assert {name: counted[name] for name in kept} == dict.fromkeys(kept, 1)
    assert len(counted) == len(kept) + 1 == rounds * 16 + 1
    place.audited()
    told(captures=len(kept), answered_all_the_same=answered)
