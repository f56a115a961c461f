"""A real server in a process of its own, driven line by line."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
ECHO_COMMAND = [sys.executable, str(Path(__file__).with_name("echo_server.py"))]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}
ANSWER_SECONDS = 30

INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "raw", "version": "1"},
}

MODERN_ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "raw-modern", "version": "1"},
}


class RawServer:
    """The echo server as a subprocess. Every line of its stdout must be one JSON-RPC message."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [*ECHO_COMMAND, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
        )
        assert self.process.stdin
        assert self.process.stdout
        assert self.process.stderr
        self.stdin = self.process.stdin
        self.stdout = self.process.stdout
        self.stderr = self.process.stderr
        self.messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.impure: list[bytes] = []
        self.log = b""
        self._threads = [threading.Thread(target=self._read_log, daemon=True)]
        self._threads[0].start()

    def read(self) -> RawServer:
        """Begin to read stdout; a client that never reads does not call this."""
        self._threads.append(threading.Thread(target=self._read_messages, daemon=True))
        self._threads[-1].start()
        return self

    def send_raw(self, line: bytes) -> None:
        self.stdin.write(line)
        self.stdin.flush()

    def send(self, message: dict[str, Any]) -> None:
        self.send_raw(json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n")

    def receive(self) -> dict[str, Any]:
        """Return the next message."""
        message = self.messages.get(timeout=ANSWER_SECONDS)
        assert message is not None, f"the server ended: {self.log!r}"
        return message

    def answer(self, request_id: object) -> dict[str, Any]:
        """Return the answer under an id, passing over whatever comes before."""
        while True:
            message = self.receive()
            if "method" not in message and message["id"] == request_id:
                return message

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        self.send(message)
        return self.answer(message["id"])

    def call(self, request_id: int | str, errand: str, meta: dict[str, Any] | None = None) -> None:
        """Send a call of the tool that runs errands."""
        arguments = {"record_id": f"mem_{errand}", "purpose_ref": "purpose:case"}
        params = {"name": "engram_memory_get", "arguments": arguments} | ({"_meta": meta} if meta else {})
        self.send({"id": request_id, "method": "tools/call", "params": params})

    def handshake(self, version: str = "2025-11-25") -> RawServer:
        self.ask({"id": "init", "method": "initialize", "params": INITIALIZE | {"protocolVersion": version}})
        self.send({"method": "notifications/initialized"})
        return self

    def end(self) -> int:
        """Close stdin, wait for the server's end, and return its exit code."""
        if not self.stdin.closed:
            self.stdin.close()
        return self.wait()

    def wait(self) -> int:
        code = self.process.wait(timeout=ANSWER_SECONDS)
        for thread in self._threads:
            thread.join(timeout=ANSWER_SECONDS)
        return code

    def resident_bytes(self) -> int:
        """Return the server's anonymous memory in RAM."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        [line] = [line for line in status.splitlines() if line.startswith("RssAnon:")]
        return int(line.split()[1]) * 1024

    def _read_messages(self) -> None:
        for line in self.stdout:
            try:
                message = json.loads(line)
                assert message["jsonrpc"] == "2.0"
                self.messages.put(message)
            except (ValueError, AssertionError, KeyError, TypeError):
                self.impure.append(line)
        self.messages.put(None)

    def _read_log(self) -> None:
        for line in self.stderr:
            self.log += line
