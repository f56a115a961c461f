"""Progress, cancellation, sessions and pages over HTTP, before services that do what they are asked to."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import httpx2
import pytest

from tests.tools.server.http.team import ANNA_TOKEN, BEN_TOKEN, MODERN, TeamServer, answer_of, call, modern
from tools.host.capabilities import GET

BOTH = pytest.mark.parametrize("mode", ["legacy", MODERN])
CONSOLE = "https://console.example.org"


@pytest.fixture(scope="module")
def echoes() -> Iterator[TeamServer]:
    with TeamServer.of_echoes() as server:
        yield server


async def errand(client, name, **options):
    return await client.call_tool(GET, {"record_id": f"mem_{name}", "purpose_ref": "purpose:case"}, **options)


def told(result):
    return result.structured_content["output"]["value"]


@BOTH
def test_progress_comes_while_a_call_runs(echoes, mode):
    async def scenario():
        steps = []

        async def on_progress(done, _total, _message):
            steps.append(done)

        async with echoes.client(ANNA_TOKEN, mode) as client:
            await errand(client, "progress", progress_callback=on_progress)
        assert steps
        assert steps == sorted(steps)

    anyio.run(scenario)


@BOTH
def test_a_cancelled_call_runs_to_its_end_and_others_are_served(echoes, mode):
    async def scenario():
        async with echoes.client(ANNA_TOKEN, mode) as client:
            before = len(told(await errand(client, "finished_calls"))["finished"])
            for _ in range(3):
                with anyio.move_on_after(0.5):
                    await errand(client, "wait")
            finished: list[str] = []
            for _ in range(1_000):
                finished = told(await errand(client, "finished_calls"))["finished"][before:]
                if len(finished) == 3:
                    break
                await anyio.sleep(0.01)
            assert finished == ["cancelled"] * 3

    anyio.run(scenario)


@BOTH
def test_whatever_a_service_raises_no_text_of_it_is_answered_or_logged(echoes, mode):
    async def scenario():
        async with echoes.client(ANNA_TOKEN, mode) as client:
            return [(await errand(client, name)) for name in ("broken", "missing", "surrogate")]

    answers = anyio.run(scenario)
    codes = [answer.structured_content["error"]["code"] for answer in answers[:2]]
    assert codes == ["STORE_UNAVAILABLE", "NOT_FOUND"]
    assert "the text of an exception" not in str(answers)
    assert "the text of an exception" not in str(echoes.log)


def test_a_session_is_one_session_of_the_journal(echoes):
    async def scenario(mode, token):
        async with echoes.client(token, mode) as client:
            first, second = told(await errand(client, "echo")), told(await errand(client, "echo"))
            assert first["session"] == second["session"]
            assert first["protocol"] == {"legacy": "2025-11-25", MODERN: MODERN}[mode]
            return first["session"]

    sessions = [anyio.run(scenario, "legacy", token) for token in (ANNA_TOKEN, ANNA_TOKEN, BEN_TOKEN)]
    assert len(set(sessions)) == 3
    later = [anyio.run(scenario, MODERN, token) for token in (ANNA_TOKEN, ANNA_TOKEN, BEN_TOKEN)]
    assert later[0] == later[1] != later[2]
    assert not set(sessions) & set(later)


def test_no_client_names_its_own_session(echoes):
    session = echoes.opened(ANNA_TOKEN)
    answered = echoes.post(call(GET, {"record_id": "mem_echo"}), ANNA_TOKEN, mcp_session_id=session)
    assert answer_of(answered)["result"]["structuredContent"]["output"]["value"]["session"] == session
    made_up = echoes.post(call(GET, {"record_id": "mem_echo"}), ANNA_TOKEN, mcp_session_id="made-up")
    assert made_up.status_code == 404
    message, headers = modern(call(GET, {"record_id": "mem_echo"}))
    answered = echoes.post(message, ANNA_TOKEN, mcp_session_id="made-up", **headers)
    assert answer_of(answered)["result"]["structuredContent"]["output"]["value"]["session"] not in {"made-up", session}


def test_a_client_that_asks_for_events_again_gets_a_stream(echoes):
    session = echoes.opened(ANNA_TOKEN)
    headers = {
        "authorization": f"Bearer {ANNA_TOKEN}", "mcp-session-id": session, "accept": "text/event-stream",
        "last-event-id": "7",
    }  # fmt: skip
    with (
        httpx2.Client(trust_env=False, timeout=60) as client,
        client.stream("GET", echoes.url + "/mcp", headers=headers) as stream,
    ):
        assert stream.status_code == 200


def test_a_page_of_an_allowed_origin_may_ask_and_read(echoes):
    headers = {
        "origin": CONSOLE, "access-control-request-method": "POST",
        "access-control-request-headers": "authorization, content-type, mcp-session-id",
    }  # fmt: skip
    asked = echoes.ask("OPTIONS", headers=headers)
    assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (200, CONSOLE)
    refused = echoes.post(call(GET, {}), origin=CONSOLE)
    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, CONSOLE)
    assert "WWW-Authenticate" in refused.headers["access-control-expose-headers"]


def test_a_page_of_another_origin_may_neither_ask_nor_read(echoes):
    headers = {"origin": "https://evil.example.com", "access-control-request-method": "POST"}
    asked = echoes.ask("OPTIONS", headers=headers)
    assert asked.status_code == 400
    refused = echoes.post(call(GET, {}), ANNA_TOKEN, origin="https://evil.example.com")
    assert refused.status_code == 403
    for answer in (asked, refused):
        assert "access-control-allow-origin" not in answer.headers


def test_a_store_that_cannot_be_read_is_not_ready():
    with TeamServer.of_echoes("unreadable") as server:
        assert server.ask("GET", "/readyz").status_code == 503
        assert server.ask("GET", "/healthz").status_code == 200
        assert "the text of an exception" not in str(server.log)
        assert server.end() == 0
