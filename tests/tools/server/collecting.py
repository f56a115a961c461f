"""A collector of spans on this machine: it takes OTLP over HTTP and keeps what came."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.listening import Quiet, listening


class Collector:
    """What was sent; while ``holding`` it takes requests and answers none."""

    def __init__(self) -> None:
        self.port = 0
        self.bodies: list[bytes] = []
        self.paths: list[str] = []
        self.asked = threading.Semaphore(0)
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.status = 200

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def spans(self) -> list[Any]:
        """Return the spans of all requests, as the protocol's own library reads them."""
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        read = [ExportTraceServiceRequest.FromString(body) for body in self.bodies]
        return [
            span
            for request in read
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


def attributes_of(span: Any) -> dict[str, str]:
    return {each.key: each.value.string_value for each in span.attributes}


@contextmanager
def collector() -> Iterator[Collector]:
    """Serve as a collector."""
    state = Collector()

    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            state.asked.release()
            state.may_answer.wait(60)
            state.paths.append(self.path)
            state.bodies.append(body)
            try:
                self.send_response(state.status)
                self.send_header("Content-Length", "0")
                self.end_headers()
            except OSError:
                self.close_connection = True  # whoever sent it had gone

    with listening(Handler, state.may_answer.set) as state.port:
        yield state
