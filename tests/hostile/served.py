"""A store that ``engram init`` made, the real ``engram serve`` over it, and what the journal says meanwhile."""

from __future__ import annotations

import contextlib
import queue
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.tools.cli.desk import command_line, environment
from tests.tools.memory.world import PURPOSE, SECOND, Caller
from tests.tools.server.raw_server import RawServer
from tools.host.binding import bind
from tools.host.file import load_host_file
from tools.memory.engine import Engine

SAMPLE_SECONDS = 0.02


@dataclass(frozen=True)
class Store:
    """A store with one record, where what is asserted is accepted and nobody waits for a person."""

    config: Path

    @classmethod
    def make(cls, folder: Path) -> Store:
        config = folder / "engram.toml"
        words = ("init", "--store", str(folder / "store"), "--config", str(config), "--policy", "accept-asserted")
        subprocess.run(
            command_line(*words, "--purpose", PURPOSE, "--purpose", SECOND), capture_output=True, check=True,
            env=environment(),
        )  # fmt: skip
        text = config.read_text(encoding="utf-8")
        assert "wait_seconds = 50" in text
        config.write_text(text.replace("wait_seconds = 50", "wait_seconds = 0"), encoding="utf-8")
        store = cls(config)
        engine = store.engine()
        Caller(engine).remember("What was there before any nonsense came.")
        engine.close()
        return store

    def engine(self) -> Engine:
        host_file = load_host_file(self.config)
        return Engine.open(host_file, bind(host_file))

    def head(self) -> Any:
        """Return the journal's head, its cursor and hash; from this process, whoever serves meanwhile."""
        engine = self.engine()
        try:
            return engine.journal.store.head(engine.binding.scope)
        finally:
            engine.close()

    def serve(self) -> ServedStore:
        return ServedStore(self.config)


class ServedStore(RawServer):
    """``engram serve`` in a process of its own, driven as :class:`RawServer` is."""

    def __init__(self, config: Path) -> None:
        self.process = subprocess.Popen(
            command_line("serve", "--config", str(config)), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=environment(),
        )  # fmt: skip
        assert self.process.stdin
        assert self.process.stdout
        assert self.process.stderr
        self.stdin, self.stdout, self.stderr = self.process.stdin, self.process.stdout, self.process.stderr
        self.messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.impure: list[bytes] = []
        self.log = b""
        self._threads = [threading.Thread(target=self._read_log, daemon=True)]
        self._threads[0].start()

    def threads(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/task").iterdir()))

    def kill(self) -> None:
        """End it without a word, and let go of its pipes; harmless where it ended already."""
        self.process.kill()
        self.wait()
        for pipe in (self.stdin, self.stdout, self.stderr):
            with contextlib.suppress(BrokenPipeError):  # what was never read
                pipe.close()


class PeakMemory:
    """Looks at a server's anonymous memory again and again: the kernel keeps no peak of it."""

    def __init__(self, server: ServedStore) -> None:
        self._server = server
        self._stop = threading.Event()
        self._watch = threading.Thread(target=self._look, daemon=True)
        self.before_bytes = server.resident_bytes()
        self.peak_bytes = self.before_bytes

    def __enter__(self) -> Self:
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._watch.join()

    def _look(self) -> None:
        while not self._stop.wait(SAMPLE_SECONDS):
            try:
                self.peak_bytes = max(self.peak_bytes, self._server.resident_bytes())
            except (OSError, ValueError):
                return  # it ended


class Honest:
    """A client with manners: it captures, admits, searches and gets, and notes how long each call took."""

    def __init__(self, server: ServedStore) -> None:
        self._server = server
        self._calls = 0
        self.latencies_seconds: list[float] = []

    def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the value of a call that must succeed."""
        self._calls += 1
        params = {"name": tool, "arguments": arguments}
        began = time.perf_counter()
        answer = self._server.ask({"id": f"honest-{self._calls}", "method": "tools/call", "params": params})
        self.latencies_seconds.append(time.perf_counter() - began)
        envelope = answer["result"]["structuredContent"]
        assert envelope["ok"], envelope
        return envelope["output"]["value"]
