"""The addresses of a server: ``/mcp``, what a client reads before it has a token, and what an operator looks at."""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import urlsplit

from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tools.host.http import Http, is_loopback
from tools.server.http.ending import Ending
from tools.server.http.gate import Gate
from tools.server.http.metrics import CONTENT_TYPE, Metrics
from tools.server.http.refusing import Refusal, json_response

MCP_PATH: Final = "/mcp"
_METADATA: Final = "/.well-known/oauth-protected-resource"
_FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-real-ip")

Readiness = Callable[[], Awaitable[bool]]


def security_of(http: Http, host: str, port: int) -> TransportSecuritySettings:
    """Return the Host and Origin headers that are taken at an address.

    On a loopback address its own origin is one of them: this server has no page that could ask in a visitor's name, and
    a page of another port has another origin.
    """
    own = [f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")] if is_loopback(host) else []
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[*http.allowed_hosts, *own],
        allowed_origins=[*http.allowed_origins, *(f"http://{each}" for each in own)],
    )


def resource_of(http: Http, host: str, port: int) -> str:
    """Return the address by which this server is known: the audience of its tokens, where that is an address."""
    if http.audience is not None and urlsplit(http.audience).scheme in {"http", "https"}:
        return http.audience
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}{MCP_PATH}"


def metadata_address(resource: str) -> str:
    """Return where the metadata of a protected resource stands (RFC 9728, section 3.1)."""
    parts = urlsplit(resource)
    return f"{parts.scheme}://{parts.netloc}{_METADATA}{parts.path.rstrip('/')}"


def challenge_of(resource: str) -> str:
    """Return what WWW-Authenticate says beside the error: where a client learns how to get a token."""
    return f'resource_metadata="{metadata_address(resource)}"'


class Site:
    """The addresses beside ``/mcp``."""

    def __init__(
        self, gate: Gate, http: Http, resource: str, metrics: Metrics, ending: Ending, readiness: Readiness
    ) -> None:
        self._gate = gate
        self._http = http
        self._resource = resource
        self._metrics = metrics
        self._ending = ending
        self._readiness = readiness

    def application(self) -> Starlette:
        """Return the ASGI application."""
        path = urlsplit(self._resource).path.rstrip("/")
        wells = dict.fromkeys((_METADATA, _METADATA + MCP_PATH, _METADATA + path))
        application = Starlette(
            routes=[
                Route(MCP_PATH, self._gate),
                Route("/healthz", self._health, methods=["GET"]),
                Route("/readyz", self._ready, methods=["GET"]),
                Route("/metrics", self._figures, methods=["GET"]),
                *(Route(well, self._metadata, methods=["GET"]) for well in wells),
            ],
            middleware=self._cross_origin(),
        )
        application.router.redirect_slashes = False  # a redirect would quote a Host that nobody checked
        return application

    def _cross_origin(self) -> list[Middleware]:
        """Let the pages of the allowed origins ask from a browser."""
        if not self._http.allowed_origins:
            return []
        return [
            Middleware(
                CORSMiddleware,
                allow_origins=self._http.allowed_origins,
                allow_methods=["POST", "GET", "DELETE"],
                allow_headers=["*"],
                expose_headers=["Mcp-Session-Id", "WWW-Authenticate"],
            )
        ]

    async def _health(self, _request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def _ready(self, _request: Request) -> Response:
        if self._ending.draining:
            return PlainTextResponse("draining\n", 503)
        if not await self._readiness():
            return PlainTextResponse("the store cannot be read\n", 503)
        return PlainTextResponse("ready\n")

    async def _metadata(self, request: Request) -> Response:
        """Answer what RFC 9728 asks of a protected resource."""
        try:
            await self._gate.check_place(request)
        except Refusal as refusal:
            return refusal.response()
        metadata: dict[str, Any] = {"resource": self._resource, "bearer_methods_supported": ["header"]}
        if self._http.issuer is not None:
            metadata["authorization_servers"] = [self._http.issuer]
        return json_response(metadata)

    async def _figures(self, request: Request) -> Response:
        """Answer the figures: to this machine, and to whoever brings a token that is bound here."""
        try:
            await self._gate.check_place(request)
            if not _is_local(request):
                await self._gate.admitted(request)
        except Refusal as refusal:
            return refusal.response()
        return Response(self._metrics.text(), media_type=CONTENT_TYPE)


def _is_local(request: Request) -> bool:
    """Whether a request comes from this machine, and not through something that forwards another's."""
    if request.client is None or any(name in request.headers for name in _FORWARDED):
        return False
    try:
        return ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False
