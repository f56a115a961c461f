"""The calls in flight: passed on and not yet answered. Their number and their lines' bytes are bounded."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Final

import anyio

from journal.limits import CALLS_IN_FLIGHT_MAX, FLIGHT_MAX_BYTES

RequestId = int | str

_NOBODY: Final[deque[int]] = deque()


class Flight:
    """Who enters waits for room, so that a client which sends faster than it is served waits in its own pipe.

    Several requests may carry one id: each of them enters and leaves.
    """

    def __init__(self, max_calls: int = CALLS_IN_FLIGHT_MAX, max_bytes: int = FLIGHT_MAX_BYTES) -> None:
        self._max_calls = max_calls
        self._max_bytes = max_bytes
        self._sizes: defaultdict[RequestId, deque[int]] = defaultdict(deque)
        self._bytes = 0
        self._changed = anyio.Event()
        self.calls = 0

    async def enter(self, request_id: RequestId, size_bytes: int) -> None:
        """Wait for room and take it. One call alone may be larger than the bound."""
        while self.calls and (self.calls >= self._max_calls or self._bytes + size_bytes > self._max_bytes):
            await self.change()
        self._sizes[request_id].append(size_bytes)
        self._bytes += size_bytes
        self.calls += 1

    def leave(self, request_id: RequestId) -> None:
        """Note that a request is answered, or never will be; an id that did not enter is ignored."""
        sizes = self._sizes.get(request_id, _NOBODY)
        if not sizes:
            return
        self._bytes -= sizes.popleft()
        self.calls -= 1
        if not sizes:
            del self._sizes[request_id]
        self._changed.set()
        self._changed = anyio.Event()

    async def change(self) -> None:
        """Wait until a call left."""
        await self._changed.wait()
