"""A client that speaks lines of JSON-RPC to a real ``engram serve``: many calls at once, and every wait measured."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from tests.rigs.place import Place

CALL_SECONDS = 30.0  # the deadline that the product promises a call without a confirmation
SLACK_SECONDS = 5.0  # for a machine that runs more processes than it has cores
_HANDSHAKE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "rig", "version": "1"}}


class Gone(Exception):
    """The server ended before it answered."""


class LineServer:
    """One server process and the client's end of it. One thread at a time calls; another reads."""

    def __init__(self, place: Place, *, failpoint: str | None = None) -> None:
        self.process = subprocess.Popen(
            place.words("serve"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=place.log,
            env=place.environment(failpoint),
        )  # fmt: skip
        place.processes.append(self.process)
        assert self.process.stdin
        assert self.process.stdout
        self._stdin, self._stdout = self.process.stdin, self.process.stdout
        self.number = 0  # the last request's id
        self._writing = threading.Lock()
        self._waiting: dict[int, tuple[Future[dict[str, Any]], float]] = {}
        self._ended = False
        self.longest_seconds = 0.0
        self.impure: list[bytes] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def handshake(self) -> LineServer:
        """Initialize; return once it is answered."""
        self.request("initialize", _HANDSHAKE).result(60)
        self.notify("notifications/initialized", {})
        return self

    def request(self, method: str, params: dict[str, Any]) -> Future[dict[str, Any]]:
        """Send a request; its future holds the whole message, or Gone."""
        (future,) = self.pipeline([(method, params)])
        return future

    def pipeline(self, requests: list[tuple[str, dict[str, Any]]]) -> list[Future[dict[str, Any]]]:
        """Send requests in one write, so that the server has all of them before any is answered."""
        futures: list[Future[dict[str, Any]]] = []
        lines = b""
        for method, params in requests:
            self.number += 1
            number = self.number
            future: Future[dict[str, Any]] = Future()
            futures.append(future)
            self._waiting[number] = (future, time.monotonic())
            lines += _line({"id": number, "method": method, "params": params})
        self._send(lines)
        if self._ended:
            self._abandon()
        return futures

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification."""
        self._send(_line({"method": method, "params": params}))

    def call(self, tool: str, arguments: dict[str, Any]) -> Future[dict[str, Any]]:
        """Call a memory tool by its short name."""
        return self.request("tools/call", _called(tool, arguments))

    def calls(self, tool: str, many: list[dict[str, Any]]) -> list[Future[dict[str, Any]]]:
        """Call a memory tool many times in one write."""
        return self.pipeline([("tools/call", _called(tool, arguments)) for arguments in many])

    def envelope(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return a tool's answer; AssertionError where it is none by the deadline."""
        return envelope(self.call(tool, arguments))

    def value(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the value of a call that must succeed."""
        answered = self.envelope(tool, arguments)
        assert answered["ok"], answered
        value: dict[str, Any] = answered["output"]["value"]
        return value

    def code(self, tool: str, arguments: dict[str, Any]) -> str:
        """Return "ok" or the error's code."""
        return code(self.envelope(tool, arguments))

    def signal(self, number: int) -> None:
        """Send the server a signal."""
        self.process.send_signal(number)

    def stop(self) -> None:
        """Stop it, and wait until every thread of it stands still: the signal takes them one after another."""
        self.signal(signal.SIGSTOP)
        tasks = Path(f"/proc/{self.process.pid}/task")
        deadline = time.monotonic() + CALL_SECONDS
        while not all(_stands_still(task) for task in tasks.iterdir()):
            assert time.monotonic() < deadline, "it does not stop"

    def kill(self) -> None:
        """End it by SIGKILL, and wait until all that it had answered is read."""
        self.signal(signal.SIGKILL)
        self.process.wait(30)
        self._reader.join(30)

    def close(self) -> int:
        """Close its stdin, as a client that leaves; return the exit code."""
        self.signal(signal.SIGCONT)  # a test that failed may have left it stopped
        with self._writing:
            self._stdin.close()
        code = self.process.wait(CALL_SECONDS)
        self._reader.join(CALL_SECONDS)
        assert not self.impure
        return code

    def _send(self, lines: bytes) -> None:
        try:
            with self._writing:
                self._stdin.write(lines)
                self._stdin.flush()
        except (OSError, ValueError):
            self._ended = True

    def _read(self) -> None:
        for line in self._stdout:
            try:
                message = json.loads(line)
            except ValueError:
                self.impure.append(line)
                continue
            if "method" in message:
                continue
            future, since = self._waiting.pop(message["id"])
            self.longest_seconds = max(self.longest_seconds, time.monotonic() - since)
            future.set_result(message)
        self._ended = True
        self._stdout.close()
        self._abandon()

    def _abandon(self) -> None:
        for number in list(self._waiting):
            waiting = self._waiting.pop(number, None)
            if waiting is not None:
                waiting[0].set_exception(Gone())


def envelope(answer: Future[dict[str, Any]]) -> dict[str, Any]:
    """Wait for a call's answer, as long as the product promises, and return the tool's envelope."""
    message = answer.result(CALL_SECONDS + SLACK_SECONDS)
    assert "result" in message, message
    found: dict[str, Any] = message["result"]["structuredContent"]
    return found


def code(answered: dict[str, Any]) -> str:
    """Return "ok" or an envelope's error code."""
    return "ok" if answered["ok"] else str(answered["error"]["code"])


def _called(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"name": f"engram_memory_{tool}", "arguments": arguments}


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode() + b"\n"


def _stands_still(task: Path) -> bool:
    """Whether a thread is stopped, or gone meanwhile."""
    try:
        state = (task / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in ("T", "t", "Z", "X")
