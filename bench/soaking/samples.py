"""What is measured every few seconds of a soak, a JSON line a sample."""

from __future__ import annotations

import json
import statistics
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from bench.soaking.book import Book
from bench.soaking.client import Client
from bench.soaking.ground import Ground, bytes_by_kind

Sample = dict[str, Any]


class Sampler:
    """Takes a sample every so many seconds, in a thread, and writes each to a file at once."""

    def __init__(self, ground: Ground, clients: list[Client], veterans: int, book: Book, to: Path) -> None:
        self.samples: list[Sample] = []
        self.took: dict[str, list[tuple[float, float]]] = defaultdict(list)  # operation -> (at, took), in seconds
        self._ground, self._clients, self._veterans, self._book = ground, clients, veterans, book
        self._file = to.open("w", encoding="utf-8")
        self._stopping = threading.Event()
        self._last = self._begun = 0.0
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self, begun: float, every_seconds: float) -> None:
        """Begin. ``begun``: the monotonic instant that samples count from."""
        self._begun = self._last = begun
        self._every_seconds = every_seconds
        self._thread.start()

    def stop(self) -> None:
        """Take a last sample, and end."""
        self._stopping.set()
        self._thread.join(60)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def write(self, line: dict[str, Any]) -> None:
        """Write another line."""
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def _work(self) -> None:
        while not self._stopping.wait(self._every_seconds):
            self._take()
        self._take()

    def _take(self) -> None:
        now = time.monotonic()
        at, window = now - self._begun, now - self._last
        self._last = now
        took: dict[str, list[float]] = defaultdict(list)
        for client in self._clients:
            fresh, client.took = client.took, []
            for operation, seconds in fresh:
                took[operation].append(seconds)
                self.took[operation].append((at, seconds))
        processes = [self._process(client) for client in self._clients]
        sample = {
            "at_seconds": round(at, 2),
            "acknowledged": sum(self._book.acknowledged.values()),
            "calls_per_second": round(sum(map(len, took.values())) / max(window, 0.001), 1),
            "latency_ms": {name: _quantiles(many) for name, many in sorted(took.items())},
            "bytes": bytes_by_kind(self._ground),
            "processes": [each for each in processes if each is not None],
            "refused": dict(self._book.refused),
            "violations": len(self._book.violations),
        }
        self.samples.append(sample)
        self.write(sample)

    def _process(self, client: Client) -> dict[str, Any] | None:
        """Return the figures of a client's server; None of one that is just dying."""
        pid = client.server.process.pid
        place = Path(f"/proc/{pid}")
        try:
            lines = (place / "status").read_text(encoding="ascii", errors="replace").splitlines()
            told = dict(line.split(":", 1) for line in lines)
            return {
                "server": client.number, "pid": pid, "lives_on": client.number < self._veterans,
                "rss_anon_bytes": int(told["RssAnon"].split()[0]) * 1024,
                "descriptors": len(list((place / "fd").iterdir())),
                "threads": int(told["Threads"]),
            }  # fmt: skip
        except (OSError, KeyError):
            return None


def _quantiles(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        "calls": len(ordered),
        "p50": round(statistics.median(ordered) * 1000, 2),
        "p99": round(ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))] * 1000, 2),
    }
