"""A service whose calls are spans: tool, code, auditId and the scope's digest; never content, never a query.

The names are those of OpenTelemetry's conventions for MCP (``mcp.*``) and for the calling of tools (``gen_ai.*``)
where they have one; ours begin with ``engram.``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from journal.errors import EngramError
from tools.host.telemetry.spans import NO_TRACING
from tools.server.envelope import Envelope
from tools.server.instructions import CONVERSATION_TOOLS
from tools.server.service import CallContext, FormNeeded, ProtocolRefusal, Remembered, Service

if TYPE_CHECKING:
    from tools.host.binding import Binding
    from tools.host.telemetry.spans import Span, Tracing

PIPE: Final = "pipe"  # how a client is reached over stdio
TCP: Final = "tcp"  # and over HTTP

_METHOD: Final = "tools/call"
_FAILED: Final = "tool_error"  # of an answer that says so itself; which error it is, engram.code tells


def traced(
    service: Service, tracing: Tracing, binding: Binding, *, transport: str, names_principal: bool
) -> Service:  # fmt: skip
    """Return a service whose calls are spans, or, where nobody takes any, the service itself."""
    if tracing is NO_TRACING:
        return service
    return TracedService(service, tracing, binding, transport=transport, names_principal=names_principal)


class TracedService:
    """Passes everything on to the service of one principal."""

    def __init__(
        self, service: Service, tracing: Tracing, binding: Binding, *, transport: str, names_principal: bool
    ) -> None:
        """Take over a service.

        Args:
            service: the principal's.
            tracing: takes the spans; it is closed by who opened it.
            binding: the service's.
            transport: ``PIPE`` or ``TCP``.
            names_principal: whether the host wants its name in spans.
        """
        self._service = service
        self._tracing = tracing
        self._binding = binding
        self._always = {
            "mcp.method.name": _METHOD,
            "gen_ai.operation.name": "execute_tool",
            "network.transport": transport,
            **({"enduser.id": binding.principal} if names_principal else {}),
        }

    def purposes(self) -> Sequence[str]:
        """See :class:`Service`."""
        return self._service.purposes()

    def listed_tools(self) -> Sequence[str]:
        """See :class:`Service`."""
        return self._service.listed_tools()

    def remembered(self, timeout_seconds: float) -> Remembered | None:
        """See :class:`Service`."""
        return self._service.remembered(timeout_seconds)

    def call(self, tool_name: str, arguments: dict[str, Any], context: CallContext) -> Envelope:
        """See :class:`Service`. The tool is a listed one: no word of a caller names a span."""
        binding = self._binding
        scope = binding.conversation.scope if tool_name in CONVERSATION_TOOLS else binding.scope
        attributes = {
            **self._always,
            "gen_ai.tool.name": tool_name,
            "mcp.protocol.version": context.protocol_version,
            "engram.scope": scope.tag.hex(),
        }
        with self._tracing.span(
            f"{_METHOD} {tool_name}", attributes, is_call=True, trace_parent=context.trace_parent
        ) as span:
            try:
                envelope = self._service.call(tool_name, arguments, context)
            except Exception as error:
                _say(span, error)
                raise
            span.note("engram.audit_id", envelope.audit_id)
            span.note("engram.code", "ok" if envelope.error is None else envelope.error.code)
            if envelope.error is not None:
                span.fail(_FAILED)
            return envelope

    def stop(self) -> None:
        """See :class:`Service`."""
        self._service.stop()

    def close(self) -> None:
        """See :class:`Service`."""
        self._service.close()


def _say(span: Span, error: Exception) -> None:
    """Say by what a call was refused. Of an exception that is not the contract's, its type alone."""
    if isinstance(error, FormNeeded):
        span.note("engram.code", "input_required")
    elif isinstance(error, ProtocolRefusal):
        span.note("rpc.response.status_code", str(error.code))
        span.fail(str(error.code))
    elif isinstance(error, EngramError):
        span.note("engram.code", error.code)
        span.fail(_FAILED)
    else:
        span.fail(type(error).__name__)
