"""What engram_memory_get costs over stdio and over HTTP, beside an empty echo tool on the same SDK and transport.

    python -m bench.get_speed [--count N] [--text-bytes N]

The official client calls both servers in turns, in a random order within each turn, in one run and in both protocol
eras. A third column is the SDK's server again, with a tool that answers the very document of the get without making it:
what its bytes alone cost, most of it in the client. Medians, and their ratio to the empty echo tool.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from bench.commit import arguments as capture_arguments
from bench.startup import ENGRAM, ROOT

MODES = {"2025-11-25": "legacy", "2026-07-28": "2026-07-28"}
RATIO_MAX = 1.3
_WARM_UP = 50
_PURPOSE = "purpose:bench"
_TOKEN = "b" * 40
_GET = "engram_memory_get"
_TOOLS = [_GET, "engram_memory_capture", "engram_memory_request_admission"]
_ECHO = [sys.executable, "-m", "bench.echoing.server"]
_ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}

Action = Callable[[], Awaitable[Any]]


def made_store(place: Path) -> Path:
    """Make a store that a static token reaches over HTTP; return its host file."""
    host_file = place / "engram.toml"
    words = ["--store", str(place / "store"), "--config", str(host_file), "--policy", "accept-asserted"]
    subprocess.run([*ENGRAM, "init", *words, "--purpose", _PURPOSE], check=True, capture_output=True, cwd=ROOT)
    token = place / "bench.token"
    token.write_text(_TOKEN, encoding="utf-8")
    token.chmod(0o600)
    section = f"""[http]
port = 0
[[http.tokens]]
name = "bench"
file = "bench.token"
[[http.principals]]
token = "bench"
principal = "bench"
tools = {json.dumps(_TOOLS)}
purposes = ["{_PURPOSE}"]
"""
    text = host_file.read_text(encoding="utf-8")
    host_file.write_text(re.sub(r"^\[http\]\n(?:.*\n)*", section, text, flags=re.MULTILINE), encoding="utf-8")
    return host_file


@asynccontextmanager
async def over_stdio(command: list[str], mode: str) -> AsyncIterator[Client]:
    """Yield a client of a server of its own."""
    # The official client would have the server's stderr on ours; a log is no figure.
    words = ["-c", 'exec "$@" 2>/dev/null', "sh", *command]
    parameters = StdioServerParameters(command="sh", args=words, env=_ENVIRONMENT)
    async with Client(parameters, mode=mode) as client:
        yield client


@asynccontextmanager
async def over_http(port: int, mode: str) -> AsyncIterator[Client]:
    """Yield a client of a server that listens."""
    async with (
        httpx2.AsyncClient(headers={"authorization": f"Bearer {_TOKEN}"}, trust_env=False) as http_client,
        Client(streamable_http_client(f"http://127.0.0.1:{port}/mcp", http_client=http_client), mode=mode) as client,
    ):
        yield client


class Listening:
    """A server that listens, in a process of its own."""

    def __init__(self, command: list[str], log: Path) -> None:
        with log.open("wb") as taken:
            self._server = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=taken, stderr=taken, env=_ENVIRONMENT
            )  # fmt: skip
        self.port = self._told(log)

    def _told(self, log: Path) -> int:
        """Return the port, once it is said: alone on a line, or in the log's line."""
        for _ in range(600):
            said = re.search(r'^(\d+)$|"port":\s*(\d+)', log.read_text(encoding="utf-8"), re.MULTILINE)
            if said:
                return int(said[1] or said[2])
            if self._server.poll() is not None:
                break
            time.sleep(0.1)
        raise SystemExit(f"the server does not listen: {self._server.args!r}")

    def __enter__(self) -> int:
        return self.port

    def __exit__(self, *_: object) -> None:
        self._server.kill()
        self._server.wait()


