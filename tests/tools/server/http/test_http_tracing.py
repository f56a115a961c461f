"""Spans of a team's server, at a real collector: over HTTP, from the call to the policy that it asks."""

from __future__ import annotations

import pytest

from journal.scope import Scope
from tests.tools.memory.world import PURPOSE, capture_arguments, key
from tests.tools.server.collecting import attributes_of, collector
from tests.tools.server.http.team import ANNA_TOKEN, STATIC, TeamServer, answer_of, call, made_team

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="of the extra otel")


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    """Have spans sent at once."""
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "5")


def traced_team(place, address, more=""):
    host_file = made_team(place, STATIC)
    text = host_file.read_text(encoding="utf-8").replace("[telemetry]\n", f'[telemetry]\nendpoint = "{address}"\n')
    host_file.write_text(text.replace("principals = false", more or "principals = false"), encoding="utf-8")
    return host_file


def told(team, session, name, arguments):
    answer = team.post(call(name, arguments), ANNA_TOKEN, mcp_session_id=session)
    return answer_of(answer)["result"]["structuredContent"]


def worked(team):
    """Capture, ask for admission, search, and ask for nonsense; return the answers."""
    session = team.opened(ANNA_TOKEN)
    captured = told(team, session, "engram_memory_capture", capture_arguments("A sentence about kingfishers."))
    admission = {"candidate_id": captured["output"]["value"]["candidate_id"], "idempotency_key": key()}
    return [
        captured,
        told(team, session, "engram_memory_request_admission", admission),
        told(team, session, "engram_memory_search", {"query": "kingfishers", "purpose_ref": PURPOSE}),
        told(team, session, "engram_memory_get", {"record_id": "nonsense", "purpose_ref": PURPOSE}),
    ]


def test_a_call_is_a_span_and_asking_the_policy_one_within_it(tmp_path):
    with collector() as collected:
        with TeamServer(traced_team(tmp_path, collected.address)) as team:
            answers = worked(team)
            assert team.end() == 0
        spans = {span.name: span for span in collected.spans()}
    assert set(collected.paths) == {"/v1/traces"}
    tools = ["engram_memory_capture", "engram_memory_request_admission", "engram_memory_search", "engram_memory_get"]
    assert set(spans) == {*(f"tools/call {tool}" for tool in tools), "engram.admission"}
    for tool, answer in zip(tools, answers, strict=True):
        attributes = attributes_of(spans[f"tools/call {tool}"])
        code = "ok" if answer["ok"] else answer["error"]["code"]
        assert attributes.pop("engram.scope") == Scope.of("default", "default").tag.hex()
        assert attributes == {
            "mcp.method.name": "tools/call", "mcp.protocol.version": "2025-06-18", "network.transport": "tcp",
            "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool, "engram.audit_id": answer["auditId"],
            "engram.code": code, **({} if answer["ok"] else {"error.type": "tool_error"}),
        }  # fmt: skip
    asked, admission = spans["tools/call engram_memory_request_admission"], spans["engram.admission"]
    assert (admission.parent_span_id, admission.trace_id) == (asked.span_id, asked.trace_id)
    assert attributes_of(admission)["engram.policy"] == "accept-asserted"
    assert attributes_of(admission)["engram.decision"] == "accept"


def test_no_word_of_content_no_query_and_no_principal_leaves_the_server(tmp_path):
    with collector() as collected:
        with TeamServer(traced_team(tmp_path, collected.address)) as team:
            worked(team)
            session = team.opened(ANNA_TOKEN)
            assert "error" in answer_of(team.post(call("kingfishers", {}), ANNA_TOKEN, mcp_session_id=session))
            assert team.end() == 0
        sent = b"".join(collected.bodies)
    assert b"engram_memory_search" in sent
    for word in (b"kingfishers", b"nonsense", b"Anna", ANNA_TOKEN.encode(), PURPOSE.encode(), b"candidate_", b"mem_"):
        assert word not in sent


def test_a_principal_is_named_where_the_host_wants_it(tmp_path):
    with collector() as collected:
        with TeamServer(traced_team(tmp_path, collected.address, "principals = true")) as team:
            told(team, team.opened(ANNA_TOKEN), "engram_memory_search", {"query": "x", "purpose_ref": PURPOSE})
            assert team.end() == 0
        assert [attributes_of(span)["enduser.id"] for span in collected.spans()] == ["Anna"]


def test_a_collector_that_takes_nothing_keeps_no_call_waiting_and_no_server_from_ending(tmp_path):
    with collector() as collected:
        collected.may_answer.clear()
        with TeamServer(traced_team(tmp_path, collected.address)) as team:
            session = team.opened(ANNA_TOKEN)
            for number in range(3):  # the first is under way to the collector while the others are answered
                answer = told(team, session, "engram_memory_search", {"query": f"x{number}", "purpose_ref": PURPOSE})
                assert answer["ok"]
                assert number or collected.asked.acquire(timeout=60)
            assert team.end() == 0
        assert collected.bodies == []


def test_a_collector_that_refuses_is_told_of_once(tmp_path):
    with collector() as collected:
        collected.status = 400
        with TeamServer(traced_team(tmp_path, collected.address)) as team:
            session = team.opened(ANNA_TOKEN)
            for number in range(2):
                assert told(team, session, "engram_memory_search", {"query": "x", "purpose_ref": PURPOSE})["ok"]
                assert collected.asked.acquire(timeout=60), number
            assert team.end() == 0
            events = [line["event"] for line in team.log]
    assert events.count("telemetry_not_taken") == 1
    assert "library" not in events


def test_the_span_of_a_client_is_the_parent(tmp_path):
    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    message = call("engram_memory_search", {"query": "x", "purpose_ref": PURPOSE})
    message["params"]["_meta"] = {"traceparent": f"00-{trace}-{parent}-01", "tracestate": "kingfishers=1"}
    with collector() as collected:
        with TeamServer(traced_team(tmp_path, collected.address)) as team:
            assert team.post(message, ANNA_TOKEN, mcp_session_id=team.opened(ANNA_TOKEN)).status_code == 200
            message["params"]["_meta"] = {"traceparent": "kingfishers"}
            assert team.post(message, ANNA_TOKEN, mcp_session_id=team.opened(ANNA_TOKEN)).status_code == 200
            assert team.end() == 0
        named, unreadable = collected.spans()
        sent = b"".join(collected.bodies)
    assert (named.trace_id.hex(), named.parent_span_id.hex()) == (trace, parent)
    assert unreadable.trace_id.hex() != trace
    assert b"kingfishers" not in sent
