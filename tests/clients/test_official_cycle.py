"""The official Python client, in both protocol eras, through a whole cycle on the real server."""

from __future__ import annotations

import anyio
import pytest
from mcp import StdioServerParameters
from mcp.client import Client

from tests.hostile.served import Store
from tests.tools.cli.desk import command_line, environment
from tests.tools.memory.world import PURPOSE, capture_arguments
from tools.host.capabilities import CAPTURE, FORGET, GET, REQUEST_ADMISSION, SEARCH, WITHDRAW


@pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])
def test_a_whole_cycle(tmp_path, mode):
    store = Store.make(tmp_path)
    command, *arguments = command_line("serve", "--config", str(store.config))

    async def value(client, tool, given):
        result = await client.call_tool(tool, given)
        assert not result.is_error, result.structured_content
        return result.structured_content["output"]["value"]

    async def refused(client, tool, given):
        result = await client.call_tool(tool, given)
        assert result.is_error
        return result.structured_content["error"]["code"]

    async def cycle():
        parameters = StdioServerParameters(command=command, args=arguments, env=environment())
        async with Client(parameters, mode=mode) as client:
            captured = capture_arguments("The ferry leaves at seven.", "key-of-the-ferry-16-bytes")
            candidate = (await value(client, CAPTURE, captured))["candidate_id"]
            assert (await value(client, CAPTURE, captured))["candidate_id"] == candidate
            admission = {"candidate_id": candidate, "idempotency_key": "key-of-admission-16-bytes"}
            record = (await value(client, REQUEST_ADMISSION, admission))["outcome"]["record_id"]
            found = await value(client, SEARCH, {"query": "ferry", "purpose_ref": PURPOSE})
            assert [packet["record"]["record_id"] for packet in found["records"]] == [record]
            got = await value(client, GET, {"record_id": record, "purpose_ref": PURPOSE})
            assert got["record"]["components"][0]["text"] == "The ferry leaves at seven."
            gone = {"idempotency_key": "key-of-the-end-16-bytes", "reason_ref": "reason:asked"}
            assert await refused(client, FORGET, {"record_id": record} | gone) == "gate_failed"
            assert await refused(client, WITHDRAW, {"candidate_id": candidate} | gone) != "gate_failed"
            assert await refused(client, GET, {"record_id": record}) == "INVALID_SCHEMA"

    anyio.run(cycle)
