"""The memory service of one connection: what the MCP server calls (tools.server.service.Service)."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
import structlog

from journal import identity, limits
from journal.errors import EngramError, InvalidSchema
from tools.host.capabilities import GET, SEARCH
from tools.host.exceptions import UntrustedContext as NotBound
from tools.memory.call import Call
from tools.memory.get import get
from tools.memory.mutation import run
from tools.memory.mutations import mutation_of
from tools.memory.search import search
from tools.server.envelope import Envelope, failure, success
from tools.server.service import CallContext, UnknownTool, UntrustedContext

if TYPE_CHECKING:
    from tools.memory.engine import Engine
    from tools.memory.erasure import Sweeper

_log = structlog.get_logger()

_READS: dict[str, Callable[[Engine, Call, dict[str, Any]], dict[str, Any]]] = {SEARCH: search, GET: get}


class MemoryService:
    """Serves the tools of one binding."""

    def __init__(self, engine: Engine, sweeper: Sweeper | None = None) -> None:
        """Take over an open engine, and the sweeper that finishes in the background what its calls leave."""
        self._engine = engine
        self._sweeper = sweeper

    def purposes(self) -> tuple[str, ...]:
        """Return the purposes that the host bound."""
        return self._engine.binding.purpose_refs

    def listed_tools(self) -> tuple[str, ...]:
        """Return the tools that are granted, served and enabled."""
        return self._engine.binding.listed_tools

    def call(self, tool_name: str, arguments: dict[str, Any], context: CallContext) -> Envelope:
        """Run one call and return its envelope.

        Raises:
            UnknownTool: the tool is not listed. UntrustedContext: the call names a context that the host did not bind.
        """
        if tool_name not in self.listed_tools():
            raise UnknownTool("not listed")
        audit_id = self._audit_id()
        try:
            return success(self._value(tool_name, arguments, context), audit_id)
        except NotBound as error:
            raise UntrustedContext("a purpose that the host did not bind") from error
        except EngramError as error:
            _log.info("refused", tool=tool_name, code=error.code, detail=error.detail, audit_id=audit_id)
            return failure(error, audit_id)

    def _value(self, tool_name: str, arguments: dict[str, Any], context: CallContext) -> dict[str, Any]:
        _check_size(arguments)
        call = self._bound(context)
        read = _READS.get(tool_name)
        if read is not None:
            return read(self._engine, call, arguments)
        return run(self._engine, call, mutation_of(self._engine, tool_name, arguments, call), arguments)

    def _bound(self, context: CallContext) -> Call:
        engine, binding = self._engine, self._engine.binding
        engine.journal.admit(binding.scope, context.deadline)
        session = identity.session(engine.journal.keyring.identity_key(binding.scope), context.session_id)
        return Call(
            binding=binding, actor=binding.actor(session), now=engine.clock.now(), deadline=context.deadline,
            progress=context.progress, cancelled=context.cancelled,
        )  # fmt: skip

    def _audit_id(self) -> str:
        """Return a random UUID (version 4) from the scope's randomness."""
        raw = self._engine.randomness.draw(self._engine.binding.scope, 16)
        return str(uuid.UUID(bytes=raw, version=4))

    def close(self) -> None:
        """Let go of everything."""
        if self._sweeper is not None:
            self._sweeper.close()
        self._engine.close()


def _check_size(arguments: dict[str, Any]) -> None:
    """Refuse arguments that are too large or no JSON: the wire measured them as received, a Python caller did not."""
    try:
        size_bytes = len(msgspec.json.encode(arguments))
    except (TypeError, ValueError, RecursionError, UnicodeEncodeError, msgspec.MsgspecError) as error:
        raise InvalidSchema("the arguments are no JSON object") from error
    if size_bytes > limits.ARGUMENTS_MAX_BYTES:
        raise InvalidSchema("the arguments are too large")
