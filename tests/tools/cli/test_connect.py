"""engram connect: each client's format parses, starts this server, and approves nothing that takes something away."""

import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.tools.host.host_files import template, written
from tools.cli.main import run

READS_AND_APPENDS = {
    "engram_memory_search", "engram_memory_get", "engram_memory_capture",
    "save_message", "search_memory", "memory_startup",
}  # fmt: skip
CONFIRMED = {"engram_memory_withdraw", "engram_memory_forget", "manage_knowledge"}


def printed(capsys, *arguments: str) -> str:
    assert run(["connect", *arguments]) == 0
    return capsys.readouterr().out


def pieces(capsys, client: str, config: Path) -> tuple[dict[str, Any], list[Any]]:
    """Return the --json document and its pieces, each parsed as what it says it is."""
    document = json.loads(printed(capsys, client, "--config", str(config), "--json"))
    parsers = {"json": json.loads, "toml": tomllib.loads}
    return document, [parsers[each["format"]](each["text"]) for each in document["files"]]


def files_of(document: dict[str, Any]) -> str:
    return "\n".join(each["text"] for each in document["files"])


@pytest.fixture
def config(tmp_path) -> Path:
    return written(tmp_path, template(tmp_path))


def starts_the_server(command: str, arguments: list[str], config: Path) -> None:
    assert Path(command).is_absolute()
    assert arguments[-3:] == ["serve", "--config", str(config)]
    assert Path(config).is_absolute()


def prints_the_brief(line: str, config: Path, platform: str, *options: str) -> None:
    words = shlex.split(line)
    assert Path(words[0]).is_absolute()
    wanted = ["brief", "--config", str(config), "--platform", platform, *options]
    assert words[-len(wanted) :] == wanted


def test_claude_code(capsys, config):
    document, [servers, settings] = pieces(capsys, "claude-code", config)
    server = servers["mcpServers"]["engram"]
    starts_the_server(server["command"], server["args"], config)
    assert server["type"] == "stdio"
    assert server["timeout"] == 80_000
    allowed = {name.removeprefix("mcp__engram__") for name in settings["permissions"]["allow"]}
    assert allowed == READS_AND_APPENDS
    assert {name.removeprefix("mcp__engram__") for name in settings["permissions"]["ask"]} == CONFIRMED
    assert document["register"][:6] == ["claude", "mcp", "add-json", "--scope", "user", "engram"]
    assert json.loads(document["register"][6]) == server
    [[hook]] = [group["hooks"] for group in settings["hooks"]["SessionStart"]]
    assert (hook["type"], hook["timeout"]) == ("command", 10)
    prints_the_brief(hook["command"], config, "claude-code")


def test_codex(capsys, config):
    _, [settings] = pieces(capsys, "codex", config)
    server = settings["mcp_servers"]["engram"]
    starts_the_server(server["command"], server["args"], config)
    assert server["startup_timeout_sec"] > 10
    assert server["tool_timeout_sec"] == 80
    modes = {name: tool["approval_mode"] for name, tool in server["tools"].items()}
    assert {name for name, mode in modes.items() if mode == "approve"} == READS_AND_APPENDS
    assert {name for name, mode in modes.items() if mode == "prompt"} == CONFIRMED
    [[hook]] = [group["hooks"] for group in settings["hooks"]["SessionStart"]]
    assert (hook["type"], hook["timeout"]) == ("command", 10)
    prints_the_brief(hook["command"], config, "codex")
    # What a person sees is the same piece, and stays valid TOML with its comment lines.
    assert tomllib.loads(printed(capsys, "codex", "--config", str(config))) == settings


def test_gemini(capsys, config):
    _, [settings, policy] = pieces(capsys, "gemini", config)
    server = settings["mcpServers"]["engram"]
    starts_the_server(server["command"], server["args"], config)
    assert server["timeout"] == 80_000
    assert server["trust"] is False
    assert set(server["includeTools"]) == READS_AND_APPENDS | CONFIRMED | {"engram_memory_request_admission"}
    [[hook]] = [group["hooks"] for group in settings["hooks"]["SessionStart"]]
    assert (hook["type"], hook["timeout"]) == ("command", 10_000)
    prints_the_brief(hook["command"], config, "gemini-cli", "--hook")
    assert all(rule["mcpName"] == "engram" and 0 <= rule["priority"] <= 999 for rule in policy["rule"])
    decisions = {rule["toolName"]: rule["decision"] for rule in policy["rule"]}
    assert {name for name, decision in decisions.items() if decision == "allow"} == READS_AND_APPENDS
    assert {name for name, decision in decisions.items() if decision == "ask_user"} == CONFIRMED


