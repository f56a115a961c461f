"""The server in process: what reaches the service, and what never reaches the client."""

import threading

import anyio
import mcp_types as types
import pytest
from mcp import MCPError
from mcp.client import Client

from journal.errors import CODES
from tests.tools.server.echo_server import EchoService
from tools.server.envelope import success
from tools.server.serve import Handlers, build_server

ERAS = ["legacy", "2026-07-28"]
ARGUMENTS = {"record_id": "mem_x", "purpose_ref": "purpose:case"}


def served(service, scenario, era="legacy"):
    """Run a scenario with an official client of this era in front of the service."""

    async def run():
        handlers = Handlers(service, audit_ids=lambda: "audit-of-the-server")
        info = types.Implementation(name="claude-code", version="1")
        async with Client(build_server(handlers, "9.9"), mode=era, client_info=info) as client:
            await scenario(client)
        handlers.close()

    anyio.run(run)


@pytest.mark.parametrize("era", ERAS)
def test_only_what_is_granted_is_listed_and_called(era):
    async def scenario(client):
        listed = await client.list_tools()
        assert [tool.name for tool in listed.tools] == ["engram_memory_get"]
        assert listed.next_cursor is None
        for ungranted in ("engram_memory_forget", "no_such_tool"):
            with pytest.raises(MCPError) as refused:
                await client.call_tool(ungranted, ARGUMENTS)
            assert (refused.value.code, refused.value.message) == (-32602, "unknown tool")

    served(EchoService(listed=("engram_memory_get",)), scenario, era)


def test_a_grant_may_come_and_go_between_calls():
    service = EchoService(listed=())

    async def scenario(client):
        assert (await client.list_tools()).tools == []
        service._listed = ("engram_memory_get",)
        assert not (await client.call_tool("engram_memory_get", ARGUMENTS)).is_error
        service._listed = ()
        with pytest.raises(MCPError):
            await client.call_tool("engram_memory_get", ARGUMENTS)

    served(service, scenario)


@pytest.mark.parametrize("era", ERAS)
def test_the_service_is_told_who_calls(era):
    async def scenario(client):
        results = [await client.call_tool("engram_memory_get", ARGUMENTS) for _ in range(2)]
        told = [result.structured_content["output"]["value"] for result in results]
        assert told[0]["client"] == "claude-code"
        assert told[0]["protocol"] == ("2025-11-25" if era == "legacy" else era)
        assert told[0]["arguments"] == ARGUMENTS
        assert told[0]["session"] == told[1]["session"] != ""

    served(EchoService(), scenario, era)


class RaisingService(EchoService):
    """Raises what it was made with."""

    def __init__(self, error):
        super().__init__()
        self._error = error

    def call(self, tool_name, arguments, context):
        raise self._error


@pytest.mark.parametrize("code", sorted(CODES))
def test_an_error_of_the_contract_is_an_envelope(code):
    async def scenario(client):
        result = await client.call_tool("engram_memory_get", ARGUMENTS)
        assert result.is_error
        assert result.structured_content == {
            "ok": False,
            "auditId": "audit-of-the-server",
            "redactionClass": "high",
            "error": {"code": code, "message": CODES[code].message(), "retriable": CODES[code].retriable},
        }

    served(RaisingService(CODES[code]("a detail for the log")), scenario)


@pytest.mark.parametrize("error", [RuntimeError("a secret"), KeyError("a secret"), RecursionError(), MemoryError()])
@pytest.mark.parametrize("era", ERAS)
def test_any_other_exception_is_store_unavailable_and_says_nothing(error, era, capfd):
    async def scenario(client):
        result = await client.call_tool("engram_memory_get", ARGUMENTS)
        assert result.structured_content["error"]["code"] == "STORE_UNAVAILABLE"
        assert "secret" not in result.model_dump_json()

    served(RaisingService(error), scenario, era)
    assert "secret" not in capfd.readouterr().err


