"""How often a principal may call in a scope: a bucket of tokens each, filled at a steady rate, in this process alone.

A bucket holds a minute's worth, so that calls may come in a burst, and no faster in the long run. A call that is
refused takes nothing and writes nothing.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from journal import limits
from journal.errors import RateLimited
from tools.host.capabilities import READING

if TYPE_CHECKING:
    from tools.host.binding import Binding

_MINUTE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Rates:
    """How many calls a minute; None: any number."""

    calls: int | None = None
    mutations: int | None = None  # of the calls, those that may write


@dataclass(slots=True)
class _Bucket:
    """So many tokens were there at an instant."""

    tokens: float
    at: float  # seconds, of the clock that is asked

    def fill(self, a_minute: int, now: float) -> None:
        self.tokens = min(float(a_minute), self.tokens + (now - self.at) * a_minute / _MINUTE_SECONDS)
        self.at = now


class RateLimiter:
    """Counts the calls of every principal in every scope. Safe from any thread; one serves all bindings."""

    def __init__(self, rates: Rates, seconds: Callable[[], float] = time.monotonic) -> None:
        """Take the rates, and a clock of seconds that never goes back."""
        self._rates = rates
        self._seconds = seconds
        self._mutex = threading.Lock()
        self._buckets: OrderedDict[tuple[bytes, str, bool], _Bucket] = OrderedDict()

    def admit(self, binding: Binding, tool: str) -> None:
        """Count a call of a tool.

        Raises:
            RateLimited: there were too many of late; the detail says in how many seconds there is room again.
        """
        rates = self._rates
        if rates.calls is None and rates.mutations is None:
            return
        asked = [(rates.calls, False)] if tool in READING else [(rates.calls, False), (rates.mutations, True)]
        with self._mutex:
            now = self._seconds()
            buckets = [
                (self._bucket((binding.scope.tag, binding.principal, writes), a_minute, now), a_minute)
                for a_minute, writes in asked
                if a_minute is not None
            ]
            waits = ((1 - bucket.tokens) * _MINUTE_SECONDS / a_minute for bucket, a_minute in buckets)
            wait_seconds = max(waits, default=0.0)
            if wait_seconds > 0:
                raise RateLimited(f"room again in {wait_seconds:.1f} s")
            for bucket, _ in buckets:
                bucket.tokens -= 1

    def _bucket(self, key: tuple[bytes, str, bool], a_minute: int, now: float) -> _Bucket:
        bucket = self._buckets.pop(key, None) or _Bucket(float(a_minute), now)
        bucket.fill(a_minute, now)
        self._buckets[key] = bucket
        if len(self._buckets) > limits.RATE_BUCKETS_MAX:
            self._buckets.popitem(last=False)  # asked for longest ago
        return bucket
