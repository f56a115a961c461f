"""The clients' own files: whether what they say of engram can be started, with a host file that exists.

They are read and never written, and nothing else that stands in them is told: they hold other servers' secrets.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from journal import limits
from tools.cli.checkup.finding import Finding, note, warning
from tools.cli.checkup.situation import Situation
from tools.cli.connect import SERVER_NAME
from tools.host.place import ENVIRONMENT_NAME

_MODULE = "tools.cli.main"


@dataclass(frozen=True, slots=True)
class _Client:
    """A client, its file, and where in it the servers stand."""

    name: str  # as engram connect knows it
    file: Path
    parse: Callable[[str], Any]
    servers: str


def _files(directory: Path) -> list[_Client]:
    home = Path.home()
    return [
        _Client("claude-code", home / ".claude.json", json.loads, "mcpServers"),
        _Client("claude-code", directory / ".mcp.json", json.loads, "mcpServers"),
        _Client("codex", home / ".codex" / "config.toml", tomllib.loads, "mcp_servers"),
        _Client("gemini", home / ".gemini" / "settings.json", json.loads, "mcpServers"),
    ]


def check(look_at: Situation) -> Iterator[Finding]:
    """Yield what is wrong with the clients' entries of engram."""
    for client in _files(look_at.directory):
        if not client.file.is_file():
            continue
        try:
            document = client.parse(_read(client.file))
        except (OSError, ValueError, RecursionError):
            yield warning(
                "CLIENT_FILE_BROKEN", str(client.file), f"cannot be read as the file of {client.name}",
                f"mend it: {client.name} itself reads it; then compare with engram connect {client.name}",
            )  # fmt: skip
            continue
        for entry in _entries(client, document, look_at.directory):
            yield from _judge(client, entry, look_at)


def _read(path: Path) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("no regular file")
        content = file.read(limits.CHECK_CLIENT_FILE_MAX_BYTES + 1)
    if len(content) > limits.CHECK_CLIENT_FILE_MAX_BYTES:
        raise ValueError("too long")
    return content.decode()


def _entries(client: _Client, document: Any, directory: Path) -> Iterator[dict[str, Any]]:
    places = [document]
    if isinstance(document, dict) and isinstance(document.get("projects"), dict):
        places.append(document["projects"].get(str(directory)))  # Claude Code keeps a project's servers there
    for each in places:
        servers = each.get(client.servers) if isinstance(each, dict) else None
        for name, entry in (servers if isinstance(servers, dict) else {}).items():
            if isinstance(entry, dict) and (name == SERVER_NAME or _starts_engram(entry)):
                yield entry


def _starts_engram(entry: dict[str, Any]) -> bool:
    command = entry.get("command")
    return isinstance(command, str) and (Path(command).name == SERVER_NAME or _MODULE in _arguments(entry))


def _arguments(entry: dict[str, Any]) -> list[str]:
    arguments = entry.get("args")
    return [each for each in arguments if isinstance(each, str)] if isinstance(arguments, list) else []


def _judge(client: _Client, entry: dict[str, Any], look_at: Situation) -> Iterator[Finding]:
    subject, mend = str(client.file), f"replace the entry by what engram connect {client.name} prints"
    command = entry.get("command")
    if not isinstance(command, str) or not command:
        if "url" not in entry and "httpUrl" not in entry:
            yield warning("CLIENT_COMMAND_MISSING", subject, "its entry of engram names no command", mend)
        return
    if "$" not in command and not _can_run(command):
        yield warning("CLIENT_COMMAND_MISSING", subject, "the command of its entry of engram cannot be run", mend)
    yield from _config(entry, look_at, subject, mend)


def _can_run(command: str) -> bool:
    return shutil.which(os.path.expanduser(command)) is not None  # noqa: PTH111 - a bare name must stay one


def _config(entry: dict[str, Any], look_at: Situation, subject: str, mend: str) -> Iterator[Finding]:
    named = _named_config(entry)
    if named is None or "$" in named:
        return
    path = Path(os.path.expanduser(named))  # noqa: PTH111 - as above
    if not path.is_absolute():
        yield warning(
            "CLIENT_CONFIG_RELATIVE", subject, "its entry of engram names a host file by a relative path", mend
        )
    elif not path.is_file():
        yield warning("CLIENT_CONFIG_MISSING", subject, "its entry of engram names a host file that is not there", mend)
    elif look_at.path is not None and path.resolve() != look_at.path.resolve():
        yield note(
            "CLIENT_OTHER_CONFIG", subject, f"its entry of engram names another host file, {path}",
            f"run engram doctor --config on that file too, or {mend}",
        )  # fmt: skip


def _named_config(entry: dict[str, Any]) -> str | None:
    arguments = _arguments(entry)
    for position, word in enumerate(arguments):
        if word == "--config":
            return arguments[position + 1] if position + 1 < len(arguments) else ""
        if word.startswith("--config="):
            return word.removeprefix("--config=")
    environment = entry.get("env")
    named = environment.get(ENVIRONMENT_NAME) if isinstance(environment, dict) else None
    return named if isinstance(named, str) else None
