"""The demo's MCP client: the official one, driving the real server as a subprocess."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client


def engram_words(*arguments: str) -> list[str]:
    """Return the words of an ``engram`` command run by this very Python."""
    return [sys.executable, "-m", "tools.cli.main", *arguments]


class ServedClient:
    """A connected client, and the server's process id."""

    def __init__(self, client: Client, process_file: Path) -> None:
        self._client = client
        self._process_file = process_file

    async def tools(self) -> list[str]:
        """Return the names of the listed tools."""
        return [tool.name for tool in (await self._client.list_tools()).tools]

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return a tool's envelope."""
        result = await self._client.call_tool(tool, arguments)
        envelope: dict[str, Any] = result.structured_content or {}
        return envelope

    async def value(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return a tool's value; LookupError with the code where it failed."""
        envelope = await self.call(tool, arguments)
        if not envelope["ok"]:
            raise LookupError(f"{tool}: {envelope['error']['code']}")
        value: dict[str, Any] = envelope["output"]["value"]
        return value

    def kill_server(self) -> None:
        """Send the server SIGKILL."""
        os.kill(int(self._process_file.read_text(encoding="ascii")), signal.SIGKILL)


@asynccontextmanager
async def connected(config: Path) -> AsyncIterator[ServedClient]:
    """Start ``engram serve`` and yield a client that is connected to it."""
    process_file = config.with_name("server.pid")
    serve = shlex.join(engram_words("serve", "--config", str(config)))
    script = f"echo $$ > {shlex.quote(str(process_file))}; exec {serve}"
    parameters = StdioServerParameters(command="/bin/sh", args=["-c", script], cwd="/")
    with (config.with_name("server.log")).open("a", encoding="utf-8") as log:
        async with Client(stdio_client(parameters, errlog=log)) as client:
            yield ServedClient(client, process_file)
