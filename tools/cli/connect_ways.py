"""The two ways to a server, as each client writes them down: started over stdio, or reached over HTTP.

A token is never written down: each client takes it from a variable of its own environment. Sources of the formats:
Claude Code, "Connect Claude Code to tools via MCP" (``type``, ``headers``, expansion of ``${NAME}`` in them); Codex,
"Configuration reference" (``url``, ``bearer_token_env_var``); Gemini CLI, "MCP servers" (``httpUrl``, ``headers``) and
"Configuration" (expansion of ``$NAME`` in every string of the settings).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from tools.host.template import toml_string

STARTUP_TIMEOUT_SECONDS = 20  # the first start may have to verify a store that ended uncleanly


class Way(Protocol):
    """How a client comes to the server."""

    @property
    def words(self) -> tuple[str, ...]:
        """What the client runs; nothing where it only sends requests."""
        ...

    def told(self) -> dict[str, str]:
        """Return what the JSON document says of it beside that."""
        ...

    def claude_code(self) -> dict[str, Any]:
        """Return the beginning of an entry of Claude Code's ``mcpServers``."""
        ...

    def codex(self) -> list[str]:
        """Return the first lines of a table of Codex's ``mcp_servers``."""
        ...

    def gemini(self) -> dict[str, Any]:
        """Return the beginning of an entry of Gemini CLI's ``mcpServers``."""
        ...

    def other(self) -> dict[str, Any]:
        """Return what any client needs to know."""
        ...


@dataclass(frozen=True, slots=True)
class Started:
    """The client starts a server of its own and speaks over its stdin and stdout."""

    words: tuple[str, ...]  # program and arguments

    def _entry(self) -> dict[str, Any]:
        return {"command": self.words[0], "args": list(self.words[1:])}

    def told(self) -> dict[str, str]:
        """See ``Way``."""
        return {}

    def claude_code(self) -> dict[str, Any]:
        """See ``Way``."""
        return {"type": "stdio", **self._entry()}

    def codex(self) -> list[str]:
        """See ``Way``."""
        arguments = ", ".join(toml_string(word) for word in self.words[1:])
        return [f"command = {toml_string(self.words[0])}", f"args = [{arguments}]"]

    def gemini(self) -> dict[str, Any]:
        """See ``Way``."""
        return self._entry()

    def other(self) -> dict[str, Any]:
        """See ``Way``."""
        return {**self._entry(), "startup_timeout_seconds": STARTUP_TIMEOUT_SECONDS}


@dataclass(frozen=True, slots=True)
class Reached:
    """The client sends requests to a server that runs already, with the token that a variable holds."""

    url: str
    token_variable: str

    @property
    def words(self) -> tuple[str, ...]:
        """See ``Way``."""
        return ()

    def told(self) -> dict[str, str]:
        """See ``Way``."""
        return {"url": self.url, "token_variable": self.token_variable}

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer ${{{self.token_variable}}}"}

    def claude_code(self) -> dict[str, Any]:
        """See ``Way``."""
        return {"type": "http", "url": self.url, "headers": self._headers()}

    def codex(self) -> list[str]:
        """See ``Way``."""
        return [f"url = {toml_string(self.url)}", f"bearer_token_env_var = {toml_string(self.token_variable)}"]

    def gemini(self) -> dict[str, Any]:
        """See ``Way``; its ``url`` is of an older transport."""
        return {"httpUrl": self.url, "headers": self._headers()}

    def other(self) -> dict[str, Any]:
        """See ``Way``."""
        return {"url": self.url, "headers": self._headers()}