@pytest.mark.parametrize("client", ["claude-code", "codex", "gemini"])
def test_what_a_person_sees_holds_every_piece(capsys, config, client):
    document, _ = pieces(capsys, client, config)
    told = printed(capsys, client, "--config", str(config))
    for piece in document["files"]:
        assert f"# {piece['file']}" in told
        assert piece["text"] in told
    if document["register"]:
        assert shlex.join(document["register"]) in told


def test_the_time_out_follows_the_host_file(capsys, tmp_path):
    config = written(tmp_path, template(tmp_path).replace("wait_seconds = 50", "wait_seconds = 200"))
    _, [settings] = pieces(capsys, "codex", config)
    assert settings["mcp_servers"]["engram"]["tool_timeout_sec"] == 230


def test_an_ungranted_tool_is_not_named(capsys, tmp_path):
    config = written(tmp_path, template(tmp_path, tools=["engram_memory_search", "save_message"]))
    ungranted = {*READS_AND_APPENDS, *CONFIRMED} - {"engram_memory_search", "save_message"}
    for client in ("claude-code", "codex", "gemini"):
        told = printed(capsys, client, "--config", str(config))
        assert "engram_memory_search" in told
        assert "save_message" in told
        assert not [name for name in ungranted if name in told]
        assert "SessionStart" not in told
        assert "brief" not in told


def test_a_path_with_odd_characters_survives_every_format(capsys, tmp_path):
    folder = tmp_path / "my \"files\" 한글 'x' $HOME"
    folder.mkdir()
    config = written(folder, template(folder))
    for client in ("claude-code", "codex", "gemini"):
        document, [first, *_] = pieces(capsys, client, config)
        server = first.get("mcpServers", first.get("mcp_servers"))["engram"]
        assert server["args"][-1] == str(config)
        [line] = re.findall(r'command"?(?: =|:) ("[^\n]* brief [^\n]*"),?$', files_of(document), re.MULTILINE)
        words = shlex.split(json.loads(line))
        assert words[words.index("--config") + 1] == str(config)
        assert document["command"][-1] == str(config)
        if document["register"]:
            [line] = [
                line for line in printed(capsys, client, "--config", str(config)).split("\n") if "add-json" in line
            ]
            assert shlex.split(line) == document["register"]


def test_memory_that_is_off_is_said(capsys, tmp_path):
    config = written(tmp_path, template(tmp_path, enabled=False))
    assert run(["connect", "codex", "--config", str(config)]) == 0
    captured = capsys.readouterr()
    assert "No tool is listed yet" in captured.err
    assert "tools." not in tomllib.loads(captured.out)


def test_nonsense_is_refused_with_exit_code_2(capsys, tmp_path):
    for arguments in (["connect"], ["connect", "emacs"], ["connect", "codex", "--config", str(tmp_path / "missing")]):
        assert run(arguments) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.count("\n") == 1


def test_nothing_is_written(capsys, tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    config = written(tmp_path, template(tmp_path))
    for client in ("claude-code", "codex", "gemini"):
        printed(capsys, client, "--config", str(config))
    assert list(home.iterdir()) == []


def test_it_runs_as_a_program(config):
    result = subprocess.run(
        [sys.executable, "-m", "tools.cli.main", "connect", "codex", "--config", str(config), "--json"],
        capture_output=True, check=True, timeout=60, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert json.loads(result.stdout)["client"] == "codex"


def test_any_other_client_gets_command_arguments_and_time_outs(capsys, config):
    document, (entry,) = pieces(capsys, "other", config)
    starts_the_server(entry["command"], entry["args"], config)
    assert document["command"] == [entry["command"], *entry["args"]]
    assert 0 < entry["startup_timeout_seconds"] < entry["tool_timeout_seconds"]
    assert set(entry) == {"command", "args", "startup_timeout_seconds", "tool_timeout_seconds"}


@pytest.mark.parametrize("client", ["chatgpt", "hermes", "openclaw"])
def test_a_client_without_a_stanza_is_told_of_the_one_for_any(capsys, config, client):
    assert run(["connect", client, "--config", str(config)]) == 2
    assert "other prints what any client needs" in capsys.readouterr().err
