"""From process start to the answer of the first ``tools/list``, beside the SDK's bare server in the same run.

    python bench/startup.py [COMMAND ARGUMENT...]

Without a command the server is `engram serve` on a new store.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROUNDS = 10
BUDGET_SECONDS = 1.0  # one client gives up at 1.5

ROOT = Path(__file__).resolve().parent.parent
ENGRAM = [sys.executable, "-m", "tools.cli.main"]
BARE = [
    sys.executable,
    "-c",
    """
import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

async def list_tools(context, params):
    return types.ListToolsResult(tools=[types.Tool(name="nothing", input_schema={"type": "object"})])

async def main():
    server = Server("bare", on_list_tools=list_tools)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())

anyio.run(main)
""",
]

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}


def first_list(command: list[str]) -> tuple[float, list[dict[str, Any]]]:
    """Start a server, shake hands, ask for its tools; return the seconds that took, and the tools."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    began = time.perf_counter()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    ) as server:
        assert server.stdin
        assert server.stdout

        def send(message: dict[str, Any]) -> None:
            assert server.stdin
            server.stdin.write(json.dumps(message).encode() + b"\n")
            server.stdin.flush()

        send(INITIALIZE)
        assert json.loads(server.stdout.readline())["id"] == INITIALIZE["id"]
        send(INITIALIZED)
        send(LIST)
        answer = json.loads(server.stdout.readline())
        seconds = time.perf_counter() - began
        server.stdin.close()
        server.wait(timeout=60)
    assert answer["id"] == LIST["id"]
    return seconds, answer["result"]["tools"]


def main() -> int:
    """Measure the given command, or `engram serve` on a new store."""
    if sys.argv[1:]:
        return measure(sys.argv[1:])
    with tempfile.TemporaryDirectory() as place:
        config = str(Path(place) / "engram.toml")
        made = [*ENGRAM, "init", "--store", str(Path(place) / "store"), "--config", config]
        subprocess.run(made, check=True, capture_output=True, cwd=ROOT)
        return measure([*ENGRAM, "serve", "--config", config])


def measure(ours: list[str]) -> int:
    """Print the medians, their ratio and the size of the list; return 1 over the budget."""
    for command in (BARE, ours):
        first_list(command)  # compiles and warms the file cache
    times: dict[str, list[float]] = {"bare": [], "ours": []}
    tools: list[dict[str, Any]] = []
    for _ in range(ROUNDS):
        times["bare"].append(first_list(BARE)[0])
        seconds, tools = first_list(ours)
        times["ours"].append(seconds)
    medians = {name: statistics.median(seconds) for name, seconds in times.items()}
    for name, median in medians.items():
        print(f"{name}: median of {ROUNDS} {median:.3f} s (best {min(times[name]):.3f}, worst {max(times[name]):.3f})")
    size_bytes = len(json.dumps(tools, ensure_ascii=False, separators=(",", ":")).encode())
    print(f"ratio {medians['ours'] / medians['bare']:.2f}; {len(tools)} tools in {size_bytes:,} bytes")
    return int(medians["ours"] > BUDGET_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
