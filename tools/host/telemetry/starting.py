"""Starting telemetry where it is wanted. The libraries of the extra ``otel`` are imported here and only then."""

from __future__ import annotations

import os
from collections.abc import Mapping

from journal.extras import install_extra
from tools.host.telemetry.settings import Telemetry
from tools.host.telemetry.spans import NO_TRACING, Tracing
from tools.lazylog import LazyLog

_log = LazyLog()


def tracing_of(telemetry: Telemetry, version: str, environ: Mapping[str, str] = os.environ) -> Tracing:
    """Return who takes spans. Where that cannot be had it is said in the log, and the server serves without.

    Args:
        telemetry: what the host file says.
        version: of the server.
        environ: which may name a collector too.
    """
    address = telemetry.address(environ)
    if address is None:
        return NO_TRACING
    try:
        from tools.host.telemetry.otlp import OtlpTracing
    except ImportError:
        _log.warning("no_telemetry", reason=f"it comes with the extra otel: {install_extra('otel')}")
        return NO_TRACING
    try:
        return OtlpTracing(address, telemetry.service_name, version)
    except Exception as error:  # noqa: BLE001 - whatever the environment says wrong: a server serves all the same
        _log.warning("no_telemetry", reason=type(error).__name__)
        return NO_TRACING
