"""A service on this machine that answers as a test tells it to: an endpoint of embeddings, where it is told nothing."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.listening import Quiet, listening

DIMENSION = 4


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


Reply = Callable[[BaseHTTPRequestHandler, Request], None]


@dataclass
class Endpoint:
    """What was asked, and the replies still to come; with none left it answers right."""

    port: int = 0
    replies: list[Reply] = field(default_factory=list)
    asked: list[Request] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"


def vector(text: str) -> list[float]:
    """Return a vector that tells texts apart, of a length that is not 1."""
    return [float(len(text)), float(ord(text[0])), 3.0, -2.0]


def right(request: Request) -> dict[str, Any]:
    rows = [
        {"object": "embedding", "index": i, "embedding": vector(text)} for i, text in enumerate(request.body["input"])
    ]
    return {"object": "list", "data": rows, "model": "m", "usage": {"prompt_tokens": 1}}


def send(handler: BaseHTTPRequestHandler, body: bytes, status: int = 200, **headers: str) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def status(code: int, **headers: str) -> Reply:
    return lambda handler, request: send(handler, json.dumps(request.body).encode(), code, **headers)


def raw(body: bytes) -> Reply:
    return lambda handler, _: send(handler, body)


def changed(change: Callable[[list[dict[str, Any]]], Any]) -> Reply:
    """Answer right, but for what the change does to the list of rows."""

    def reply(handler: BaseHTTPRequestHandler, request: Request) -> None:
        answer = right(request)
        change(answer["data"])
        send(handler, json.dumps(answer).encode())

    return reply


@contextmanager
def endpoint(otherwise: Reply | None = None) -> Iterator[Endpoint]:
    """Serve; ``otherwise`` is what is replied when no replies are left, right vectors unless it is given."""
    state, last = Endpoint(), otherwise or changed(lambda _: None)

    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            request = Request(self.path, dict(self.headers), body)
            state.asked.append(request)
            reply = state.replies.pop(0) if state.replies else last
            try:
                reply(self, request)
            except OSError:
                self.close_connection = True  # the other side had enough

    with listening(Handler, state.ended.set) as state.port:
        yield state
