"""Connections that send nothing, or a head that never ends: they are closed, for each of them takes a place."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from journal import limits


class ImpatientProtocol(H11Protocol):
    """uvicorn's protocol, which waits for a request's head only so long.

    Its own patience ends between two requests alone, and with any byte it begins anew: a client that sends one now and
    then would keep its connection for ever.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._giving_up: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Begin to wait for the first head."""
        super().connection_made(transport)
        self._look()

    def data_received(self, data: bytes) -> None:
        """Look whether that was the end of a head."""
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """Begin to wait for the next head."""
        super().on_response_complete()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        super().connection_lost(exc)
        self._stop_waiting()

    def _look(self) -> None:
        """Wait where no request is being answered; what is left of an answered one's body is no request."""
        cycle: RequestResponseCycle | None = self.cycle  # None until the first head, whatever its annotation says
        if cycle is not None and not cycle.response_complete:
            self._stop_waiting()
        elif self._giving_up is None and not self.transport.is_closing():
            self._giving_up = self.loop.call_later(limits.HTTP_HEAD_SECONDS, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None
