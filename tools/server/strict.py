"""The strict reader: one raw line in, a clean JSON-RPC message or a verdict on it out.

The protocol library parses leniently and before any handler sees the line: duplicate keys are last-wins there, -0
becomes 0, and a lone surrogate, deep nesting or a number of 4,301 digits gets no answer at all. So every line is read
here first, and what passes has exactly one meaning. Nothing here does input or output; HTTP uses the same functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from journal.limits import (
    ARGUMENTS_MAX_BYTES,
    LINE_MAX_BYTES,
    METHOD_MAX_BYTES,
    REQUEST_ID_MAX_BYTES,
)
from tools.server.decoding import Flaw, Reason, decode
from tools.server.outline import Outline

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600

RequestId = int | str

_NOT_JSON: Final = frozenset({Reason.NOT_UTF8, Reason.NOT_JSON, Reason.NOT_A_NUMBER})
_CALL: Final = "tools/call"


@dataclass(frozen=True, slots=True)
class Clean:
    """A message with exactly one meaning: a request, a notification, or an answer to a request of ours."""

    message: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Refused:
    """A line to answer at once.

    Where ``tool`` is set the line is a call of it with a readable id: the answer is that tool's INVALID_SCHEMA, or
    -32602 where no such tool is listed. Else it is the protocol error ``code``, under ``request_id`` or null.
    """

    reason: Reason
    code: int
    request_id: RequestId | None = None
    tool: str | None = None


@dataclass(frozen=True, slots=True)
class Dropped:
    """A broken notification or a broken answer: JSON-RPC has no answer for either."""

    reason: Reason


Verdict = Clean | Refused | Dropped


def read_line(line: bytes) -> Verdict:
    """Read one line, without its line end, of at most ``LINE_MAX_BYTES``.

    Takes time linear in the line, and raises nothing. A longer line is for :func:`refuse_outline`.
    """
    if len(line) > LINE_MAX_BYTES:
        return refuse_outline(_outline(line), Reason.LENGTH)
    try:
        message = decode(line)
    except Flaw as flaw:
        return refuse_outline(_outline(line), flaw.reason)
    if not isinstance(message, dict):
        return Refused(Reason.NOT_A_REQUEST, INVALID_REQUEST)
    if "method" in message:
        return _judge_request(message, line)
    return _judge_answer(message)


def refuse_outline(outline: Outline, reason: Reason) -> Refused | Dropped:
    """Return the verdict on a line of which only the outline is known."""
    code = PARSE_ERROR if reason in _NOT_JSON else INVALID_REQUEST
    answers = not outline.holds("method") and (outline.holds("result") or outline.holds("error"))
    notifies = outline.method is not None and not outline.holds("id")
    if outline.closed and not outline.trailing and (answers or notifies):
        return Dropped(reason)
    request_id = outline.request_id
    if request_id is None or answers:
        return Refused(reason, code)  # an id of ours in an answer must not look like one of theirs
    tool = outline.tool if outline.method == _CALL else None
    return Refused(reason, code, request_id, tool)


def _judge_request(message: dict[str, Any], line: bytes) -> Verdict:
    """Check the form of what has a method: a request, or without an id a notification."""
    flaw = _flaw_of_request(message)
    if "id" not in message:
        return Dropped(flaw) if flaw else Clean(message)
    request_id = _readable_id(message["id"])
    if request_id is None:
        return Refused(Reason.NOT_A_REQUEST, INVALID_REQUEST)
    if flaw:
        return Refused(flaw, INVALID_REQUEST, request_id)
    params = message.get("params") or {}
    if message["method"] == _CALL and not _arguments_fit(params, line):
        tool = params.get("name")
        return Refused(Reason.ARGUMENTS, INVALID_REQUEST, request_id, tool if isinstance(tool, str) else None)
    return Clean(message)


def _flaw_of_request(message: dict[str, Any]) -> Reason | None:
    method, params = message["method"], message.get("params")  # some clients write null for no params
    if (
        message.get("jsonrpc") != "2.0"
        or not isinstance(method, str)
        or len(method.encode()) > METHOD_MAX_BYTES
        or not (params is None or isinstance(params, dict))
    ):
        return Reason.NOT_A_REQUEST
    return None


def _arguments_fit(params: dict[str, Any], line: bytes) -> bool:
    """Tell whether a call's arguments are absent, or an object within its bound."""
    if "arguments" not in params:
        return True
    if not isinstance(params["arguments"], dict):
        return False
    # Only a line above the bound can hold arguments above it, so that the scan is seldom needed.
    return len(line) <= ARGUMENTS_MAX_BYTES or _outline(line).arguments_bytes <= ARGUMENTS_MAX_BYTES


def _judge_answer(message: dict[str, Any]) -> Verdict:
    """Check the form of what has no method: an answer to a request of ours, or nothing at all."""
    if "result" not in message and "error" not in message:
        return Refused(Reason.NOT_A_REQUEST, INVALID_REQUEST, _readable_id(message.get("id")))
    well_formed = (
        message.get("jsonrpc") == "2.0"
        and _readable_id(message.get("id")) is not None
        and (_is_error(message["error"]) if "error" in message else isinstance(message["result"], dict))
        and ("error" in message) != ("result" in message)
    )
    return Clean(message) if well_formed else Dropped(Reason.NOT_A_REQUEST)


def _is_error(error: object) -> bool:
    return (
        isinstance(error, dict)
        and isinstance(error.get("code"), int)
        and not isinstance(error["code"], bool)
        and isinstance(error.get("message"), str)
    )


def _readable_id(request_id: object) -> RequestId | None:
    """Return the id if it can be answered: a safe integer, or a string of at most ``REQUEST_ID_MAX_BYTES``."""
    if isinstance(request_id, str) and len(request_id.encode()) <= REQUEST_ID_MAX_BYTES:
        return request_id
    return request_id if isinstance(request_id, int) and not isinstance(request_id, bool) else None


def _outline(line: bytes) -> Outline:
    outline = Outline()
    outline.feed(line)
    return outline
