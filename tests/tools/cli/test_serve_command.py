"""engram serve as a person and an operator meet it; what a client meets is tested with the server."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
from typing import Any

import pytest

from journal.store.lmdb.markers import boot_id
from tests.tools.cli.desk import command_line, environment
from tools.cli.invocation import word

HELLO: dict[str, Any] = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}  # fmt: skip
READY: dict[str, Any] = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def _call(number: int) -> dict[str, Any]:
    arguments = {"query": "x", "purpose_ref": "purpose:work"}
    params = {"name": "engram_memory_search", "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def _served(desk, *messages: dict[str, Any], **environ: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Send messages one by one to a server, then close its stdin; return its answers and its log."""
    with subprocess.Popen(
        command_line("serve", "--config", str(desk.host_file)),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**environment(), **environ},
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        answers = []
        for message in messages:
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
            if "id" in message:
                answers.append(json.loads(process.stdout.readline()))
        _, err = process.communicate(timeout=60)
    return answers, [json.loads(line) for line in err.splitlines()]


def _errors(log: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in log if line["level"] == "error"]


def test_a_terminal_is_told_what_it_waits_for(desk):
    outer, inner = pty.openpty()
    try:
        with subprocess.Popen(
            command_line("serve", "--config", str(desk.host_file)),
            stdin=inner, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
        ) as process:  # fmt: skip
            assert process.stderr is not None
            line = process.stderr.readline().decode()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
    finally:
        os.close(inner)
        os.close(outer)
    assert "waiting for an MCP client" in line
    assert f"{word()} connect" in line
    assert (out, b"Traceback" in err, b"fault" in err) == (b"", False, False)


def test_a_client_is_not_told_that(desk):
    answers, log = _served(desk, HELLO, READY, _call(2))
    assert [answer["id"] for answer in answers] == [1, 2]
    assert "waiting" not in str(log)
    assert _errors(log) == []


def test_a_store_that_is_gone_is_logged_before_any_client_asks(desk):
    shutil.rmtree(desk.store)
    _, log = _served(desk)
    (error,) = _errors(log)
    assert error["error"] == "STORE_UNAVAILABLE"
    assert "restore the store from a backup" in str(error["detail"])


@pytest.mark.parametrize("fault", ["gone", "key"])
def test_a_store_that_cannot_be_opened_is_one_error_however_often_it_is_asked_for(desk, fault):
    if fault == "gone":
        shutil.rmtree(desk.store)
    else:
        desk.root_key.unlink()
    answers, log = _served(desk, HELLO, READY, _call(2), _call(3), _call(4))
    for answer in answers[1:]:
        assert answer["result"]["structuredContent"]["error"]["code"] == "STORE_UNAVAILABLE"
    assert len(_errors(log)) == 1
    assert "did not open" not in str(log)


def test_a_walk_after_a_kill_is_told_with_its_seconds(desk):
    desk.captured("One that is kept.")
    (desk.store / "journal" / "open" / ("0" * 32)).write_text(f"{boot_id()}\n", encoding="ascii")
    _, log = _served(desk, HELLO, READY, _call(2))
    (told,) = [line for line in log if line["event"] == "store walked after an unclean end"]
    assert float(str(told["seconds"])) >= 0


def test_a_damaged_store_is_told_with_what_to_do(desk):
    (desk.store / "journal" / "data.mdb").write_bytes(b"no journal" * 4096)
    _, log = _served(desk, HELLO, READY, _call(2), _call(3))
    (error,) = _errors(log)
    assert (error["event"], error["error"]) == ("store cannot be opened", "JOURNAL_CORRUPT")
    assert "engram restore" in str(error["do"])


@pytest.mark.parametrize("name", ["DB_HOST", "DB_PASS", "SSH_HOST", "SSH_ENABLED"])
def test_an_environment_that_asks_for_another_store_is_refused_in_one_sentence(desk, monkeypatch, name):
    monkeypatch.setenv(name, "a-secret-value")
    ended = desk.run("serve")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("\n") == 1
    for told in ("store.url", name, str(desk.host_file), f"env -u {name}"):
        assert told in ended.err
    assert "a-secret-value" not in ended.err


def test_other_names_of_a_developers_shell_are_nobodys_business(desk):
    answers, log = _served(desk, HELLO, DB_URL="x", DB_HOSTNAME="x", SSH_AUTH_SOCK="x", SSH_CONNECTION="x", SSH_TTY="x")
    assert answers[0]["result"]["serverInfo"]["name"] == "engram-memory"
    assert "environment" not in str(log)


def test_a_host_that_grants_no_conversation_does_not_look_at_the_environment(desk):
    text = desk.host_file.read_text()
    for tool in ("save_message", "search_memory", "manage_knowledge", "memory_startup"):
        text = text.replace(f'\n    "{tool}",', "")
    desk.host_file.write_text(text)
    answers, log = _served(desk, HELLO, DB_HOST="x", AGENT_MODEL="x")
    assert answers[0]["result"]["serverInfo"]["name"] == "engram-memory"
    assert "environment" not in str(log)


def test_what_of_the_environment_nobody_listens_to_is_told_without_its_value(desk):
    _, log = _served(
        desk, HELLO, AGENT_PLATFORM="told-1", AGENT_MODEL="told-2", SHORT_TERM_DAYS="told-3", AGENT_KEY="k"
    )
    warned = [line for line in log if line["event"] == "environment ignored"]
    assert [line["name"] for line in warned] == ["AGENT_PLATFORM", "AGENT_MODEL", "SHORT_TERM_DAYS"]
    assert {line["level"] for line in warned} == {"warning"}
    assert "told-" not in str(log)


def test_where_events_grant_the_first_list_holds_what_they_grant_and_no_more(desk):
    text = desk.host_file.read_text(encoding="utf-8")
    desk.host_file.write_text(text.replace('mode = "file"', 'mode = "events"'), encoding="utf-8")
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    answers, _ = _served(desk, HELLO, READY, listing)
    assert answers[1]["result"]["tools"] == []
    principal = desk.json("grants", "list")[0]["principal"]
    desk.ok("grants", "add", "--principal", principal, "--tool", "engram_memory_search")
    answers, _ = _served(desk, HELLO, READY, listing, _call(3))
    assert [tool["name"] for tool in answers[1]["result"]["tools"]] == ["engram_memory_search"]
    assert answers[2]["result"]["structuredContent"]["ok"]
