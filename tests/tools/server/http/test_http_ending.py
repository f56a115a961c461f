"""The end of a server over HTTP: new calls are refused, those under way end, and it is over within seconds."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import suppress

import httpx2
import pytest

from tests.tools.memory.world import PURPOSE, capture_arguments, forgetting, key
from tests.tools.server.http.team import ANNA_TOKEN, STATIC, TeamServer, answer_of, call, made_team
from tools.host.capabilities import CAPTURE, FORGET, REQUEST_ADMISSION, SEARCH

LOOK = call(SEARCH, {"query": "anything", "purpose_ref": PURPOSE})


@pytest.fixture
def team(tmp_path):
    host_file = made_team(tmp_path, STATIC)
    text = host_file.read_text(encoding="utf-8")
    host_file.write_text(text.replace("\nwait_seconds = 50", "\nwait_seconds = 3"), encoding="utf-8")
    with TeamServer(host_file) as server:
        yield server


def value(response):
    return answer_of(response)["result"]["structuredContent"]["output"]["value"]


def seen(team, event):
    deadline = time.monotonic() + 60
    while not any(line["event"] == event for line in team.log):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def under_way(team):
    deadline = time.monotonic() + 60
    while "engram_calls_in_flight 1\n" not in team.ask("GET", "/metrics").text:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_server_ends_at_once(team, number):
    session = team.opened(ANNA_TOKEN)
    assert answer_of(team.post(LOOK, ANNA_TOKEN, mcp_session_id=session))["result"]["isError"] is False
    assert team.end(number) == 0
    assert [line["event"] for line in team.log if line["level"] != "info"] == []
    assert team.log[-1]["event"] == "ended"


def test_a_call_under_way_is_answered_and_new_ones_are_refused(team):
    """The call waits for a person, who does not come while the server ends."""
    session = team.opened(ANNA_TOKEN)
    captured = team.post(call(CAPTURE, capture_arguments("To be forgotten.")), ANNA_TOKEN, mcp_session_id=session)
    admission = {"candidate_id": value(captured)["candidate_id"], "idempotency_key": key()}
    admitted = team.post(call(REQUEST_ADMISSION, admission), ANNA_TOKEN, mcp_session_id=session)
    record_id = value(admitted)["outcome"]["record_id"]
    answers = []

    def forget():
        asked = call(FORGET, forgetting(record_id))
        answers.append(answer_of(team.post(asked, ANNA_TOKEN, mcp_session_id=session)))

    waiting = threading.Thread(target=forget)
    waiting.start()
    under_way(team)
    began = time.monotonic()
    team.process.send_signal(signal.SIGTERM)
    seen(team, "draining")
    late = team.post(LOOK, ANNA_TOKEN, mcp_session_id=session)
    assert (late.status_code, late.headers["retry-after"]) == (503, "2")
    assert (team.ask("GET", "/readyz").status_code, team.ask("GET", "/healthz").status_code) == (503, 200)
    assert "engram_draining 1\n" in team.ask("GET", "/metrics").text
    waiting.join(60)
    assert answers[0]["result"]["structuredContent"]["error"]["code"] == "gate_failed"
    assert team.process.wait(30) == 0
    assert time.monotonic() - began < 30
    assert [line["calls"] for line in team.log if line["event"] == "drained"] == [0]


def test_a_second_signal_ends_it_without_waiting(team):
    session = team.opened(ANNA_TOKEN)
    captured = team.post(call(CAPTURE, capture_arguments("To be kept.")), ANNA_TOKEN, mcp_session_id=session)
    admission = {"candidate_id": value(captured)["candidate_id"], "idempotency_key": key()}
    admitted = team.post(call(REQUEST_ADMISSION, admission), ANNA_TOKEN, mcp_session_id=session)
    asked = call(FORGET, forgetting(value(admitted)["outcome"]["record_id"]))

    def forget():
        with suppress(httpx2.HTTPError):  # the server hangs up
            team.post(asked, ANNA_TOKEN, mcp_session_id=session)

    waiting = threading.Thread(target=forget)
    waiting.start()
    under_way(team)
    team.process.send_signal(signal.SIGTERM)
    seen(team, "draining")
    assert team.end(signal.SIGTERM) == 0
    waiting.join(60)
    assert not any(line["event"] == "drained" for line in team.log)


def test_a_stream_that_a_client_holds_open_keeps_nobody_waiting(team):
    session = team.opened(ANNA_TOKEN)
    headers = {"authorization": f"Bearer {ANNA_TOKEN}", "mcp-session-id": session, "accept": "text/event-stream"}
    with (
        httpx2.Client(trust_env=False, timeout=60) as client,
        client.stream("GET", team.url + "/mcp", headers=headers) as stream,
    ):
        assert stream.status_code == 200
        began = time.monotonic()
        assert team.end() == 0
        assert time.monotonic() - began < 20
        with suppress(httpx2.HTTPError):
            stream.read()


def test_what_was_written_before_the_end_is_there_after_a_restart(tmp_path):
    host_file = made_team(tmp_path, STATIC)
    with TeamServer(host_file) as team:
        session = team.opened(ANNA_TOKEN)
        captured = team.post(call(CAPTURE, capture_arguments("Kept.")), ANNA_TOKEN, mcp_session_id=session)
        candidate_id = value(captured)["candidate_id"]
        assert team.end() == 0
    with TeamServer(host_file) as team:
        assert team.post(LOOK, ANNA_TOKEN, mcp_session_id=session).status_code == 404  # sessions end with a server
        session = team.opened(ANNA_TOKEN)
        admission = {"candidate_id": candidate_id, "idempotency_key": key()}
        admitted = team.post(call(REQUEST_ADMISSION, admission), ANNA_TOKEN, mcp_session_id=session)
        assert value(admitted)["outcome"]["status"] == "accepted"
