"""The end of a server: no new calls, and those under way are waited for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from tools.server.http.metrics import Metrics
from tools.server.http.refusing import busy


class Ending:
    """Which calls are under way, and whether new ones are taken."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._changed = anyio.Event()
        self.calls = 0
        self.draining = False

    def begin(self) -> None:
        """Take no new calls."""
        self.draining = self._metrics.draining = True

    def check(self) -> None:
        """Refuse a request that comes too late.

        Raises:
            Refusal: the server ends.
        """
        if self.draining:
            refusal = busy("draining")
            refusal.headers["Connection"] = "close"
            raise refusal

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Count a call while the block runs; its request, as long as it is answered, is counted apart."""
        self.calls += 1
        try:
            yield
        finally:
            self.calls -= 1
            self._changed.set()
            self._changed = anyio.Event()

    async def idle(self, seconds: float) -> bool:
        """Wait until no call is under way; return whether that was within the time."""
        with anyio.move_on_after(seconds):
            while self.calls:
                await self._changed.wait()
        return not self.calls
