"""Spans over stdio, and what is not imported where nobody asks for them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.tools.cli.desk import environment
from tests.tools.server.collecting import attributes_of, collector
from tools.host.telemetry.settings import Telemetry
from tools.host.telemetry.spans import NO_TRACING
from tools.host.telemetry.starting import tracing_of

HELLO = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}  # fmt: skip
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CALL = {
    "jsonrpc": "2.0", "id": 2, "method": "tools/call",
    "params": {
        "name": "engram_memory_search", "arguments": {"query": "kingfishers", "purpose_ref": "purpose:work"},
        "_meta": {"traceparent": f"00-{TRACE}-{PARENT}-01"},
    },
}  # fmt: skip
LIBRARY = "opentelemetry.sdk"


def served(desk, **environ: str) -> tuple[list[dict], str]:
    """Make one call of a server that tells what it imports; return the answers and what it wrote to stderr."""
    words = [sys.executable, "-X", "importtime", "-m", "tools.cli.main", "serve", "--config", str(desk.host_file)]
    told = desk.place / "stderr"  # a file: it is more than a pipe holds
    with told.open("wb") as err, subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, text=True,
        env={**environment(), **environ},
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        answers = []
        for message in (HELLO, READY, CALL):
            process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()
            if "id" in message:
                answers.append(json.loads(process.stdout.readline()))
        process.communicate(timeout=60)
    assert process.returncode == 0
    return answers, told.read_text(encoding="utf-8")


def test_where_nobody_asks_for_spans_nothing_of_them_is_imported(desk):
    answers, err = served(desk)
    assert answers[1]["result"]["structuredContent"]["ok"]
    assert "tools.host.telemetry.spans" in err  # what is imported does show
    assert LIBRARY not in err
    assert "tools.host.telemetry.otlp" not in err


def test_a_call_over_stdio_is_a_span_where_the_environment_names_a_collector(desk):
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="of the extra otel")
    with collector() as collected:
        answers, err = served(desk, OTEL_EXPORTER_OTLP_ENDPOINT=collected.address + "/", OTEL_SERVICE_NAME="ours")
        (span,) = collected.spans()
        sent = b"".join(collected.bodies)
    assert LIBRARY in err
    assert span.name == "tools/call engram_memory_search"
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
    attributes = attributes_of(span)
    assert attributes["network.transport"] == "pipe"
    assert attributes["engram.audit_id"] == answers[1]["result"]["structuredContent"]["auditId"]
    assert b"ours" in sent
    assert b"kingfishers" not in sent


@pytest.mark.parametrize(
    ("environ", "endpoint", "address"),
    [
        ({}, None, None),
        ({}, "https://c.example/", "https://c.example/v1/traces"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, None, "http://c:4318/v1/traces"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/x"}, None, "http://c:4318/x"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, "https://d", "https://d/v1/traces"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "TRUE"}, "https://d", None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_TRACES_EXPORTER": "none"}, None, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_TRACES_EXPORTER": "otlp"}, None,
         "http://c:4318/v1/traces"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, None, None),
    ],
)  # fmt: skip
def test_who_names_a_collector(environ, endpoint, address):
    assert Telemetry(endpoint=endpoint).address(environ) == address


def test_without_the_extra_a_server_says_so_and_serves(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tools.host.telemetry.otlp", None)
    assert tracing_of(Telemetry(endpoint="https://c.example"), "1", {}) is NO_TRACING
    assert "engram-journal[otel]" in capsys.readouterr().out
    assert tracing_of(Telemetry(), "1", {}) is NO_TRACING
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('endpoint = "http://collector.example:4318"', "would be sent to in the clear"),
        ('endpoint = "https://user:word@collector.example"', "is no plain address"),
        ('endpoint = "collector"', "is no plain address"),
        ("principal = true", "principals"),
    ],
)
def test_a_section_that_cannot_be_used_is_refused(desk, line, said):
    text = desk.host_file.read_text(encoding="utf-8")
    desk.host_file.write_text(text.replace("[telemetry]\n", f"[telemetry]\n{line}\n"), encoding="utf-8")
    ended = desk.process("stats")
    assert ended.code == 2
    assert said in ended.err
    assert "word@" not in ended.err
