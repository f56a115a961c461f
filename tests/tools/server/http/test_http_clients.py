"""The official client over HTTP in both eras, and two principals at once over one store."""

from __future__ import annotations

import anyio
import pytest

from tests.tools.memory.world import PURPOSE, capture_arguments, key
from tests.tools.server.http.team import ALL, ANNA_TOKEN, BEN_TOKEN, MODERN
from tools.host.capabilities import CAPTURE, GET, REQUEST_ADMISSION, SEARCH

BOTH = pytest.mark.parametrize("mode", ["legacy", MODERN])
VERSIONS = {"legacy": "2025-11-25", MODERN: MODERN, "auto": MODERN}


async def value(client, tool, arguments, **how):
    result = await client.call_tool(tool, arguments, **how)
    assert not result.is_error, result.structured_content
    return result.structured_content["output"]["value"]


async def remembered(client, text):
    candidate = (await value(client, CAPTURE, capture_arguments(text)))["candidate_id"]
    admission = {"candidate_id": candidate, "idempotency_key": key()}
    return (await value(client, REQUEST_ADMISSION, admission))["outcome"]["record_id"]


async def found(client, query):
    records = (await value(client, SEARCH, {"query": query, "purpose_ref": PURPOSE}))["records"]
    return [packet["record"]["record_id"] for packet in records]


@pytest.mark.parametrize("mode", list(VERSIONS))
def test_the_official_client_over_http(static_team, mode):
    async def scenario():
        async with static_team.client(ANNA_TOKEN, mode) as client:
            assert client.protocol_version == VERSIONS[mode]
            assert sorted(tool.name for tool in (await client.list_tools()).tools) == sorted(ALL)
            record = await remembered(client, f"The archive of {mode} moved to the northern office.")
            assert record in await found(client, f"archive {mode} northern office")
            missing = await client.call_tool(GET, {"record_id": "mem_" + "0" * 64, "purpose_ref": PURPOSE})
            assert missing.is_error
            assert missing.structured_content["auditId"]

    anyio.run(scenario)


@BOTH
def test_two_principals_at_once_see_nothing_of_each_other(static_team, mode):
    async def scenario():
        async with static_team.client(ANNA_TOKEN, mode) as anna, static_team.client(BEN_TOKEN, mode) as ben:
            assert sorted(tool.name for tool in (await ben.list_tools()).tools) == [GET, SEARCH, "search_memory"]
            record = await remembered(anna, f"The payroll run of {mode} is on the third Tuesday.")
            await value(anna, "save_message", {"role": "user", "message": f"My favourite fruit of {mode}: mirabelle."})
            seen = {}

            async def look(name, client):
                seen[name] = await found(client, f"payroll run {mode} third Tuesday")

            async with anyio.create_task_group() as group:
                group.start_soon(look, "anna", anna)
                group.start_soon(look, "ben", ben)
            assert record in seen["anna"]
            assert seen["ben"] == []
            missing = await ben.call_tool(GET, {"record_id": record, "purpose_ref": PURPOSE})
            assert missing.structured_content["error"]["code"] == "NOT_FOUND"
            asked = {"query": f"favourite fruit {mode}"}
            assert "mirabelle" in str(await value(anna, "search_memory", asked))
            assert "mirabelle" not in str(await value(ben, "search_memory", asked))

    anyio.run(scenario)


@BOTH
def test_in_one_workspace_records_are_shared_and_conversations_are_not(signed_team, issuer, mode):
    async def scenario():
        tokens = [issuer.token(sub=name) for name in ("anna", "cleo")]
        async with signed_team.client(tokens[0], mode) as anna, signed_team.client(tokens[1], mode) as cleo:
            record = await remembered(anna, f"The orchard of {mode} is pruned in the second week.")
            assert record in await found(cleo, f"orchard {mode} pruned")
            for client, fruit in ((anna, "mirabelle"), (cleo, "quince")):
                said = {"role": "user", "message": f"My favourite fruit of {mode}: {fruit}."}
                await value(client, "save_message", said)
            asked = {"query": f"favourite fruit {mode}"}
            heard = [str(await value(client, "search_memory", asked)) for client in (anna, cleo)]
            assert [("mirabelle" in each, "quince" in each) for each in heard] == [(True, False), (False, True)]

    anyio.run(scenario)


@BOTH
def test_a_tool_that_is_not_granted_is_unknown(static_team, mode):
    async def scenario():
        async with static_team.client(BEN_TOKEN, mode) as ben:
            with pytest.raises(Exception, match="unknown tool"):
                await ben.call_tool(CAPTURE, capture_arguments("Nobody may write this."))

    anyio.run(scenario)


@BOTH
def test_many_calls_at_once_are_all_answered(static_team, mode):
    async def scenario():
        async with static_team.client(ANNA_TOKEN, mode) as client:
            answered = []

            async def ask(number):
                answered.append((number, await found(client, f"nothing of that kind {number}")))

            async with anyio.create_task_group() as group:
                for number in range(60):
                    group.start_soon(ask, number)
            assert sorted(number for number, _ in answered) == list(range(60))

    anyio.run(scenario)


@BOTH
def test_the_log_tells_calls_and_no_content(static_team, mode):
    word = f"quillwort{mode.replace('-', '')}"

    async def scenario():
        async with static_team.client(ANNA_TOKEN, mode) as client:
            result = await client.call_tool(SEARCH, {"query": word, "purpose_ref": PURPOSE})
            return result.structured_content["auditId"]

    audit_id = anyio.run(scenario)
    lines = []
    for _ in range(500):
        lines = [line for line in static_team.log if line.get("audit_id") == audit_id]
        if lines:
            break
        anyio.run(anyio.sleep, 0.01)
    assert (lines[0]["event"], lines[0]["tool"], lines[0]["code"], lines[0]["principal"]) == (
        "call", SEARCH, "ok", "Anna",
    )  # fmt: skip
    assert word not in str(static_team.log)
    assert ANNA_TOKEN not in str(static_team.log)
