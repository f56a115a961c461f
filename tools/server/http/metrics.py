"""Figures of a server in the text format of Prometheus: calls by tool and code, how long they took, what is refused.

No label is a name that a caller chose: a tool's is a listed one, a code one of the contract, a reason one of ours.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

_INFINITE: Final = len(BUCKETS_SECONDS)


class Metrics:
    """Counters and one histogram a tool, safe from any thread."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._calls: Counter[tuple[str, str]] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._refusals: Counter[str] = Counter()
        self._in_flight = 0
        self.draining = False

    @contextmanager
    def call(self) -> Iterator[None]:
        """Count a call as in flight while the block runs."""
        with self._mutex:
            self._in_flight += 1
        try:
            yield
        finally:
            with self._mutex:
                self._in_flight -= 1

    def count_call(self, tool: str, code: str, seconds: float) -> None:
        """Count a call that ended with ``code``: "ok", a code of the contract, or one of the protocol."""
        place = next((place for place, bound in enumerate(BUCKETS_SECONDS) if seconds <= bound), _INFINITE)
        with self._mutex:
            self._calls[tool, code] += 1
            self._buckets.setdefault(tool, [0] * (_INFINITE + 1))[place] += 1
            self._seconds[tool] += seconds

    def count_refusal(self, reason: str) -> None:
        """Count a request that reached no tool."""
        with self._mutex:
            self._refusals[reason] += 1

    def text(self) -> str:
        """Return all of it as Prometheus reads it."""
        with self._mutex:
            return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield "# HELP engram_calls_total Tool calls by tool and code."
        yield "# TYPE engram_calls_total counter"
        for (tool, code), count in sorted(self._calls.items()):
            yield f'engram_calls_total{{tool="{tool}",code="{code}"}} {count}'
        yield "# HELP engram_call_seconds How long tool calls took."
        yield "# TYPE engram_call_seconds histogram"
        for tool, counts in sorted(self._buckets.items()):
            yield from self._histogram(tool, counts)
        yield "# HELP engram_calls_in_flight Tool calls that are running."
        yield "# TYPE engram_calls_in_flight gauge"
        yield f"engram_calls_in_flight {self._in_flight}"
        yield "# HELP engram_requests_refused_total HTTP requests that reached no tool, by reason."
        yield "# TYPE engram_requests_refused_total counter"
        for reason, count in sorted(self._refusals.items()):
            yield f'engram_requests_refused_total{{reason="{reason}"}} {count}'
        yield "# HELP engram_draining Whether the server is ending."
        yield "# TYPE engram_draining gauge"
        yield f"engram_draining {int(self.draining)}"

    def _histogram(self, tool: str, counts: list[int]) -> Iterator[str]:
        total = 0
        for bound, count in zip((*map(str, BUCKETS_SECONDS), "+Inf"), counts, strict=True):
            total += count
            yield f'engram_call_seconds_bucket{{tool="{tool}",le="{bound}"}} {total}'
        yield f'engram_call_seconds_sum{{tool="{tool}"}} {self._seconds[tool]:.6f}'
        yield f'engram_call_seconds_count{{tool="{tool}"}} {total}'
