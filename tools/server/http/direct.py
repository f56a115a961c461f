"""The short way of a get over HTTP: past the protocol library, from the gate to the service and back.

Only a get goes it. It reads one record of this machine and waits for nobody: it has no progress to tell, and no stream
has to be kept open for it. And it goes only where the library has said before what it would say again: that a session
is open and whose it is, or that an envelope is one of a client that it serves. Whatever differs takes the long way.
Either way gives the same answer, if not in the same form: here always one JSON document, which every client must take.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from mcp.server.streamable_http import check_accept_headers
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive

from journal import limits
from tools.host.capabilities import GET
from tools.server.direct import (
    Client,
    Envelopes,
    RequestId,
    cancelled_by,
    is_plain,
    says_nothing,
    trace_parent_of,
)
from tools.server.http.refusing import JSON
from tools.server.http.tokens import Identity
from tools.server.serve import Answer, Handlers, RequestContext
from tools.server.service import Form

IDENTITY: Final = "engram.identity"
"""Where a request's ASGI scope has the identity that it was admitted by."""

_CALL: Final = "tools/call"
_SESSION: Final = "mcp-session-id"
_VERSION: Final = "mcp-protocol-version"
_METHOD: Final = "mcp-method"
_NAME: Final = "mcp-name"
# The library ends a session that nobody used for its idle time, and does not see what goes this way.
_TRUSTED_SECONDS: Final = limits.HTTP_SESSION_IDLE_SECONDS / 2


@dataclass(frozen=True, slots=True)
class DirectGet:
    """A get that goes directly, read out of its request."""

    request_id: RequestId
    arguments: dict[str, Any]
    client: Client
    session_id: str | None  # the transport's
    trace_parent: str | None


@dataclass(frozen=True, slots=True)
class _Session:
    """An open session: who opened it, and when the library last answered a call of it (``time.monotonic``)."""

    identity: Identity
    client: Client
    answered_at: float


class DirectGets:
    """Knows which gets of one principal may go directly, and answers them."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers
        self._envelopes = Envelopes()
        self._sessions: dict[str, _Session] = {}
        self._ended: dict[str, None] = {}  # the last ones, oldest first: a call under way must not bring one back
        self._running: dict[tuple[str, RequestId], list[threading.Event]] = {}  # those of sessions

    def learn(self, context: RequestContext) -> None:
        """Learn from a call that the library answered with a result."""
        if context.request is None:
            return
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            meta = (context.params or {}).get("_meta")
            if isinstance(meta, dict):
                self._envelopes.learn(meta)
            return
        session_id = context.request.headers.get(_SESSION)
        params = context.session.client_params
        if session_id is None or params is None or session_id in self._ended:
            return
        if len(self._sessions) >= limits.HTTP_SESSIONS_MAX:
            self._sessions.clear()  # whoever calls again is learned again
        client = Client(params.client_info.name, context.protocol_version)
        self._sessions[session_id] = _Session(context.request.scope[IDENTITY], client, time.monotonic())

    def forget(self, session_id: str | None) -> None:
        """Forget a session that may end now, for good: its id is never given again."""
        if session_id is None:
            return
        self._sessions.pop(session_id, None)
        self._ended[session_id] = None
        if len(self._ended) > limits.HTTP_SESSIONS_MAX:
            del self._ended[next(iter(self._ended))]

    def taken(self, identity: Identity, request: Request, message: dict[str, Any]) -> DirectGet | None:
        """Return the get that a clean message is, if it goes directly."""
        params = message.get("params")
        if message.get("method") != _CALL or "id" not in message or not is_plain(params):
            return None
        if params["name"] != GET or not all(check_accept_headers(request)):
            return None
        meta = params.get("_meta", {})
        session_id = None
        if says_nothing(meta):
            session_id = _only(request, _SESSION)
            client = self._client_in(session_id, identity, request)
        else:
            client = self._client_of(meta, request)
        if client is None:
            return None
        return DirectGet(message["id"], params.get("arguments", {}), client, session_id, trace_parent_of(meta))

    def _client_in(self, session_id: str | None, identity: Identity, request: Request) -> Client | None:
        """Return whose session it is; None where the library has to look."""
        session = None if session_id is None else self._sessions.get(session_id)
        if session is None or session.identity != identity:
            return None
        if time.monotonic() - session.answered_at > _TRUSTED_SECONDS:
            return None
        return session.client if _only(request, _VERSION) == session.client.protocol_version else None

    def _client_of(self, meta: dict[str, Any], request: Request) -> Client | None:
        """Return who sent an envelope that the headers repeat; None where the library has to look."""
        client = self._envelopes.client_of(meta)
        if client is None:
            return None
        said = tuple(_only(request, name) for name in (_VERSION, _METHOD, _NAME))
        return client if said == (client.protocol_version, _CALL, GET) else None

    def cancel(self, identity: Identity, request: Request, message: dict[str, Any]) -> None:
        """Cancel what a notification names, if it goes this way; the library hears of it too."""
        request_id = cancelled_by(message)
        if request_id is None or (session_id := _only(request, _SESSION)) is None:
            return
        session = self._sessions.get(session_id)
        if session is None or session.identity != identity:
            return
        for cancelled in self._running.get((session_id, request_id), ()):
            cancelled.set()

    async def answer(self, get: DirectGet, receive: Receive) -> Response:
        """Answer a get. Outside a session a client cancels it by going away, which ``receive`` tells."""
        cancelled = threading.Event()
        with self._cancellable(get, cancelled) if get.session_id else _watched(receive, cancelled):
            answer = await self._handlers.answer(
                GET, get.arguments, get.client, get.session_id, cancelled, get.trace_parent
            )  # fmt: skip
        return self.response(get, answer)

    @contextmanager
    def _cancellable(self, get: DirectGet, cancelled: threading.Event) -> Iterator[None]:
        assert get.session_id is not None
        key = (get.session_id, get.request_id)
        self._running.setdefault(key, []).append(cancelled)
        try:
            yield
        finally:
            self._running[key].remove(cancelled)
            if not self._running[key]:
                del self._running[key]

    def response(self, get: DirectGet, answer: Answer) -> Response:
        """Return the response that an answer is sent as."""
        status = 200
        if not isinstance(answer, dict | Form) and get.client.protocol_version in MODERN_PROTOCOL_VERSIONS:
            status = ERROR_CODE_HTTP_STATUS.get(answer.code, status)
        headers = {} if get.session_id is None else {_SESSION: get.session_id}
        return Response(self._handlers.line_of(get.request_id, answer, get.client), status, headers, media_type=JSON)


@contextmanager
def _watched(receive: Receive, cancelled: threading.Event) -> Iterator[None]:
    """Set an event when the client goes away. Few gets last until it is looked for, and looking has its price."""
    watching: list[asyncio.Task[None]] = []

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        cancelled.set()

    loop = asyncio.get_running_loop()
    begin = loop.call_later(limits.HTTP_WATCH_SECONDS, lambda: watching.append(loop.create_task(watch())))
    try:
        yield
    finally:
        begin.cancel()
        for each in watching:
            each.cancel()


def _only(request: Request, name: str) -> str | None:
    """Return a header that is there once."""
    values = request.headers.getlist(name)
    return values[0] if len(values) == 1 else None
