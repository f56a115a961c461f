"""The body of a request: bounded in bytes, in time, and over all requests together, before anything reads it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from starlette.requests import Request
from starlette.types import Message, Receive

from journal import limits
from tools.server.http.refusing import Refusal, busy

_CLOSE = {"Connection": "close"}  # what is left of the body is not read


class Gone(Exception):
    """The client hung up before its request was whole."""


class Bodies:
    """Takes bodies in, and holds them until they are answered."""

    def __init__(
        self, max_bytes: int = limits.LINE_MAX_BYTES, held_max_bytes: int = limits.HTTP_HELD_MAX_BYTES,
        seconds: float = limits.HTTP_BODY_SECONDS,
    ) -> None:  # fmt: skip
        self._max_bytes = max_bytes
        self._held_max_bytes = held_max_bytes
        self._seconds = seconds
        self.held_bytes = 0

    @asynccontextmanager
    async def held(self, request: Request) -> AsyncIterator[bytes]:
        """Yield the whole body of a request, and count it as held while the block runs.

        Raises:
            Refusal: 413 or 415, 408 where it does not come in time, 503 where too much is held already.
            Gone: the client hung up.
        """
        _check_head(request, self._max_bytes)
        chunks: list[bytes] = []
        taken = 0
        try:
            try:
                with anyio.fail_after(self._seconds):
                    async for chunk in _chunks(request.receive):
                        taken += len(chunk)
                        self.held_bytes += len(chunk)
                        self._check(taken)
                        chunks.append(chunk)
            except TimeoutError:
                raise Refusal(408, "body too slow", headers=_CLOSE) from None
            yield b"".join(chunks)
        finally:
            self.held_bytes -= taken

    def _check(self, taken: int) -> None:
        if taken > self._max_bytes:
            raise Refusal(413, "body too large", headers=_CLOSE)
        if self.held_bytes > self._held_max_bytes:
            refusal = busy("too much at once")
            refusal.headers.update(_CLOSE)
            raise refusal


def _check_head(request: Request, max_bytes: int) -> None:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json" or request.headers.get("content-encoding", "identity") != "identity":
        raise Refusal(415, "media type", headers=_CLOSE)
    declared = request.headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and (len(declared) > len(str(max_bytes)) or int(declared) > max_bytes):
        raise Refusal(413, "body too large", headers=_CLOSE)


async def _chunks(receive: Receive) -> AsyncIterator[bytes]:
    more = True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise Gone
        yield message.get("body", b"")
        more = message.get("more_body", False)


def replayed(body: bytes, receive: Receive) -> Receive:
    """Return a ``receive`` that gives a body that was read, and then what else comes of the client."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
