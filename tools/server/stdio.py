"""Our own stdio transport: the strict reader in front of the SDK, and one writer for whatever is answered.

The SDK drives the two streams made here as it drives those of its own transport. It never sees a line that is not
clean; such a line is answered here, in turn, through the same writer.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

import anyio
import msgspec
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import (
    PROTOCOL_VERSION_META_KEY,
    SERVER_INFO_META_KEY,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)

from journal.limits import CALL_DEADLINE_SECONDS, STOP_GRACE_SECONDS
from tools.server.decoding import Reason
from tools.server.direct import DirectCalls, Running
from tools.server.envelope import AuditIds
from tools.server.flight import Flight
from tools.server.lines import LineReader, LineWriter
from tools.server.logs import warn
from tools.server.outline import Outline
from tools.server.refusals import refusal
from tools.server.service import INTERNAL_ERROR
from tools.server.strict import Clean, Refused, Verdict, read_line, refuse_outline

_FIRST_FREE_FD: Final = 3
_LOOK_SECONDS: Final = 0.1  # how often it is looked whether the client is still there, once it sends no more

GrantedTools = Callable[[], Awaitable[Collection[str] | None]]


@contextmanager
def claimed_descriptors() -> Iterator[tuple[int, int]]:
    """Take stdin and stdout for the protocol alone; yield private descriptors of both.

    Meanwhile descriptor 0 reads nothing and descriptor 1 is stderr, also for children: whoever prints, prints there.
    """
    wires = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_FD) for fd in (0, 1)]
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:
        os.dup2(nothing, 1)  # started without stderr
    os.close(nothing)
    try:
        yield wires[0], wires[1]
    finally:
        for fd, wire in enumerate(wires):
            os.dup2(wire, fd)
            os.close(wire)


class _Stream:
    """What the SDK asks of either stream beside its one verb."""

    async def aclose(self) -> None:
        """Do nothing: the descriptors are whoever claimed them's to restore."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()


class RequestStream(_Stream):
    """The messages of the client: a ``ReadStream`` for the SDK."""

    def __init__(self, transport: StdioTransport) -> None:
        self._transport = transport

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def receive(self) -> SessionMessage:
        """Return the next clean message, once there is room for it.

        Raises:
            EndOfStream: the client closed its end or the transport was stopped, and what was in flight is answered
                or has had its time.
        """
        return await self._transport.receive()


class AnswerStream(_Stream):
    """The messages of the server: a ``WriteStream`` for the SDK."""

    def __init__(self, transport: StdioTransport) -> None:
        self._transport = transport

    async def send(self, item: SessionMessage) -> None:
        """Write a message; returns when it is written.

        Raises:
            BrokenResourceError: nobody reads any more.
        """
        await self._transport.send(item.message)


