"""Two tools that do nothing: ``echo`` answers what it is sent, ``answer`` always one given document.

    python -m bench.echoing.server stdio|http [DOCUMENT.json]

Over HTTP the first line on stdout is the port. It is the SDK's own low-level server and its own transports, unchanged.
"""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

Context = ServerRequestContext[Any, Any]


def echo_server(document: dict[str, Any]) -> Server[Any]:
    """Return the server; ``document`` is what the tool ``answer`` answers."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    schema = {"type": "object"}

    async def list_tools(_context: Context, _params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name=name, input_schema=schema) for name in ("echo", "answer")])

    async def call_tool(_context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name == "answer":
            return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=document)
        said = params.arguments or {}
        return types.CallToolResult(content=[types.TextContent(text=json.dumps(said))], structured_content=said)

    return Server("echo", on_list_tools=list_tools, on_call_tool=call_tool)


async def over_stdio(server: Server[Any]) -> None:
    """Serve until the client closes its end."""
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


async def over_http(server: Server[Any]) -> None:
    """Serve until the process is ended."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named, for TCP_NODELAY
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    print(listening.getsockname()[1], flush=True)
    settings = uvicorn.Config(server.streamable_http_app(), log_config=None, access_log=False)
    await uvicorn.Server(settings).serve(sockets=[listening])


def main() -> None:
    """Serve over the transport that is named."""
    transport, *documents = sys.argv[1:]
    document = json.loads(Path(documents[0]).read_text(encoding="utf-8")) if documents else {}
    anyio.run(over_http if transport == "http" else over_stdio, echo_server(document))


if __name__ == "__main__":
    main()