async def value(client: Client, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value of a call that must succeed."""
    result = await client.call_tool(tool, dict(arguments))
    assert result.structured_content is not None
    assert not result.is_error, result.structured_content
    document: dict[str, Any] = result.structured_content["output"]["value"]
    return document


async def remembered(ours: list[str], text_bytes: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Have one record accepted; return the arguments of a get of it, and the document that it answers."""
    async with over_stdio(ours, "legacy") as client:
        raw = capture_arguments("the-only-one-that-there-is")
        [component] = raw["payload"]["components"]
        component["text"] = (component["text"] * (text_bytes // len(component["text"]) + 1))[:text_bytes]
        candidate = await value(client, "engram_memory_capture", raw)
        asked = {"candidate_id": candidate["candidate_id"], "idempotency_key": "admission-of-the-only-one"}
        admitted = await value(client, "engram_memory_request_admission", asked)
        arguments = {"record_id": admitted["outcome"]["record_id"], "purpose_ref": _PURPOSE}
        result = await client.call_tool(_GET, arguments)
        assert result.structured_content is not None
        return arguments, result.structured_content


async def medians(actions: Mapping[str, Action], count: int) -> dict[str, float]:
    """Return the median milliseconds of actions that are run in turns, so that all meet the same noise."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    turns = list(actions.items())
    for _ in range(count + _WARM_UP):
        random.shuffle(turns)
        for name, action in turns:
            began = time.perf_counter()
            await action()
            times[name].append(time.perf_counter() - began)
    return {name: statistics.median(taken[_WARM_UP:]) * 1_000 for name, taken in times.items()}


async def measure(transport: str, clients: tuple[Client, Client], arguments: dict[str, Any], count: int) -> float:
    """Measure one transport in one era, print it, and return the ratio."""
    ours, echo = clients
    actions: dict[str, Action] = {
        "get": lambda: value(ours, _GET, arguments),
        "echo": lambda: echo.call_tool("echo", arguments),
        "same": lambda: echo.call_tool("answer", arguments),
    }
    took = await medians(actions, count)
    ratio = took["get"] / took["echo"]
    print(
        f"{transport}, {ours.protocol_version}: get {took['get']:.3f} ms, empty echo {took['echo']:.3f}, "
        f"ratio {ratio:.2f}; echo of the same bytes {took['same']:.3f}, ratio {took['get'] / took['same']:.2f}"
    )
    return ratio


async def compare(place: Path, count: int, text_bytes: int) -> float:
    """Measure both transports in both eras; return the worst ratio."""
    served = [*ENGRAM, "serve", "--config", str(made_store(place))]
    arguments, document = await remembered(served, text_bytes)
    same = place / "same.json"
    same.write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")
    size_bytes = same.stat().st_size
    print(f"a record of {text_bytes:,} bytes of text; the answer's document has {size_bytes:,}, and is there twice")
    ratios = []
    with (
        Listening([*served, "--transport", "http"], place / "ours.log") as ours_port,
        Listening([*_ECHO, "http", str(same)], place / "echo.log") as echo_port,
    ):
        for mode in MODES.values():
            async with AsyncExitStack() as stack:
                ours = await stack.enter_async_context(over_stdio(served, mode))
                echo = await stack.enter_async_context(over_stdio([*_ECHO, "stdio", str(same)], mode))
                ratios.append(await measure("stdio", (ours, echo), arguments, count))
            async with AsyncExitStack() as stack:
                ours = await stack.enter_async_context(over_http(ours_port, mode))
                echo = await stack.enter_async_context(over_http(echo_port, mode))
                ratios.append(await measure("HTTP", (ours, echo), arguments, count))
    return max(ratios)


def main() -> int:
    """Measure and print; return 1 over the promised ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--text-bytes", type=int, default=1_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        worst = anyio.run(compare, Path(directory), options.count, options.text_bytes)
    return int(worst > RATIO_MAX)


if __name__ == "__main__":
    sys.exit(main())
