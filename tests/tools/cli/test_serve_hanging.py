"""An endpoint of embeddings that takes a request and never answers holds no server: it ends when it is told to."""

from __future__ import annotations

import json
import signal
import subprocess
from contextlib import contextmanager

import pytest

from tests.projections.vector.endpoints import endpoint
from tests.tools.cli.desk import command_line, environment, ready
from tests.tools.cli.test_embeddings_shown import naming
from tests.tools.cli.test_serve_command import HELLO, READY

LONG_SECONDS = 60
ENDS_SECONDS = 15  # the endpoint is waited for twice as long, and what is to be embedded eight times


@pytest.fixture
def hanging():
    with endpoint() as started:

        def never(handler, request):
            started.ended.wait()

        started.replies = [never] * 100
        yield started


@pytest.fixture
def desk(tmp_path, capsys, hanging):
    desk = ready(tmp_path, capsys, "--policy", "accept-asserted")
    with desk.agent() as agent:
        agent.remember("One.")
    naming(desk, hanging)
    return desk


@contextmanager
def serving(desk):
    with subprocess.Popen(
        command_line("serve", "--config", str(desk.host_file)),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment(),
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def send(process, *messages):
    for message in messages:
        process.stdin.write(json.dumps(message).encode() + b"\n")
    process.stdin.flush()


def search(**policy):
    arguments = {"query": "one", "purpose_ref": "purpose:work", "capability_policy": policy}
    params = {"name": "engram_memory_search", "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}


def asked(hanging, process, texts):
    """Wait until the endpoint has a request of these texts."""
    pause = hanging.ended
    for _ in range(LONG_SECONDS * 50):
        if any(request.body["input"] == texts for request in hanging.asked):
            return
        assert process.poll() is None
        pause.wait(0.02)
    pytest.fail("nothing was asked")


@pytest.mark.parametrize("way", ["SIGTERM", "end of input"])
def test_what_is_embedded_behind_the_calls_holds_nobody(desk, hanging, way):
    with serving(desk) as process:
        send(process, HELLO, READY, search(minimum_channels="lexical", network="forbid"))
        asked(hanging, process, ["One."])
        if way == "SIGTERM":
            process.send_signal(signal.SIGTERM)
        else:
            process.stdin.close()
        assert process.wait(ENDS_SECONDS) == 0
    assert desk.ok("audit").code == 0


def test_a_search_that_waits_for_the_endpoint_is_answered_and_lets_go(desk, hanging):
    with serving(desk) as process:
        send(process, HELLO, READY, search(minimum_channels="lexical_and_semantic", network="forbid"))
        asked(hanging, process, ["one"])
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=ENDS_SECONDS)
    answers = {line["id"]: line for line in map(json.loads, out.splitlines()) if "id" in line}
    told = answers[2]["result"]["structuredContent"]
    assert not told["ok"]
    assert told["error"]["code"] in ("RANKING_UNAVAILABLE", "CANCELLED"), "the server ends, and its provider with it"