class StdioTransport:
    """One connection over two descriptors, in whichever protocol era the client opens it."""

    def __init__(
        self,
        read_fd: int,
        write_fd: int,
        *,
        granted_tools: GrantedTools,
        cancel_calls: Callable[[], None],
        audit_ids: AuditIds,
        server_info: Callable[[], dict[str, Any]],
        direct: DirectCalls,
    ) -> None:
        """``cancel_calls`` tells all running calls to end; the others are for the answers given here."""
        self.requests = RequestStream(self)
        self.answers = AnswerStream(self)
        self.refused_lines = 0
        self._reader = LineReader(read_fd)
        self._writer = LineWriter(write_fd, on_gone=self.stop)
        self._flight = Flight()
        self._granted_tools = granted_tools
        self._cancel_calls = cancel_calls
        self._audit_ids = audit_ids
        self._server_info = server_info
        self._direct = direct
        self._answering: set[asyncio.Task[None]] = set()
        self._modern: bool | None = None  # the era, once the first request told it
        self._stopping = False

    def stop(self) -> None:
        """Take no further request, and give those in flight only a moment."""
        if not self._stopping:
            self._stopping = True
            self._reader.stop()
            self._cancel_calls()
            # Whoever waits for a client that does not read, waits no longer then.
            asyncio.get_running_loop().call_later(STOP_GRACE_SECONDS, self._writer.finish)

    async def receive(self) -> SessionMessage:
        """See :meth:`RequestStream.receive`."""
        while (line := await self._reader.receive()) is not None:
            verdict = _verdict(line)
            if isinstance(verdict, Clean):
                size_bytes = len(line) if isinstance(line, bytes) else 0
                if not await self._taken(verdict.message, size_bytes):
                    return await self._admit(verdict, size_bytes)
                continue
            if verdict is None:
                continue
            self.refused_lines += 1
            if isinstance(verdict, Refused):
                await self._refuse(verdict)
        await self._settle()
        raise anyio.EndOfStream

    async def send(self, message: JSONRPCMessage) -> None:
        """See :meth:`AnswerStream.send`."""
        if isinstance(message, JSONRPCResponse):
            self._direct.note_answer(message.id, message.result)
        try:
            await self._writer.write(partial(_encoded, message))
        finally:
            if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
                self._flight.leave(message.id)

    async def _taken(self, message: dict[str, Any], size_bytes: int) -> bool:
        """Whether a message needs nothing of the SDK: a call that goes directly, or the cancellation of one."""
        self._direct.note(message)
        if self._direct.cancels(message):
            return True
        if not self._direct.takes(message):
            return False
        await self._flight.enter(message["id"], size_bytes)
        running = self._direct.begin(message, self._writer.write_at_once)
        answering = asyncio.get_running_loop().create_task(self._answer(message["id"], running))
        self._answering.add(answering)  # the loop alone would not keep it
        answering.add_done_callback(self._answering.discard)
        return True

    async def _answer(self, request_id: int | str, running: Running) -> None:
        """Write a direct call's answer where its thread could not."""
        try:
            try:
                line = await asyncio.wrap_future(running.rest)
            except Exception as error:  # noqa: BLE001 - whatever it is, the client waits for an answer
                warn("message not answerable", error=type(error).__name__)
                line = _internal_error(request_id)
            if line is not None:
                with suppress(anyio.BrokenResourceError):  # the reader is stopped by now
                    await self._writer.write(lambda: line)
        finally:
            self._direct.end(request_id, running)
            self._flight.leave(request_id)

    async def _admit(self, clean: Clean, size_bytes: int) -> SessionMessage:
        """Return the message for the SDK; a request waits here until there is room."""
        message = _typed(clean)
        if not isinstance(message, JSONRPCRequest):
            return SessionMessage(message)
        if self._modern is None:
            self._modern = message.method != "initialize" and _has_modern_envelope(message.params)
        await self._flight.enter(message.id, size_bytes)

        async def unanswered() -> None:
            self._flight.leave(message.id)

        return SessionMessage(message, ServerMessageMetadata(on_request_unanswered=unanswered))

    async def _refuse(self, refused: Refused) -> None:
        granted = await self._granted_tools() if refused.tool else ()
        answer = refusal(refused, granted, self._audit_ids)
        if self._modern and "result" in answer:
            answer["result"]["_meta"] = {SERVER_INFO_META_KEY: self._server_info()}
        elif "result" in answer:
            del answer["result"]["resultType"]
        try:
            await self._writer.write(partial(_line, answer))
        except anyio.BrokenResourceError:
            return  # the reader is stopped by now

    async def _settle(self) -> None:
        """Wait for the calls in flight: for long where the client only stopped sending, else for a moment."""
        give_up_at = time.monotonic() + CALL_DEADLINE_SECONDS
        while self._flight.calls and time.monotonic() < give_up_at and not self._writer.hung_up():
            if self._stopping:
                give_up_at = min(give_up_at, time.monotonic() + STOP_GRACE_SECONDS)
            with anyio.move_on_after(_LOOK_SECONDS):
                await self._flight.change()
        self._writer.finish()


def _verdict(line: bytes | Outline) -> Verdict | None:
    """Return the verdict on a line; None for a blank one."""
    if isinstance(line, Outline):
        return refuse_outline(line, Reason.LENGTH)
    return read_line(line) if line and not line.isspace() else None


def _typed(clean: Clean) -> JSONRPCMessage:
    if "method" in clean.message:
        return (JSONRPCRequest if "id" in clean.message else JSONRPCNotification).model_validate(clean.message)
    return (JSONRPCError if "error" in clean.message else JSONRPCResponse).model_validate(clean.message)


def _has_modern_envelope(params: dict[str, Any] | None) -> bool:
    """Tell whether a request carries the envelope that every request carries since 2026-07-28."""
    meta = (params or {}).get("_meta")
    return isinstance(meta, dict) and PROTOCOL_VERSION_META_KEY in meta


def _encoded(message: JSONRPCMessage) -> bytes:
    """Return a message as a line; an answer that cannot be written becomes an error, anything else no line."""
    if isinstance(message, JSONRPCError) and not message.error.code:
        return _internal_error(message.id)  # the SDK's way to answer an exception: with its text
    try:
        return _line(_document(message))
    except (TypeError, ValueError, OverflowError) as error:
        warn("message not encodable", error=type(error).__name__)
        return _internal_error(message.id) if isinstance(message, JSONRPCResponse) else b""


def _document(message: JSONRPCMessage) -> dict[str, Any]:
    if isinstance(message, JSONRPCResponse):
        return {"jsonrpc": "2.0", "id": message.id, "result": message.result}  # it is checked, and may be large
    return message.model_dump(exclude_unset=True)


def _internal_error(request_id: int | str | None) -> bytes:
    error = {"code": INTERNAL_ERROR, "message": "internal error"}
    return _line({"jsonrpc": "2.0", "id": request_id, "error": error})


def _line(document: dict[str, Any]) -> bytes:
    return msgspec.json.encode(document) + b"\n"
