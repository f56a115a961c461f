"""engram connect: what a client needs to start or to reach the server. It is printed, never written.

Approval lines name the tools that a client may run without asking its user: those that read, and those that only append
what nobody finds until it is admitted. A tool that takes something away is never among them; in any case the host's own
confirmation stands behind it.

Where conversations are remembered, each client's own session-start hook prints the brief, which the client puts before
the first request: Claude Code and Codex take what the command prints, Gemini CLI one JSON object and nothing else.

Sources of the formats: Claude Code, "Connect Claude Code to tools via MCP" and "Settings" (per-server ``timeout`` in
milliseconds, ``permissions.allow``, tool names ``mcp__<server>__<tool>``); Codex, "Configuration reference"
(``mcp_servers``, ``startup_timeout_sec``, ``tool_timeout_sec``, ``tools.<tool>.approval_mode``); Gemini CLI, "MCP
servers" and "Policy engine" (``timeout`` in milliseconds, ``trust``, ``includeTools``; rules with ``mcpName`` and
``toolName``). Hooks: Claude Code, "Hooks reference", and Codex, "Hooks" (``SessionStart``, ``timeout`` in seconds;
Codex runs one only after its user has trusted it); Gemini CLI, "Hooks reference" (``timeout`` in milliseconds,
``hookSpecificOutput.additionalContext``).
"""

from __future__ import annotations

import difflib
import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from journal import limits
from tools.cli.choices import Named
from tools.cli.connect_http import TOKEN_VARIABLE, reached, tools_of
from tools.cli.connect_ways import STARTUP_TIMEOUT_SECONDS, Started, Way
from tools.cli.invocation import program
from tools.cli.options import config_file, config_option, json_option
from tools.cli.output import give, note
from tools.host.binding import Binding, bind
from tools.host.capabilities import CAPABILITIES, MEMORY_STARTUP
from tools.host.file import HostFile, load_host_file
from tools.host.template import toml_string

OTHER = "other"
SERVER_NAME = "engram"  # no underscore: Gemini CLI's policies split names there
HOOK_TIMEOUT_SECONDS = 10  # a session may well begin without a brief


@dataclass(frozen=True, slots=True)
class Snippet:
    """A piece of one of the client's files."""

    file: str
    format: str  # "json" or "toml"
    text: str


@dataclass(frozen=True, slots=True)
class Connection:
    """What a client is told."""

    client: str
    way: Way
    snippets: tuple[Snippet, ...]
    register: tuple[str, ...] = ()  # the client's own command that does the same as the first snippet

    def document(self) -> dict[str, Any]:
        """Return it as one JSON value."""
        return {
            "client": self.client,
            "server": SERVER_NAME,
            "command": list(self.way.words),
            **self.way.told(),
            "register": list(self.register),
            "files": [{"file": each.file, "format": each.format, "text": each.text} for each in self.snippets],
        }

    def told(self) -> str:
        """Return it for a person: comment lines between the pieces, so that a lone TOML piece stays valid TOML."""
        parts = []
        if self.register:
            parts.append(f"# Run this once; it does the same as the first piece below.\n{shlex.join(self.register)}")
        parts += [f"# {each.file}: add what follows.\n{each.text}" for each in self.snippets]
        return "\n\n".join(parts)


@dataclass(frozen=True, slots=True)
class Server:
    """How a client comes to the server, and what may be approved once and for all."""

    way: Way
    brief_words: tuple[str, ...]  # what prints the brief; nothing where the store is not the client's to open
    tools: tuple[str, ...]  # listed
    tool_timeout_seconds: int

    @property
    def approved(self) -> tuple[str, ...]:
        """The tools that a client may run without asking."""
        return tuple(name for name in self.tools if CAPABILITIES[name].harmless)

    @property
    def has_brief(self) -> bool:
        """Whether a session may begin with a brief: whoever may not ask for it does not get it from a hook either."""
        return bool(self.brief_words) and MEMORY_STARTUP in self.tools

    def brief_command(self, platform: str, *options: str) -> str:
        """Return the line of a shell that prints the brief for a platform."""
        return shlex.join((*self.brief_words, "--platform", platform, *options))

    @property
    def asking(self) -> tuple[str, ...]:
        """The tools before which a client should always ask."""
        return tuple(name for name in self.tools if CAPABILITIES[name].confirmed)


def _started(host_file: HostFile) -> Server:
    binding = bind(host_file)
    return Server(
        way=Started((*program(), "serve", "--config", str(host_file.path))),
        brief_words=(*program(), "brief", "--config", str(host_file.path)),
        tools=binding.listed_tools,
        tool_timeout_seconds=_timeout_seconds(binding),
    )


def _reached(host_file: HostFile, url: str | None, principal: str | None, token_variable: str) -> Server:
    binding, tools = tools_of(host_file, principal)
    return Server(
        way=reached(host_file, url, token_variable), brief_words=(), tools=tools,
        tool_timeout_seconds=_timeout_seconds(binding),
    )  # fmt: skip


