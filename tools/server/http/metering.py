"""A service whose calls are counted and logged, a line each: tool, code, time, auditId and whose; never content."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from journal.errors import EngramError, StoreUnavailable
from tools.server.envelope import Envelope
from tools.server.http.metrics import Metrics
from tools.server.logs import note
from tools.server.service import CallContext, ProtocolRefusal, Remembered, Service


class MeteredService:
    """Passes everything on to the service of one principal."""

    def __init__(self, service: Service, metrics: Metrics, whose: Mapping[str, str]) -> None:
        """``whose`` is said in the log of each call: tenant, workspace and principal."""
        self._service = service
        self._metrics = metrics
        self._whose = whose

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
        """See :class:`Service`. The tool is a listed one."""
        began, code, audit_id, detail = time.monotonic(), StoreUnavailable.code, None, ""
        with self._metrics.call():
            try:
                envelope = self._service.call(tool_name, arguments, context)
                code, audit_id = "ok" if envelope.error is None else envelope.error.code, envelope.audit_id
                detail = envelope.detail
            except ProtocolRefusal as refusal:
                code, audit_id, detail = str(refusal.code), refusal.audit_id, refusal.detail
                refusal.is_logged = True
                raise
            except EngramError as error:
                code, detail = error.code, error.detail
                raise
            else:
                return envelope
            finally:
                seconds = time.monotonic() - began
                self._metrics.count_call(tool_name, code, seconds)
                why = {"detail": detail} if detail else {}
                note(
                    "call", tool=tool_name, code=code, **why, audit_id=audit_id, **self._whose,
                    milliseconds=round(seconds * 1_000, 1),
                )  # fmt: skip

    def stop(self) -> None:
        """See :class:`Service`."""
        self._service.stop()

    def close(self) -> None:
        """See :class:`Service`."""
        self._service.close()
