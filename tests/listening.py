"""An HTTP service on this machine, as long as a test needs it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Quiet(BaseHTTPRequestHandler):
    """A handler that logs nothing."""

    def log_message(self, format, *args):  # noqa: A002 - the library's name
        pass


@contextmanager
def listening(handler: type[BaseHTTPRequestHandler], ending: Callable[[], None]) -> Iterator[int]:
    """Serve on a free port, and yield it. At the end ``ending`` lets go of who waits for an answer."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        ending()
        server.shutdown()
        server.server_close()
        thread.join()
