"""engram connect --transport http: each client's format parses and names address and variable, and never a token."""

import json
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.tools.host.host_files import template, written
from tools.cli.main import run

TOKEN = "planted-token-of-anna-0123456789abcdef"
URL = "http://127.0.0.1:8377/mcp"
SECTION = """
[[http.tokens]]
name = "anna"
file = "anna.token"
[[http.tokens]]
name = "ben"
file = "ben.token"
[[http.principals]]
token = "anna"
principal = "Anna"
tools = ["engram_memory_search", "engram_memory_forget", "memory_startup"]
purposes = []
"""
BEN = """
[[http.principals]]
token = "ben"
principal = "Ben"
tools = ["engram_memory_get"]
purposes = []
"""
SIGNED = """
allowed_hosts = ["memory.example.org"]
audience = "https://memory.example.org/mcp"
issuer = "https://login.example.org"
jwks = "https://login.example.org/jwks.json"
[[http.principals]]
claims = { sub = "anna" }
principal = "Anna"
tools = ["engram_memory_search"]
purposes = []
"""


def host_file(folder: Path, section: str) -> Path:
    (folder / "anna.token").write_text(TOKEN, encoding="utf-8")
    return written(folder, template(folder).partition("\n[http]\n")[0] + "\n[http]" + section)


def told(capsys, client: str, config: Path, *words: str) -> tuple[dict[str, Any], list[Any]]:
    """Return the --json document and its pieces, each parsed as what it says it is."""
    assert run(["connect", client, "--transport", "http", "--config", str(config), "--json", *words]) == 0
    document = json.loads(capsys.readouterr().out)
    parsers = {"json": json.loads, "toml": tomllib.loads}
    return document, [parsers[each["format"]](each["text"]) for each in document["files"]]


@pytest.fixture
def config(tmp_path) -> Path:
    return host_file(tmp_path, SECTION)


def test_claude_code(capsys, config):
    document, [servers, settings] = told(capsys, "claude-code", config)
    server = servers["mcpServers"]["engram"]
    assert server == {
        "type": "http", "url": URL, "headers": {"Authorization": "Bearer ${ENGRAM_TOKEN}"}, "timeout": 80_000,
    }  # fmt: skip
    assert document["register"][:6] == ["claude", "mcp", "add-json", "--scope", "user", "engram"]
    assert json.loads(document["register"][6]) == server
    assert settings == {
        "permissions": {
            "allow": ["mcp__engram__engram_memory_search", "mcp__engram__memory_startup"],
            "ask": ["mcp__engram__engram_memory_forget"],
        }
    }
    assert (document["command"], document["url"], document["token_variable"]) == ([], URL, "ENGRAM_TOKEN")


def test_a_shell_that_registers_it_leaves_the_name_of_the_variable_as_it_is(capsys, config):
    assert run(["connect", "claude-code", "--transport", "http", "--config", str(config)]) == 0
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("claude ")]
    assert "'" in line[: line.index("${ENGRAM_TOKEN}")]
    assert json.loads(shlex.split(line)[6])["headers"] == {"Authorization": "Bearer ${ENGRAM_TOKEN}"}


def test_codex(capsys, config):
    _, [settings] = told(capsys, "codex", config, "--token-variable", "ANNA")
    server = settings["mcp_servers"]["engram"]
    assert (server["url"], server["bearer_token_env_var"]) == (URL, "ANNA")
    assert not {"command", "args"} & set(server)
    assert server["tool_timeout_sec"] == 80
    assert {name: tool["approval_mode"] for name, tool in server["tools"].items()} == {
        "engram_memory_search": "approve", "memory_startup": "approve", "engram_memory_forget": "prompt",
    }  # fmt: skip
    assert "hooks" not in settings


def test_gemini(capsys, config):
    _, [settings, policy] = told(capsys, "gemini", config)
    server = settings["mcpServers"]["engram"]
    assert server["httpUrl"] == URL
    assert "url" not in server  # of the transport before this one
    assert server["headers"] == {"Authorization": "Bearer ${ENGRAM_TOKEN}"}
    assert server["trust"] is False
    assert set(server["includeTools"]) == {"engram_memory_search", "engram_memory_forget", "memory_startup"}
    assert "hooks" not in settings
    assert {rule["toolName"]: rule["decision"] for rule in policy["rule"]}["engram_memory_forget"] == "ask_user"


def test_any_other_client(capsys, config):
    _, [entry] = told(capsys, "other", config)
    assert entry == {
        "url": URL, "headers": {"Authorization": "Bearer ${ENGRAM_TOKEN}"}, "tool_timeout_seconds": 80,
    }  # fmt: skip


@pytest.mark.parametrize("client", ["claude-code", "codex", "gemini", "other"])
def test_no_token_is_printed_and_its_variable_is_told(capsys, config, client):
    assert run(["connect", client, "--transport", "http", "--config", str(config)]) == 0
    printed = capsys.readouterr()
    assert TOKEN not in printed.out + printed.err
    assert "ENGRAM_TOKEN of its own environment" in printed.err
    assert URL in printed.out


def test_the_address_is_the_audience_of_the_tokens_or_what_a_person_names(capsys, tmp_path):
    config = host_file(tmp_path, SIGNED)
    assert told(capsys, "codex", config)[0]["url"] == "https://memory.example.org/mcp"
    named = told(capsys, "codex", config, "--url", "https://other.example/x")[0]
    assert named["url"] == "https://other.example/x"


def test_each_principal_has_its_own_tools(capsys, tmp_path):
    config = host_file(tmp_path, SECTION + BEN)
    _, [settings] = told(capsys, "codex", config, "--principal", "Ben")
    assert set(settings["mcp_servers"]["engram"]["tools"]) == {"engram_memory_get"}


@pytest.mark.parametrize(
    ("section", "words", "said"),
    [
        ("", [], "write [[http.principals]]"),
        (SECTION + BEN, [], "--principal: Anna, Ben"),
        (SECTION, ["--principal", "Cleo"], "there are Anna"),
        ("\nport = 0" + SECTION, [], "name the address with --url"),
        (SECTION, ["--url", "http://memory.example.org/mcp"], "in the clear"),
        (SECTION, ["--url", f"https://anna:{TOKEN}@memory.example.org/mcp"], "without a user"),
        (SECTION, ["--url", "memory"], "--url takes an address"),
        (SECTION, ["--token-variable", "A B"], "--token-variable takes a name"),
    ],
)
def test_what_cannot_be_told_is_one_sentence(capsys, tmp_path, section, words, said):
    config = host_file(tmp_path, section)
    assert run(["connect", "codex", "--transport", "http", "--config", str(config), *words]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err
    assert TOKEN not in printed.err


def test_options_of_http_are_of_http(capsys, config):
    assert run(["connect", "codex", "--config", str(config), "--url", URL]) == 2
    assert "are of --transport http" in capsys.readouterr().err
