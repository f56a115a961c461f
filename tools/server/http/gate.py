"""What stands before every principal's server: Host and Origin, the token, the body's form, and only then the library.

The order is the point: nothing of a body is read before its sender is known, and nothing is parsed by the library that
the strict reader has not passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from mcp_types import SERVER_INFO_META_KEY
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tools.host.http import HttpPrincipal
from tools.server.envelope import random_audit_id
from tools.server.http.bodies import Bodies, Gone, replayed
from tools.server.http.ending import Ending
from tools.server.http.endpoints import Endpoint
from tools.server.http.keysets import KeysUnavailable
from tools.server.http.metrics import Metrics
from tools.server.http.refusing import Refusal, busy, json_response
from tools.server.http.tokens import Identity, NotBound, TokenRefused, TokenVerifier, bound_to
from tools.server.logs import note
from tools.server.refusals import refusal as refused_line
from tools.server.strict import INVALID_REQUEST, Clean, Dropped, Refused, read_line

_METHODS: Final = ("POST", "GET", "DELETE")
_CALL: Final = "tools/call"
_MISDIRECTED: Final = 421
_UNAUTHORIZED: Final = {"error": "invalid_token", "error_description": "a bearer token of this server is needed"}


class Gate:
    """The door of ``/mcp``, an ASGI application."""

    def __init__(
        self,
        *,
        security: TransportSecuritySettings,
        verifier: TokenVerifier,
        principals: Sequence[HttpPrincipal],
        endpoints: Sequence[Endpoint],
        metrics: Metrics,
        ending: Ending,
        challenge: str,
    ) -> None:
        """Put the parts together; ``endpoints`` are those of ``principals``, in the same order."""
        self._security = TransportSecurityMiddleware(security)
        self._verifier = verifier
        self._principals = principals
        self._endpoints = endpoints
        self._metrics = metrics
        self._ending = ending
        self._challenge = challenge
        self._bodies = Bodies()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        try:
            await self._serve(request, scope, receive, send)
        except Gone:
            return
        except Refusal as refusal:
            self._note(refusal)
            await refusal.response()(scope, receive, send)

    async def check_place(self, request: Request) -> None:
        """Refuse a request that a web page or a foreign name led here.

        Raises:
            Refusal: 421 for its Host, 403 for its Origin.
        """
        answer = await self._security.validate_request(request)
        if answer is not None:
            raise Refusal(answer.status_code, "host" if answer.status_code == _MISDIRECTED else "origin")

    async def admitted(self, request: Request) -> tuple[Endpoint, Identity]:
        """Return whose request this is.

        Raises:
            Refusal: 401 without a good token, 403 where nobody is bound to it, 503 where it cannot be verified now.
        """
        given = request.headers.getlist("authorization")
        try:
            identity = await self._verifier.identity(given[0] if len(given) == 1 else None)
            return self._endpoints[bound_to(self._principals, identity)], identity
        except TokenRefused as refused:
            error = ', error="invalid_token"' if given else ""
            challenge = {"WWW-Authenticate": f"Bearer {self._challenge}{error}"}
            raise Refusal(401, f"token: {refused}", headers=challenge, body=_UNAUTHORIZED) from None
        except NotBound:
            raise Refusal(403, "token: not bound", body={"error": "not_bound"}) from None
        except KeysUnavailable:
            raise busy("token: keys unavailable") from None

    async def _serve(self, request: Request, scope: Scope, receive: Receive, send: Send) -> None:
        await self.check_place(request)
        if request.method not in _METHODS:
            raise Refusal(405, "method", headers={"Allow": ", ".join(_METHODS)})
        self._ending.check()
        endpoint, identity = await self.admitted(request)
        if request.method != "POST":
            await endpoint.handle(identity, scope, receive, send)
            return
        async with self._bodies.held(request) as body:
            verdict = read_line(body)
            if not isinstance(verdict, Clean):
                await (await self._unclean(verdict, request, endpoint))(scope, receive, send)
                return
            answer = await endpoint.directly(identity, request, verdict.message)
            if answer is not None:
                await answer(scope, receive, send)
                return
            again = replayed(body, receive)
            if verdict.message.get("method") != _CALL:
                await endpoint.handle(identity, scope, again, send)
                return
            with self._ending.under_way():
                await endpoint.handle(identity, scope, again, send)

    async def _unclean(self, verdict: Refused | Dropped, request: Request, endpoint: Endpoint) -> Response:
        """Return the answer to a body that the strict reader does not pass."""
        self._note(Refusal(400, f"body: {verdict.reason.name.lower()}"))
        if isinstance(verdict, Dropped):
            error = {"code": INVALID_REQUEST, "message": "not a JSON-RPC request"}
            return json_response({"jsonrpc": "2.0", "id": None, "error": error}, 400)
        granted = await endpoint.handlers.granted_tools() if verdict.tool else ()
        answer = refused_line(verdict, granted, random_audit_id)
        version = request.headers.get("mcp-protocol-version")
        is_modern = version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS
        return json_response(_of_era(answer, endpoint, is_modern=is_modern), 200 if "result" in answer else 400)

    def _note(self, refusal: Refusal) -> None:
        self._metrics.count_refusal(refusal.reason)
        note("request refused", status=refusal.status, reason=refusal.reason)


def _of_era(answer: dict[str, Any], endpoint: Endpoint, *, is_modern: bool) -> dict[str, Any]:
    """Return a refusal as its protocol version writes a result."""
    if "result" in answer and is_modern:
        answer["result"]["_meta"] = {SERVER_INFO_META_KEY: endpoint.server_info}
    elif "result" in answer:
        del answer["result"]["resultType"]
    return answer
