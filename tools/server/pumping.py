"""Progress from a worker thread to who asked for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp.server.context import ServerRequestContext


class ProgressPump:
    """Takes progress from a worker thread and sends the newest; one that was not sent yet is replaced."""

    def __init__(self, context: ServerRequestContext[Any, Any]) -> None:
        self._session = context.session
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._newest: tuple[float, float | None, str | None] | None = None

    def report(self, done: float, total: float | None, message: str | None) -> None:
        """Note how far the call is; safe from any thread, and it never waits."""
        self._newest = (done, total, message)
        self._loop.call_soon_threadsafe(self._changed.set)

    @asynccontextmanager
    async def sending(self) -> AsyncIterator[None]:
        """Send what is reported, as long as the block runs."""
        async with anyio.create_task_group() as beside:
            beside.start_soon(self._send)
            yield
            beside.cancel_scope.cancel()

    async def _send(self) -> None:
        while await self._changed.wait():
            self._changed.clear()
            if self._newest:
                await self._session.report_progress(*self._newest)
