"""The first second of a server: what is imported when.

Importing the SDK is nearly all of the time to the first answer, and the collector's passes over what it builds are a
tenth of that; it builds nothing that needs collecting.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

from journal import limits
from tools.server.direct import Elicited, elicits_nobody
from tools.server.service import Service


def serve_stdio(
    service: Service,
    *,
    version: str,
    elicited: Elicited = elicits_nobody,
    ahead: Callable[[], None] = lambda: None,
) -> None:
    """Import the server without the collector's help, then serve (:func:`tools.server.serve.serve_stdio`).

    ``ahead`` is what else is to be done before the first line is read, such as importing what a greeting needs: one
    import after the other is a tenth of a second sooner done than two that fight for the interpreter.
    """
    gc.disable()
    try:
        from tools.server import serve

        ahead()
    finally:
        gc.freeze()  # what is imported stays: no later pass needs to look at it
        gc.set_threshold(limits.COLLECTED_OBJECTS)
        gc.enable()
    serve.serve_stdio(service, version=version, elicited=elicited)
