"""The official client against a server process, in both protocol eras."""

import json
import sys

import anyio
import pytest
from mcp import MCPError, StdioServerParameters
from mcp.client import Client

from tests.tools.server.raw_server import ECHO_COMMAND, ENVIRONMENT, MODERN_ENVELOPE
from tools.server.schemas import TOOL_NAMES

GET = "engram_memory_get"
HEAVY = {"numpy", "faiss", "lmdb", "detect_secrets", "structlog", "Stemmer"}


def connected(scenario, mode):
    async def run():
        parameters = StdioServerParameters(command=ECHO_COMMAND[0], args=ECHO_COMMAND[1:], env=ENVIRONMENT)
        async with Client(parameters, mode=mode) as client:
            await scenario(client)

    anyio.run(run)


async def errand(client, name, **options):
    return await client.call_tool(GET, {"record_id": f"mem_{name}", "purpose_ref": "purpose:case"}, **options)


@pytest.mark.parametrize(
    ("mode", "version"), [("legacy", "2025-11-25"), ("auto", "2026-07-28"), ("2026-07-28", "2026-07-28")]
)
def test_the_official_client(mode, version):
    async def scenario(client):
        assert [tool.name for tool in (await client.list_tools()).tools] == list(TOOL_NAMES)

        answered = await errand(client, "echo")
        assert not answered.is_error
        assert answered.structured_content["output"]["value"]["protocol"] == version
        assert json.loads(answered.content[0].text) == answered.structured_content

        failed = await errand(client, "missing")
        assert failed.is_error
        assert failed.structured_content["error"]["code"] == "NOT_FOUND"
        assert json.loads(failed.content[0].text) == failed.structured_content

        broken = await errand(client, "broken")
        assert broken.structured_content["error"]["code"] == "STORE_UNAVAILABLE"
        assert "exception" not in broken.model_dump_json()

        for name, code in (("untrusted", -32603),):
            with pytest.raises(MCPError) as refused:
                await errand(client, name)
            assert refused.value.code == code

        steps = []

        async def on_progress(done, _total, _message):
            steps.append(done)

        await errand(client, "progress", progress_callback=on_progress)
        assert steps

    connected(scenario, mode)


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_a_cancelled_call_runs_to_its_end_and_others_are_served(mode):
    async def scenario(client):
        await errand(client, "echo")  # the server is up; what is cancelled before it begins never runs
        finished = []
        for _ in range(3):
            with anyio.move_on_after(0.2):
                await errand(client, "wait")
        for _ in range(500):
            finished = (await errand(client, "finished_calls")).structured_content["output"]["value"]["finished"]
            if len(finished) == 3:
                break
            await anyio.sleep(0.01)
        assert finished == ["cancelled"] * 3

    connected(scenario, mode)


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_many_calls_at_once(mode):
    async def scenario(client):
        answers = {}

        async def ask(number):
            result = await client.call_tool(GET, {"n": number})
            answers[number] = result.structured_content["output"]["value"]["arguments"]["n"]

        async with anyio.create_task_group() as group:
            for number in range(200):
                group.start_soon(ask, number)
        assert answers == {number: number for number in range(200)}

    connected(scenario, mode)


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2099-01-01", "2025-11-25"),
    ],
)
def test_every_handshake_version(start, asked, given):
    server = start().read()
    info = {"name": "raw", "version": "1"}

    params = {"protocolVersion": asked, "capabilities": {}, "clientInfo": info}
    result = server.ask({"id": 0, "method": "initialize", "params": params})["result"]
    server.send({"method": "notifications/initialized"})

    assert result["protocolVersion"] == given
    assert len(result["instructions"].encode()) <= 2_000
    assert result["serverInfo"]["name"] == "engram-memory"
    listed = server.ask({"id": 1, "method": "tools/list"})["result"]["tools"]
    assert len(json.dumps(listed, ensure_ascii=False, separators=(",", ":")).encode()) <= 12_288
    server.call(2, "echo")
    result = server.answer(2)["result"]
    assert result["structuredContent"]["output"]["value"]["protocol"] == given
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    assert result["isError"] is False


def test_a_line_client_of_the_modern_era(start):
    server = start().read()

    discovered = server.ask({"id": 1, "method": "server/discover", "params": {"_meta": MODERN_ENVELOPE}})["result"]
    assert "2026-07-28" in discovered["supportedVersions"]
    assert '"purpose:case"' in discovered["instructions"]

    server.call(2, "echo", meta=MODERN_ENVELOPE | {"progressToken": 9})
    value = server.answer(2)["result"]["structuredContent"]["output"]["value"]
    assert (value["client"], value["protocol"]) == ("raw-modern", "2026-07-28")

    server.call(3, "echo")
    assert server.answer(3)["error"]["code"] == -32602  # no envelope


def test_nothing_heavy_is_imported_for_the_first_list(start):
    server = start().read().handshake()
    server.ask({"id": 1, "method": "tools/list"})
    server.call(2, "modules")

    modules = set(server.answer(2)["result"]["structuredContent"]["output"]["value"]["modules"])

    assert "mcp" in modules
    assert modules.isdisjoint(HEAVY)
    assert sys.executable == ECHO_COMMAND[0]


def test_an_answer_that_cannot_be_written_is_store_unavailable(server):
    server.call(1, "surrogate")

    answer = server.answer(1)["result"]

    assert answer["structuredContent"]["error"]["code"] == "STORE_UNAVAILABLE"
    assert server.ask({"id": 2, "method": "ping"})["result"] == {}