def _timeout_seconds(binding: Binding) -> int:
    """Return how long a client should wait: for a human's approval, and then for the call's own deadline."""
    return binding.confirmation.wait_seconds + limits.CALL_DEADLINE_SECONDS


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _claude_code(server: Server) -> Connection:
    entry = {**server.way.claude_code(), "timeout": server.tool_timeout_seconds * 1000}
    permissions = {
        "allow": [f"mcp__{SERVER_NAME}__{tool}" for tool in server.approved],
        "ask": [f"mcp__{SERVER_NAME}__{tool}" for tool in server.asking],
    }
    settings: dict[str, Any] = {"permissions": permissions}
    if server.has_brief:
        hook = {
            "type": "command",
            "command": server.brief_command("claude-code"),
            "timeout": HOOK_TIMEOUT_SECONDS,
        }
        settings["hooks"] = {"SessionStart": [{"hooks": [hook]}]}
    return Connection(
        client="claude-code",
        way=server.way,
        register=("claude", "mcp", "add-json", "--scope", "user", SERVER_NAME, json.dumps(entry, ensure_ascii=False)),
        snippets=(
            Snippet("~/.claude.json", "json", _json({"mcpServers": {SERVER_NAME: entry}})),
            Snippet("~/.claude/settings.json", "json", _json(settings)),
        ),
    )


def _codex(server: Server) -> Connection:
    table = f"mcp_servers.{SERVER_NAME}"
    lines = [
        f"[{table}]",
        *server.way.codex(),
        f"startup_timeout_sec = {STARTUP_TIMEOUT_SECONDS}",
        f"tool_timeout_sec = {server.tool_timeout_seconds}",
    ]
    for mode, tools in (("approve", server.approved), ("prompt", server.asking)):
        for tool in tools:
            lines += ["", f"[{table}.tools.{tool}]", f'approval_mode = "{mode}"']
    if server.has_brief:
        lines += [
            "",
            "# Codex asks you to trust this hook before it runs it; /hooks shows it.",
            "[[hooks.SessionStart]]",
            "[[hooks.SessionStart.hooks]]",
            'type = "command"',
            f"command = {toml_string(server.brief_command('codex'))}",
            f"timeout = {HOOK_TIMEOUT_SECONDS}",
        ]
    text = "\n".join(lines)
    return Connection("codex", server.way, (Snippet("~/.codex/config.toml", "toml", text),))


def _gemini(server: Server) -> Connection:
    entry = {
        **server.way.gemini(),
        "timeout": server.tool_timeout_seconds * 1000,
        "trust": False,  # true would approve every tool of the server
        "includeTools": list(server.tools),
    }
    settings: dict[str, Any] = {"mcpServers": {SERVER_NAME: entry}}
    if server.has_brief:
        hook = {
            "name": f"{SERVER_NAME}-brief",
            "type": "command",
            "command": server.brief_command("gemini-cli", "--hook"),
            "timeout": HOOK_TIMEOUT_SECONDS * 1000,
        }
        settings["hooks"] = {"SessionStart": [{"hooks": [hook]}]}
    rules = [
        f'[[rule]]\nmcpName = "{SERVER_NAME}"\ntoolName = "{tool}"\ndecision = "{decision}"\npriority = {priority}'
        for decision, priority, tools in (("allow", 100, server.approved), ("ask_user", 200, server.asking))
        for tool in tools
    ]
    return Connection(
        client="gemini",
        way=server.way,
        snippets=(
            Snippet("~/.gemini/settings.json", "json", _json(settings)),
            Snippet("~/.gemini/policies/engram.toml", "toml", "\n\n".join(rules)),
        ),
    )


def _other(server: Server) -> Connection:
    """What any client needs; where it writes that down, its own manual says."""
    entry = {**server.way.other(), "tool_timeout_seconds": server.tool_timeout_seconds}
    transport = "stdio" if server.way.words else "streamable HTTP"
    place = f"your client's list of MCP servers ({transport})"
    return Connection(OTHER, server.way, (Snippet(place, "json", _json(entry)),))


CLIENTS: dict[str, Callable[[Server], Connection]] = {
    "claude-code": _claude_code,
    "codex": _codex,
    "gemini": _gemini,
    OTHER: _other,
}


class _Client(Named):
    """A client by name; one that has no stanza of its own is told of the one that serves any."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name as it is written."""
        if value not in self.choices and not difflib.get_close_matches(str(value).lower(), self.choices, n=1):
            known = ", ".join(name for name in self.choices if name != OTHER)
            text = f"there is no client {value}; there are {known}; {OTHER} prints what any client needs"
            self.fail(text, param, ctx)
        return super().convert(value, param, ctx)


@click.command()
@click.argument("client", type=_Client("client", list(CLIENTS)))
@click.option(
    "--transport",
    type=click.Choice(["stdio", "http"]),
    default="stdio",
    show_default=True,
    help="How the client comes to the server: it starts one, or it reaches the one that engram serve runs over HTTP.",
)
@click.option("--url", metavar="URL", help="Of http: the server's address; else what the host file says of itself.")
@click.option("--principal", metavar="NAME", help="Of http: whose tools; needed where several are bound.")
@click.option(
    "--token-variable", metavar="NAME", help=f"Of http: the client's variable that holds its token [{TOKEN_VARIABLE}]."
)
@config_option
@json_option
def command(
    client: str, transport: str, url: str | None, principal: str | None, token_variable: str | None
) -> None:  # fmt: skip
    """Print what a client needs to start the server, or to reach it over HTTP; nothing is written."""
    if transport == "stdio" and (url, principal, token_variable) != (None, None, None):
        raise click.UsageError("--url, --principal and --token-variable are of --transport http")
    host_file = load_host_file(config_file())
    variable = token_variable or TOKEN_VARIABLE
    server = _started(host_file) if transport == "stdio" else _reached(host_file, url, principal, variable)
    connection = CLIENTS[client](server)
    give(connection.document(), connection.told)
    if transport == "http":
        note(f"The client takes its token from {variable} of its own environment; it stands in no file.")
    if not server.tools:
        note(f"No tool is listed yet: {host_file.path} grants none, or host.enabled or host.tenant_enabled is false.")
