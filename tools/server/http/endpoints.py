"""The MCP server of one principal: its own sessions, which no other principal's token can reach or even name.

What a principal may have under way is bounded where a call runs, not where its request is answered: a client that hangs
up leaves its call behind, and could otherwise begin any number of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import CallNext, HandlerResult
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from journal import limits
from journal.errors import RateLimited
from tools.server.envelope import failure, random_audit_id
from tools.server.http.direct import IDENTITY, DirectGets
from tools.server.http.ending import Ending
from tools.server.http.refusing import busy
from tools.server.http.tokens import Identity
from tools.server.serve import Handlers, RequestContext, build_server
from tools.server.service import Service

_CALL: Final = "tools/call"


class Endpoint:
    """One principal's server. Requests come to it verified, clean and whole."""

    def __init__(
        self, service: Service, workers: ThreadPoolExecutor, ending: Ending, *, version: str, name: str
    ) -> None:
        """Take over a service.

        Args:
            service: the principal's.
            workers: the threads of all principals.
            ending: is told of calls that are under way.
            version: of the server, as clients are told.
            name: of the principal, for the log.
        """
        self.name = name
        self.handlers = Handlers(service, workers=workers)
        self._direct = DirectGets(self.handlers)
        self._server = build_server(self.handlers, version)
        self._server.middleware.append(self._within_room)
        # No argument of ours has a header. Unless told so, the library lists all tools anew before every call: 5 ms.
        self._server.get_tool_input_schema = _no_headers
        self._ending = ending
        self._is_over = False
        self._room = anyio.Semaphore(limits.HTTP_PRINCIPAL_CALLS_MAX)
        # Host and Origin were looked at before any token was; the library need not look again.
        self._sessions = StreamableHTTPSessionManager(
            self._server,
            session_idle_timeout=limits.HTTP_SESSION_IDLE_SECONDS,
            max_request_body_size=limits.LINE_MAX_BYTES,
            max_sessions=limits.HTTP_SESSIONS_MAX,
        )

    @property
    def server_info(self) -> dict[str, Any]:
        """What the server says of itself in every result since 2026-07-28."""
        return self._server.server_info_stamp

    def end(self) -> None:
        """Take nothing more, and tell every call under way to end: the principal has lost access."""
        self._is_over = True
        self.handlers.cancel_all()

    def _check_open(self) -> None:
        """Refuse a request that was admitted before its principal lost access.

        Raises:
            Refusal: 503; what comes again is refused for what it brings.
        """
        if self._is_over:
            raise busy("principal: gone")

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Serve while the block runs; at its end every session ends."""
        async with self._sessions.run():
            yield

    async def _within_room(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        """Run a call once there is room for it (a middleware of the library's server)."""
        if ctx.method != _CALL or ctx.request_id is None:
            return await call_next(ctx)
        with self._ending.under_way():
            if not await self._has_room():
                return failure(RateLimited, random_audit_id()).to_result()
            try:
                answer = await call_next(ctx)
            finally:
                self._room.release()
        self._direct.learn(ctx)
        return answer

    async def _has_room(self) -> bool:
        """Take room, waiting a while for it in a line that is bounded too; return whether there was any."""
        if self._room.value:
            self._room.acquire_nowait()
            return True
        waiting = self._room.statistics().tasks_waiting
        if waiting >= limits.HTTP_PRINCIPAL_WAITING_MAX:
            return False
        with anyio.move_on_after(limits.HTTP_ROOM_SECONDS):
            await self._room.acquire()
            return True
        return False

    async def directly(self, identity: Identity, request: Request, message: dict[str, Any]) -> Response | None:
        """Answer a clean message past the library; None where it has to go there."""
        self._check_open()
        self._direct.cancel(identity, request, message)
        get = self._direct.taken(identity, request, message)
        if get is None:
            return None
        with self._ending.under_way():
            if not await self._has_room():
                return self._direct.response(get, failure(RateLimited, random_audit_id()).to_result())
            try:
                return await self._direct.answer(get, request.receive)
            finally:
                self._room.release()

    async def handle(self, identity: Identity, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request to the library. It holds a session to the very identity that opened it.

        No event is kept to be sent again, and the library answers nothing at all to a client that asks for one: such a
        request opens a stream as any other does.
        """
        self._check_open()
        access = AccessToken(
            token="", client_id=identity.token or self.name, scopes=[], subject=identity.subject,
            claims={"iss": identity.issuer} if identity.issuer else None,
        )  # fmt: skip
        headers = [(name, value) for name, value in scope["headers"] if name != b"last-event-id"]
        known = {**scope, "headers": headers, "user": AuthenticatedUser(access), IDENTITY: identity}
        if scope["method"] == "DELETE":
            self._direct.forget(Request(scope).headers.get("mcp-session-id"))
        await self._sessions.handle_request(known, receive, send)


def _no_headers(_tool: str) -> None:
    """Return no schema: no tool has an argument that a header repeats (``x-mcp-header``)."""
