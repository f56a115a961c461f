"""The first second of a server: what is imported when.

Importing the SDK is nearly all of the time to the first answer, and the collector's passes over what it builds are a
tenth of that; it builds nothing that needs collecting.
"""

from __future__ import annotations

import gc

from tools.server.service import Service


def serve_stdio(service: Service, *, version: str) -> None:
    """Import the server without the collector's help, then serve (:func:`tools.server.serve.serve_stdio`)."""
    gc.disable()
    try:
        from tools.server import serve
    finally:
        gc.freeze()  # what is imported stays: no later pass needs to look at it
        gc.enable()
    serve.serve_stdio(service, version=version)
