"""What saving a message costs: in process beside a bare LMDB commit of the same bytes, over stdio beside an echo tool.

    python -m bench.save_message [--count N]

Each pair is measured in turns in one run, and the medians and their ratio are printed. Two bare commits are shown: all
bytes of the message's rows as one value, and the rows as they are, in as many tables. The echo tool answers what it is
sent, on the same SDK.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lmdb

from bench.commit import binding
from bench.startup import ENGRAM, INITIALIZE, INITIALIZED, ROOT
from journal import layout
from journal.log import Journal
from journal.store.lmdb import tables
from tools.conversation.save_message import save_message
from tools.memory.call import Call
from tools.memory.engine import Engine

_TEXT = "The nightly build moved to 02:30 because backups end at 02:00. " * 16  # 1 KB
_WARM_UP = 30
ECHO = [
    sys.executable,
    "-c",
    """
import json
import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

async def list_tools(context, params):
    return types.ListToolsResult(tools=[types.Tool(name="echo", input_schema={"type": "object"})])

async def call_tool(context, params):
    said = params.arguments or {}
    text = types.TextContent(type="text", text=json.dumps(said))
    return types.CallToolResult(content=[text], structured_content=said)

async def main():
    server = Server("echo", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())

anyio.run(main)
""",
]


def medians(actions: Sequence[Callable[[int], None]], count: int) -> list[float]:
    """Return the median milliseconds of actions that are run in turns, so that all meet the same noise."""
    times: list[list[float]] = [[] for _ in actions]
    turns = list(zip(actions, times, strict=True))
    for number in range(count + _WARM_UP):
        random.shuffle(turns)  # whoever comes behind a flush of another's is at a disadvantage
        for action, taken in turns:
            began = time.perf_counter()
            action(number)
            taken.append(time.perf_counter() - began)
    return [statistics.median(taken[_WARM_UP:]) * 1000 for taken in times]


def rows_of_a_message(engine: Engine) -> list[tuple[bytes, bytes, bytes]]:
    """Return (table, key, value) of every row that the newest message's commit put."""
    scope = engine.binding.scope
    cursor = engine.journal.store.head(scope).cursor.to_bytes(8, "big")
    found = []
    with engine.journal.store.environment.reading() as (txn, databases):  # type: ignore[attr-defined]
        for name in tables.NAMES:
            held = tables.prefix_rows(txn, databases[name], scope.tag)
            if name in (tables.EVENTS, *tables.PARTS):
                held = [row for row in held if row[0] == cursor]
            found += [(name, scope.tag + key, value) for key, value in held[-1:]]
    return found


class Bare:
    """A bare LMDB environment that commits what a message's commit does."""

    def __init__(self, place: Path, rows: Sequence[tuple[bytes, bytes, bytes]], *, apart: bool) -> None:
        place.mkdir()
        self._rows = rows
        self._apart = apart
        self._env = lmdb.open(str(place), map_size=1 << 32, max_dbs=16, lib_version=0)
        self._tables = {name: self._env.open_db(name) for name, _, _ in rows} if apart else {}
        self.size_bytes = sum(len(key) + len(value) for _, key, value in rows)

    def commit(self, number: int) -> None:
        """Commit once, durably: ciphertext like, under keys that grow or are random as the engine's are."""
        with self._env.begin(write=True) as txn:
            if not self._apart:
                txn.put(number.to_bytes(24, "big"), random.randbytes(self.size_bytes - 24))
                return
            for name, key, value in self._rows:
                grows = name in (tables.EVENTS, *tables.PARTS)
                tail = number.to_bytes(8, "big") if grows else random.randbytes(len(key) - 16)
                txn.put(key[:16] + tail, random.randbytes(len(value)), db=self._tables[name])

    def put(self, rows: Sequence[tuple[bytes, bytes, bytes]]) -> None:
        """Commit rows, given as (table, key, value), once and durably."""
        with self._env.begin(write=True) as txn:
            for name, key, value in rows:
                txn.put(key, value, db=self._tables[name])


def in_process(place: Path, count: int) -> None:
    """Measure a durable save in process."""
    layout.create(place / "store", "bench")
    engine = Engine(Journal.open(place / "store", bytes(32)), binding())

    def save(_number: int) -> None:
        call = Call(
            binding=engine.binding, actor=engine.binding.actor(), now=engine.clock.now(), client_name="bench",
            deadline=time.monotonic() + 60, session_id="bench",
        )  # fmt: skip
        save_message(engine, call, {"role": "assistant", "message": _TEXT, "agent_model": "bench"})

    save(0)
    rows = rows_of_a_message(engine)
    whole, apart = Bare(place / "whole", rows, apart=False), Bare(place / "apart", rows, apart=True)
    ours, one, many = medians([save, whole.commit, apart.commit], count)
    engine.close()
    print(f"in process: save_message {ours:.3f} ms; bare LMDB commit of the same {whole.size_bytes:,} bytes")
    print(
        f"  as one value {one:.3f} ms, ratio {ours / one:.2f}; as its {len(rows)} rows {many:.3f} ms, "
        f"ratio {ours / many:.2f}"
    )


class Client:
    """A client that writes lines and reads lines: the same for both servers."""

    def __init__(self, command: list[str], tool: str, arguments: dict[str, Any]) -> None:
        self._server = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        self._params = {"name": tool, "arguments": arguments}
        self._send(INITIALIZE)
        self._read()
        self._send(INITIALIZED)

    def _send(self, message: dict[str, Any]) -> None:
        assert self._server.stdin
        self._server.stdin.write(json.dumps(message).encode() + b"\n")
        self._server.stdin.flush()

    def _read(self) -> dict[str, Any]:
        assert self._server.stdout
        answer: dict[str, Any] = json.loads(self._server.stdout.readline())
        return answer

    def call(self, number: int) -> None:
        """Call the tool and wait for its answer."""
        self._send({"jsonrpc": "2.0", "id": number + 10, "method": "tools/call", "params": self._params})
        answer = self._read()
        assert not answer["result"].get("isError"), answer

    def close(self) -> None:
        """End the server."""
        assert self._server.stdin
        self._server.stdin.close()
        self._server.wait(timeout=60)


def over_stdio(place: Path, count: int) -> None:
    """Measure a durable save through the server."""
    config = str(place / "engram.toml")
    made = [*ENGRAM, "init", "--store", str(place / "served"), "--config", config]
    subprocess.run(made, check=True, capture_output=True, cwd=ROOT)
    arguments = {"role": "assistant", "message": _TEXT, "agent_model": "bench"}
    ours = Client([*ENGRAM, "serve", "--config", config], "save_message", arguments)
    echo = Client(ECHO, "echo", arguments)
    saved, echoed = medians([ours.call, echo.call], count)
    ours.close()
    echo.close()
    print(f"over stdio: save_message {saved:.3f} ms; echo on the same SDK {echoed:.3f} ms, ratio {saved / echoed:.2f}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=400)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        in_process(Path(directory), options.count)
        over_stdio(Path(directory), options.count)


if __name__ == "__main__":
    main()
