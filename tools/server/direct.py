"""The short way of a tool call: from the strict reader to the service and back, past the protocol library.

In the eras with a handshake a ``tools/call`` says nothing to the library that the strict reader has not read already:
no envelope, no negotiated feature. Since 2026-07-28 each request brings an envelope, which a client repeats; one that
the library accepted says nothing new. The library's way through dispatcher, models and tasks takes longer than a
durable save. So a call goes directly where both sides have shaken hands or its envelope is a known one, its params have
none but the known members, it asks for no progress, and the client is not to be asked by a form; any other message
takes the long way. Either way gives the same answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

import msgspec
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    PROTOCOL_VERSION_META_KEY,
    SERVER_INFO_META_KEY,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from journal.limits import CALLS_IN_FLIGHT_MAX, ENVELOPE_MAX_BYTES, ENVELOPES_REMEMBERED

RequestId = int | str

_CALL: Final = "tools/call"
_GREETING: Final = "initialize"
_GREETED: Final = "notifications/initialized"
_CANCELLED: Final = "notifications/cancelled"
_PROGRESS: Final = "progressToken"
_MEMBERS: Final = frozenset({"name", "arguments", "_meta"})


@dataclass(frozen=True, slots=True)
class Client:
    """Whom the handshake was with, or who sent an envelope."""

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


class Envelopes:
    """The envelopes that the library accepted, and who sent them."""

    def __init__(self) -> None:
        self._clients: dict[bytes, Client] = {}

    def client_of(self, meta: Mapping[str, Any]) -> Client | None:
        """Return who sent an envelope; None where it is not known, or says something of this request alone."""
        said = _said_in(meta)
        return None if said is None else self._clients.get(said)

    def learn(self, meta: Mapping[str, Any]) -> None:
        """Remember the envelope of a request that the library answered with a result."""
        said = _said_in(meta)
        if said is None or said in self._clients:
            return
        if len(self._clients) >= ENVELOPES_REMEMBERED:
            self._clients.clear()  # whoever calls again is learned again
        info, capabilities = meta.get(CLIENT_INFO_META_KEY), meta.get(CLIENT_CAPABILITIES_META_KEY)
        self._clients[said] = Client(_name_in(info), meta[PROTOCOL_VERSION_META_KEY], _shows_forms(capabilities))


def _said_in(meta: Mapping[str, Any]) -> bytes | None:
    """Return what ``_meta`` says to the library, if that is an envelope and nothing of this request alone."""
    said = {name: value for name, value in meta.items() if _is_the_librarys(name)}
    if _PROGRESS in said or said.get(PROTOCOL_VERSION_META_KEY) not in MODERN_PROTOCOL_VERSIONS:
        return None
    encoded = msgspec.json.encode(said)
    return encoded if len(encoded) <= ENVELOPE_MAX_BYTES else None


class DirectCalls:
    """Knows when a call may go directly, and which ones are under way."""

    def __init__(self, begin: Begin, elicited: Elicited = elicits_nobody) -> None:
        self._begin = begin
        self._elicited = elicited
        self._greeting: tuple[RequestId, str | None, bool] | None = None  # id of ``initialize``, client's name, forms
        self._answered: Client | None = None  # the handshake was answered
        self._client: Client | None = None  # and the client said that it has the answer
        self._envelopes = Envelopes()
        self._enveloped: dict[RequestId, Mapping[str, Any]] = {}  # ``_meta`` of calls that the library is answering
        self._running: dict[RequestId, list[Running]] = {}

    # --- the handshake, and envelopes --------------------------------------------------------------

    def note(self, message: dict[str, Any]) -> None:
        """Note what a clean message of the client does to the handshake, or that it brings an envelope."""
        method = message.get("method")
        if method == _GREETING and "id" in message:
            params = message.get("params") or {}
            shows_forms = _shows_forms(params.get("capabilities"))
            self._greeting = (message["id"], _name_in(params.get("clientInfo")), shows_forms)
            self._answered = self._client = None
        elif method == _GREETED:
            self._client = self._answered
        elif method == _CALL and "id" in message:
            meta = (message.get("params") or {}).get("_meta")
            if isinstance(meta, dict) and _said_in(meta) is not None and self._envelopes.client_of(meta) is None:
                if len(self._enveloped) >= CALLS_IN_FLIGHT_MAX:
                    self._enveloped.clear()  # what was answered with an error stands here still
                self._enveloped[message["id"]] = meta

    def note_answer(self, request_id: RequestId | None, result: dict[str, Any]) -> None:
        """Note a result of the library's: that of ``initialize`` says which version both speak."""
        if request_id is not None and (meta := self._enveloped.pop(request_id, None)) is not None:
            self._envelopes.learn(meta)
        if self._greeting is not None and request_id == self._greeting[0]:
            version = result.get("protocolVersion")
            _, name, shows_forms = self._greeting
            self._answered = Client(name, version, shows_forms) if isinstance(version, str) else None
            self._greeting = None

    # --- calls -----------------------------------------------------------------------------------

    def takes(self, message: dict[str, Any]) -> bool:
        """Whether a clean message is a call that goes directly."""
        if message.get("method") != _CALL or "id" not in message or not is_plain(message.get("params")):
            return False
        params = message["params"]
        client = self._client_of(params)
        return client is not None and not (client.shows_forms and params["name"] in self._elicited(client.name))

    def _client_of(self, params: dict[str, Any]) -> Client | None:
        """Return whose call it is, if the library need not look at it."""
        meta = params.get("_meta", {})
        return self._client if says_nothing(meta) else self._envelopes.client_of(meta)

    def begin(self, message: dict[str, Any], write_at_once: WriteAtOnce) -> Running:
        """Begin a call that ``takes`` took."""
        params, request_id = message["params"], message["id"]
        client = self._client_of(params)
        assert client is not None
        running = self._begin(
            request_id, params["name"], params.get("arguments", {}), client, write_at_once,
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
        request_id = cancelled_by(message)
        if request_id is None:
            return False
        under_way = self._running.get(request_id, ())
        for running in under_way:
            running.cancelled.set()
        return bool(under_way)


def cancelled_by(message: Mapping[str, Any]) -> RequestId | None:
    """Return which request a notification cancels; None where it cancels none."""
    if message.get("method") != _CANCELLED:
        return None
    request_id = (message.get("params") or {}).get("requestId")
    return None if isinstance(request_id, bool) or not isinstance(request_id, int | str) else request_id


def is_plain(params: Any) -> TypeGuard[dict[str, Any]]:
    """Whether the params of a call have none but the known members, each of its kind."""
    return (
        isinstance(params, dict)
        and _MEMBERS.issuperset(params)
        and isinstance(params.get("name"), str)
        and isinstance(params.get("arguments", {}), dict)
        and isinstance(params.get("_meta", {}), dict)
    )


def says_nothing(meta: Mapping[str, Any]) -> bool:
    """Whether ``_meta`` says nothing to the library."""
    return not any(map(_is_the_librarys, meta))


def _is_the_librarys(name: str) -> bool:
    """Whether a member of ``_meta`` means something to the library: progress, tasks, the envelope of the newest era."""
    return name == _PROGRESS or "modelcontextprotocol" in name


def _name_in(info: Any) -> str | None:
    name = info.get("name") if isinstance(info, dict) else None
    return name if isinstance(name, str) else None


def _shows_forms(capabilities: Any) -> bool:
    return isinstance(capabilities, dict) and isinstance(capabilities.get("elicitation"), dict)


def trace_parent_of(meta: Mapping[str, Any] | None) -> str | None:
    """Return how a client names its own span in ``_meta``, or None; whether it can be read, whoever traces sees."""
    named = None if meta is None else meta.get("traceparent")
    return named if isinstance(named, str) else None


def result_line(
    request_id: RequestId, result: dict[str, Any], protocol_version: str, server_info: Mapping[str, Any]
) -> bytes:
    """Return the line of a call's result, as its protocol version writes it.

    In the eras with a handshake a result does not say its type; since then it says who gave it.
    """
    if protocol_version in MODERN_PROTOCOL_VERSIONS:
        shaped = {**result, "_meta": {SERVER_INFO_META_KEY: server_info}}
    else:
        shaped = {name: member for name, member in result.items() if name != "resultType"}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, "result": shaped}) + b"\n"


def error_line(request_id: RequestId, code: int, message: str) -> bytes:
    """Return the line of a protocol error."""
    error = {"code": code, "message": message}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, "error": error}) + b"\n"
