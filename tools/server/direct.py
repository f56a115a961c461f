"""The short way of a tool call: from the strict reader to the service and back, past the protocol library.

In the eras with a handshake a ``tools/call`` says nothing to the library that the strict reader has not read already:
no envelope, no negotiated feature. The library's way through dispatcher, models and tasks takes longer than a durable
save. So a call goes directly where both sides have shaken hands, its params have none but the known members, it asks
for no progress, and the client is not to be asked by a form; any other message takes the long way. Either way gives the
same answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

import msgspec

RequestId = int | str

_CALL: Final = "tools/call"
_GREETING: Final = "initialize"
_GREETED: Final = "notifications/initialized"
_CANCELLED: Final = "notifications/cancelled"
_MEMBERS: Final = frozenset({"name", "arguments", "_meta"})


@dataclass(frozen=True, slots=True)
class Client:
    """Whom the handshake was with."""

    name: str | None
    protocol_version: str
    shows_forms: bool = False


@dataclass(frozen=True, slots=True)
class Running:
    """A call under way: what is left to write of its answer once it ended, None where it is written."""

    rest: Future[bytes | None]
    cancelled: threading.Event


WriteAtOnce = Callable[[bytes], bool]
"""Writes a line from any thread if that needs no waiting; returns whether it was written."""
Begin = Callable[[RequestId, str, dict[str, Any], Client, WriteAtOnce, str | None], Running]
"""Begins a call of a tool in a worker thread, which also writes the answer where it can; last, the client's span."""


Elicited = Callable[[str | None], Collection[str]]
"""The tools whose calls may have a client of this name show a form."""


def elicits_nobody(_client_name: str | None) -> Collection[str]:
    """Return no tool: no call has its client show a form."""
    return ()


class DirectCalls:
    """Knows when a call may go directly, and which ones are under way."""

    def __init__(self, begin: Begin, elicited: Elicited = elicits_nobody) -> None:
        self._begin = begin
        self._elicited = elicited
        self._greeting: tuple[RequestId, str | None, bool] | None = None  # id of ``initialize``, client's name, forms
        self._answered: Client | None = None  # the handshake was answered
        self._client: Client | None = None  # and the client said that it has the answer
        self._running: dict[RequestId, list[Running]] = {}

    # --- the handshake ---------------------------------------------------------------------------

    def note(self, message: dict[str, Any]) -> None:
        """Note what a clean message of the client does to the handshake."""
        method = message.get("method")
        if method == _GREETING and "id" in message:
            params = message.get("params") or {}
            info, capabilities = params.get("clientInfo"), params.get("capabilities")
            name = info.get("name") if isinstance(info, dict) else None
            shows_forms = isinstance(capabilities, dict) and isinstance(capabilities.get("elicitation"), dict)
            self._greeting = (message["id"], name if isinstance(name, str) else None, shows_forms)
            self._answered = self._client = None
        elif method == _GREETED:
            self._client = self._answered

    def note_answer(self, request_id: RequestId | None, result: dict[str, Any]) -> None:
        """Note an answer of the library: that of ``initialize`` says which version both speak."""
        if self._greeting is not None and request_id == self._greeting[0]:
            version = result.get("protocolVersion")
            _, name, shows_forms = self._greeting
            self._answered = Client(name, version, shows_forms) if isinstance(version, str) else None
            self._greeting = None

    # --- calls -----------------------------------------------------------------------------------

    def takes(self, message: dict[str, Any]) -> bool:
        """Whether a clean message is a call that goes directly."""
        if self._client is None or message.get("method") != _CALL or "id" not in message:
            return False
        params = message.get("params")
        if not isinstance(params, dict) or not _MEMBERS.issuperset(params) or not isinstance(params.get("name"), str):
            return False
        if self._client.shows_forms and params["name"] in self._elicited(self._client.name):
            return False
        meta = params.get("_meta", {})
        return isinstance(meta, dict) and not any(_is_the_librarys(name) for name in meta)

    def begin(self, message: dict[str, Any], write_at_once: WriteAtOnce) -> Running:
        """Begin a call that ``takes`` took."""
        assert self._client is not None
        params, request_id = message["params"], message["id"]
        running = self._begin(
            request_id, params["name"], params.get("arguments", {}), self._client, write_at_once,
            trace_parent_of(params.get("_meta")),
        )  # fmt: skip
        self._running.setdefault(request_id, []).append(running)
        return running

    def end(self, request_id: RequestId, running: Running) -> None:
        """Forget a call that ended."""
        under_way = self._running[request_id]
        under_way.remove(running)
        if not under_way:
            del self._running[request_id]

    def cancels(self, message: dict[str, Any]) -> bool:
        """Cancel the call that a notification names; return whether it is one of these."""
        if message.get("method") != _CANCELLED:
            return False
        request_id = (message.get("params") or {}).get("requestId")
        if isinstance(request_id, bool) or not isinstance(request_id, int | str):
            return False
        under_way = self._running.get(request_id, ())
        for running in under_way:
            running.cancelled.set()
        return bool(under_way)


def _is_the_librarys(name: str) -> bool:
    """Whether a member of ``_meta`` means something to the library: progress, tasks, the envelope of the newest era."""
    return name == "progressToken" or "modelcontextprotocol" in name


def trace_parent_of(meta: Mapping[str, Any] | None) -> str | None:
    """Return how a client names its own span in ``_meta``, or None; whether it can be read, whoever traces sees."""
    named = None if meta is None else meta.get("traceparent")
    return named if isinstance(named, str) else None


def result_line(request_id: RequestId, result: dict[str, Any]) -> bytes:
    """Return the line of a call's result; in these eras a result does not say its type."""
    plain = {name: member for name, member in result.items() if name != "resultType"}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, "result": plain}) + b"\n"


def error_line(request_id: RequestId, code: int, message: str) -> bytes:
    """Return the line of a protocol error."""
    error = {"code": code, "message": message}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, "error": error}) + b"\n"
