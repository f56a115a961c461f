"""Requests that reach no tool: what is answered, and the reason that is logged and counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

JSON = "application/json"


class Refusal(Exception):  # it is answered, it does not fail
    """A request that is refused with a status. ``reason`` is a constant of ours, for the log and the figures."""

    def __init__(
        self,
        status: int,
        reason: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.headers = dict(headers or {})
        self.body = body if body is not None else {"error": reason}

    def response(self) -> Response:
        """Return what is sent."""
        return json_response(self.body, self.status, self.headers)


def json_response(body: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response of JSON that nothing on the way may keep."""
    return Response(
        msgspec.json.encode(body), status, {"Cache-Control": "no-store", **(headers or {})}, media_type=JSON
    )


def busy(reason: str) -> Refusal:
    """Return the refusal of what may be asked again soon."""
    return Refusal(503, reason, headers={"Retry-After": "2"})
