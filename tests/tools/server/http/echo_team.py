"""A server over HTTP whose services are echoes: for what the real ones do too seldom to be waited for."""

from __future__ import annotations

import sys
import time

from journal import limits
from journal.scope import Scope
from tests.tools.server.echo_server import EchoService
from tests.tools.server.http.team import ANNA_TOKEN, BEN_TOKEN
from tools.host.http import Http, HttpPrincipal
from tools.server.http.serving import Served, bound_socket, serve_http
from tools.server.http.tokens import StaticTokens, TokenVerifier


class LongEchoService(EchoService):
    """An echo that can take its time."""

    def _long(self, _context: object) -> None:
        time.sleep(1)


def principal(name: str) -> HttpPrincipal:
    return HttpPrincipal(
        token=name, claims=(), tenant=None, tenant_enabled=False, workspace=None, principal=name, agent_id=None,
        tools=frozenset(), purposes=frozenset(),
    )  # fmt: skip


def look() -> None:
    """Fail where the test says so."""
    if "unreadable" in sys.argv:
        raise OSError("the text of an exception")


if __name__ == "__main__":
    if "impatient" in sys.argv:
        limits.HTTP_HEAD_SECONDS = 0.5  # type: ignore[misc,assignment]  # no test waits for ten seconds
    http = Http(
        host="127.0.0.1", port=0, allowed_hosts=(), allowed_origins=("https://console.example.org",), audience=None,
        issuer=None, jwks=None, tokens=(), principals=(principal("anna"), principal("ben")),
    )  # fmt: skip
    verifier = TokenVerifier(StaticTokens({"anna": ANNA_TOKEN, "ben": BEN_TOKEN}), None)
    services = [LongEchoService(), LongEchoService()]
    served = Served(http=http, verifier=verifier, services=services, look=look, version="0", home=Scope.of("t", "w"))
    serve_http(served, http.host, bound_socket(http.host, 0))
