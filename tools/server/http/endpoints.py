"""The MCP server of one principal: its own sessions, which no other principal's token can reach or even name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Receive, Scope, Send

from journal import limits
from tools.server.http.refusing import busy
from tools.server.http.tokens import Identity
from tools.server.serve import Handlers, build_server
from tools.server.service import Service


class Endpoint:
    """One principal's server. Requests come to it verified, clean and whole."""

    def __init__(self, service: Service, workers: ThreadPoolExecutor, version: str, name: str) -> None:
        """Take over a service.

        Args:
            service: the principal's.
            workers: the threads of all principals.
            version: of the server, as clients are told.
            name: of the principal, for the log.
        """
        self.name = name
        self.handlers = Handlers(service, workers=workers)
        self._server = build_server(self.handlers, version)
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

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Serve while the block runs; at its end every session ends."""
        async with self._sessions.run():
            yield

    @asynccontextmanager
    async def room(self) -> AsyncIterator[None]:
        """Take one of the calls that this principal may have under way, waiting a while for it.

        Raises:
            Refusal: it has too many.
        """
        try:
            with anyio.fail_after(limits.HTTP_ROOM_SECONDS):
                await self._room.acquire()
        except TimeoutError:
            raise busy("too many calls") from None
        try:
            yield
        finally:
            self._room.release()

    async def handle(self, identity: Identity, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request to the library. It holds a session to the very identity that opened it."""
        access = AccessToken(
            token="", client_id=identity.token or self.name, scopes=[], subject=identity.subject,
            claims={"iss": identity.issuer} if identity.issuer else None,
        )  # fmt: skip
        await self._sessions.handle_request({**scope, "user": AuthenticatedUser(access)}, receive, send)
