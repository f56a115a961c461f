"""The memory service of one connection: what the MCP server calls (tools.server.service.Service)."""

from __future__ import annotations

import time
import uuid
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from journal import identity, limits, patience
from journal.errors import EngramError, InvalidSchema
from journal.events import Actor
from journal.systemfaults import SYSTEM_FAULTS, described, told
from tools.conversation.platforms import canonical_platform
from tools.conversation.remembered import remembered
from tools.damage import DamageTold
from tools.host.exceptions import UntrustedContext as NotBound
from tools.lazylog import LazyLog
from tools.memory.call import Call
from tools.server.envelope import Envelope, failure, success
from tools.server.service import CallContext, Remembered, UnknownTool, UntrustedContext

if TYPE_CHECKING:
    from journal.scope import Scope
    from tools.host.binding import Binding
    from tools.memory.engine import Engine
    from tools.memory.sweeper import Sweeper

_log = LazyLog()


class MemoryService:
    """Serves the tools of one binding."""

    def __init__(self, engine: Engine, sweeper: Sweeper | None = None, *, logs_refusals: bool = True) -> None:
        """Take over an open engine, and the sweeper that finishes in the background what its calls leave.

        ``logs_refusals`` is False where a line of the log is written of each call anyway.
        """
        self._engine = engine
        self._logs_refusals = logs_refusals
        self._sweeper = sweeper
        self._damage = DamageTold(_log)
        self._sessions: dict[tuple[bytes, str], bytes] = {}

    def purposes(self) -> tuple[str, ...]:
        """Return the purposes that the host bound."""
        return self._engine.binding.purpose_refs

    def listed_tools(self) -> tuple[str, ...]:
        """Return the tools that are granted, served and enabled."""
        with patience.bounded(time.monotonic() + limits.LISTING_WAIT_SECONDS):
            return self._engine.authority.listed(self._engine.binding, self._engine.clock.now())

    def remembered(self, timeout_seconds: float) -> Remembered | None:
        """Return what is known of the user, within ``timeout_seconds``; None: nothing is told."""
        with patience.bounded(time.monotonic() + timeout_seconds):
            return remembered(self._engine, timeout_seconds)

    def call(self, tool_name: str, arguments: dict[str, Any], context: CallContext) -> Envelope:
        """Run one call and return its envelope.

        Raises:
            UnknownTool: the tool is not listed. UntrustedContext: the call names a context that the host did not bind.
        """
        if not self._engine.binding.lists(tool_name):
            raise UnknownTool("not listed")
        audit_id = self._audit_id()
        with patience.bounded(context.deadline):
            return self._answered(tool_name, arguments, context, audit_id)

    def _answered(
        self, tool_name: str, arguments: dict[str, Any], context: CallContext, audit_id: str
    ) -> Envelope:  # fmt: skip
        try:
            if not self._engine.authority.lists(self._engine.binding, tool_name, self._engine.clock.now()):
                raise UnknownTool("not granted by the journal, or not any more", audit_id)
            self._engine.rates.admit(self._engine.binding, tool_name)
            return success(self._value(tool_name, arguments, context, audit_id), audit_id)
        except NotBound as error:
            raise UntrustedContext("a purpose that the host did not bind", audit_id) from error
        except EngramError as error:
            self._damage.tell(error)
            if self._logs_refusals:
                _log.info("refused", tool=tool_name, code=error.code, detail=error.detail, audit_id=audit_id)
            return failure(error, audit_id)
        except SYSTEM_FAULTS as error:
            known = told(error)
            self._damage.tell(known)
            _log.warning("system_refused", tool=tool_name, code=known.code, audit_id=audit_id, **described(error))
            return failure(known, audit_id)

    def _value(self, tool_name: str, arguments: dict[str, Any], context: CallContext, audit_id: str) -> dict[str, Any]:
        _check_size(arguments)
        from tools.memory.dispatch import value_of  # here: a starting server has not the time for all the tools

        bound, speaking = partial(self._bound, context, audit_id), partial(self._speaking, context, audit_id)
        return value_of(self._engine, tool_name, arguments, bound, speaking)

    def _bound(self, context: CallContext, audit_id: str) -> Call:
        """Return a call about the host's own scope."""
        binding = self._engine.binding
        return self._call_in(binding, binding.actor(self._session(binding.scope, context)), context, audit_id)

    def _speaking(self, context: CallContext, audit_id: str) -> Call:
        """Return a call about the conversations; its agent is the one that the host bound, or the platform."""
        binding = replace(self._engine.binding, scope=self._engine.binding.conversation.scope)
        agent_id = binding.agent_id or canonical_platform(context.client_name)
        actor = Actor(binding.principal, agent_id, self._session(binding.scope, context))
        return self._call_in(binding, actor, context, audit_id)

    def _call_in(self, binding: Binding, actor: Actor, context: CallContext, audit_id: str) -> Call:
        return Call(
            binding=binding, actor=actor, now=self._engine.clock.now(), deadline=context.deadline,
            progress=context.progress, cancelled=context.cancelled, ending=context.ending,
            client_name=context.client_name, session_id=context.session_id, audit_id=audit_id, asking=context.asking,
        )  # fmt: skip

    def _session(self, scope: Scope, context: CallContext) -> bytes:
        """Return the keyed digest by which events name a connection's session."""
        known = self._sessions.get((scope.tag, context.session_id))
        if known is None:
            self._engine.journal.admit(scope, context.deadline)
            known = identity.session(self._engine.journal.keyring.identity_key(scope), context.session_id)
            if len(self._sessions) >= limits.SESSIONS_REMEMBERED:
                self._sessions.clear()
            self._sessions[scope.tag, context.session_id] = known
        return known

    def _audit_id(self) -> str:
        """Return a random UUID (version 4) from the scope's randomness."""
        raw = self._engine.randomness.draw(self._engine.binding.scope, 16)
        return str(uuid.UUID(bytes=raw, version=4))

    def stop(self) -> None:
        """Let go of the provider of embeddings: who waits for it, waits no longer."""
        if self._engine.semantic is not None:
            self._engine.semantic.close()

    def close(self) -> None:
        """Let go of everything."""
        self.stop()
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