@pytest.mark.parametrize("era", ERAS)
def test_an_untrusted_context_is_a_protocol_error(era):
    async def scenario(client):
        with pytest.raises(MCPError) as refused:
            await client.call_tool("engram_memory_get", ARGUMENTS | {"record_id": "mem_untrusted"})
        assert (refused.value.code, refused.value.message, refused.value.data) == (
            -32603,
            "trusted invocation context unavailable",
            None,
        )

    served(EchoService(), scenario, era)


def test_a_service_that_cannot_list_lists_nothing():
    class Broken(EchoService):
        def listed_tools(self):
            raise OSError("a secret")

    async def scenario(client):
        with pytest.raises(MCPError) as refused:
            await client.list_tools()
        assert refused.value.code == -32603
        result = await client.call_tool("engram_memory_get", ARGUMENTS)
        assert result.structured_content["error"]["code"] == "STORE_UNAVAILABLE"

    served(Broken(), scenario)


def test_absent_arguments_are_empty():
    async def scenario(client):
        result = await client.call_tool("engram_memory_get")
        assert result.structured_content["output"]["value"]["arguments"] == {}

    served(EchoService(), scenario)


@pytest.mark.parametrize("era", ["legacy", "auto"])
def test_who_we_are(era):
    async def scenario(client):
        assert client.server_info.name == "engram-memory"
        assert client.server_info.version == "9.9"
        assert '"purpose:case"' in client.instructions
        assert client.server_capabilities.tools is not None
        assert client.server_capabilities.resources is None

    served(EchoService(), scenario, era)


def test_progress_reaches_who_asked_for_it_in_order():
    steps = []

    async def scenario(client):
        async def on_progress(done, total, message):
            steps.append((done, total, message))

        errand = ARGUMENTS | {"record_id": "mem_progress"}
        await client.call_tool("engram_memory_get", errand, progress_callback=on_progress)
        await client.call_tool("engram_memory_get", errand)

    served(EchoService(), scenario)
    assert steps == sorted(steps)
    assert set(steps) <= {(float(step), 2.0, f"step {step}") for step in range(3)}
    assert steps


class SlowService(EchoService):
    """Holds each call until it is let go or cancelled, and says what became of it."""

    def __init__(self):
        super().__init__()
        self.begun = threading.Event()
        self.let_go = threading.Event()
        self.finished = threading.Event()
        self.was_cancelled = False

    def call(self, tool_name, arguments, context):
        self.begun.set()
        self.was_cancelled = context.cancelled.wait(20)
        self.let_go.wait(20)
        self.finished.set()
        return success({}, "audit")


@pytest.mark.parametrize("era", ERAS)
def test_a_cancelled_call_is_told_and_runs_to_its_end(era):
    service = SlowService()

    async def scenario(client):
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "engram_memory_get", ARGUMENTS)
            await anyio.to_thread.run_sync(service.begun.wait, 20)
            group.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                for _ in range(2_000):
                    if service.was_cancelled:
                        break
                    await anyio.sleep(0.01)
                service.let_go.set()
        await anyio.to_thread.run_sync(service.finished.wait, 20)
        assert service.finished.is_set()
        assert (await client.list_tools()).tools

    served(service, scenario, era)
    assert service.was_cancelled


def test_a_cancelled_call_holds_its_room_until_it_ended():
    """Else whoever cancels each call could begin any number of them."""
    begun, cancelled, finished = threading.Event(), threading.Event(), threading.Event()
    left_after_the_end = []

    def work():
        begun.set()
        cancelled.wait(20)
        finished.wait(0.1)
        finished.set()
        return {}

    async def scenario():
        handlers = Handlers(EchoService())

        async def call():
            try:
                await handlers._run(work, cancelled)
            finally:
                left_after_the_end.append(finished.is_set())

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await anyio.to_thread.run_sync(begun.wait, 20)
            group.cancel_scope.cancel()
        handlers.close()

    anyio.run(scenario)
    assert left_after_the_end == [True]
