"""The wire below uvicorn: how long it waits for a head, and that an answer's pieces leave together.

Connections that send nothing, or a head that never ends, are closed, for each of them takes a place.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from journal import limits


class Together(asyncio.Transport):
    """A transport whose writes of one turn of the loop leave in one piece: an answer's head with its body.

    Two pieces are two system calls here and two there, and wake the client before there is anything to read.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport
        self._pieces: list[bytes | bytearray | memoryview] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Have data written when the loop comes round."""
        if not data:
            return
        if not self._pieces:
            asyncio.get_running_loop().call_soon(self.flush)
        self._pieces.append(data)

    def flush(self) -> None:
        """Write what there is."""
        if self._pieces:
            pieces, self._pieces = self._pieces, []
            self._transport.write(b"".join(pieces))

    def close(self) -> None:
        """Write what there is, and close."""
        self.flush()
        self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._pieces.clear()
        self._transport.abort()

    def is_closing(self) -> bool:
        """Tell whether it is closed, or will be."""
        return self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what is known of the connection."""
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        """Read no more for now."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
        self._transport.resume_reading()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Hand what is read to another protocol."""
        self._transport.set_protocol(protocol)


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
        super().connection_made(Together(transport))
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
