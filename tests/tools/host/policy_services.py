"""Policies that stand outside of the process: programs, and services on this machine, that answer as a test says."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from journal.clock import instant
from journal.digests import sealed_receipt
from tools.host.policies.port import PolicyRequest

ROOT = Path(__file__).resolve().parents[3]


def decided(request: PolicyRequest | dict[str, Any], now: int, decision: str = "accept", **changes: Any) -> Any:
    """Return an answer as JSON's value, with some fields changed, sealed again unless its digest is what is changed."""
    asked = (
        request if isinstance(request, dict) else {name: getattr(request, name) for name in request.__struct_fields__}
    )
    fields = {name: asked[name] for name in ("policy_id", "policy_version", "record_digest")}
    fields |= {"decision": decision, "issued_at": instant(now), **changes}
    return fields if "receipt_digest" in changes else sealed_receipt("decision", fields)


def program(folder: Path, body: str) -> tuple[str, ...]:
    """Write a policy's program; ``body`` sees ``request``, ``decided`` and ``say``, and return its command."""
    path = folder / "policy.py"
    path.write_text(
        "import json, sys, time\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from tests.tools.host.policy_services import decided\n"
        "request = json.load(sys.stdin)\n"
        "def say(answer): print(json.dumps(answer))\n" + body,
        encoding="utf-8",
    )
    return (sys.executable, str(path))


class Service:
    """A policy's service, and what it was asked."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.asked: list[dict[str, Any]] = []
        self.ended = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/decide"


Reply = Callable[[BaseHTTPRequestHandler, dict[str, Any]], None]


def saying(make: Callable[[dict[str, Any]], Any], status: int = 200) -> Reply:
    """Return a reply of what is made of the question, as JSON."""

    def reply(handler: BaseHTTPRequestHandler, request: dict[str, Any]) -> None:
        send(handler, json.dumps(make(request)).encode(), status)

    return reply


def send(handler: BaseHTTPRequestHandler, body: bytes, status: int = 200) -> None:
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


@contextmanager
def service(reply: Reply) -> Iterator[Service]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            state.asked.append({"path": self.path, "headers": dict(self.headers), "body": request})
            try:
                reply(self, request)
            except OSError:
                self.close_connection = True  # the other side had enough

        def log_message(self, format, *args):  # noqa: A002 - the library's name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state = Service(server.server_port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield state
    finally:
        state.ended.set()
        server.shutdown()
        server.server_close()
        thread.join()
