"""Whether spans are wanted, and where they go: the section [telemetry] of the host file, or the standard environment.

The variables are those of OpenTelemetry's own specification ("OpenTelemetry Environment Variable Specification",
"OpenTelemetry Protocol Exporter"). What else they say, such as headers, a sampler or resource attributes, is heeded by
the library that sends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from projections.address import address_of

if TYPE_CHECKING:
    from tools.host.sections import TelemetrySection

_PATH: Final = "/v1/traces"  # below the address of a collector (OTLP/HTTP)
_PROTOCOL: Final = "http/protobuf"  # the one that is spoken here, and the default of the specification
_OURS: Final = ("", "otlp")  # of exporters: the default, and its name


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """What the host file says of telemetry."""

    endpoint: str | None = None  # of a collector; None: the environment may name one
    service_name: str = "engram"
    names_principals: bool = False

    def address(self, environ: Mapping[str, str]) -> str | None:
        """Return where spans are sent, or None where none are wanted."""
        if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
            return None
        if self.endpoint is not None:
            return self.endpoint.rstrip("/") + _PATH
        if environ.get("OTEL_TRACES_EXPORTER", "").strip() not in _OURS:
            return None
        protocol = environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
        if protocol and protocol.strip() != _PROTOCOL:
            return None
        if whole := environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
            return whole
        base = environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
        return base.rstrip("/") + _PATH if base else None


def flaw_of(section: TelemetrySection) -> tuple[str, str, str] | None:
    """Return the key, the reason and the mend of what the section's types cannot say is wrong, or None."""
    if section.endpoint is None:
        return None
    address = address_of(section.endpoint)
    if address is None:
        mend = "write one without a user, a query or a key, such as http://127.0.0.1:4318"
        return "telemetry.endpoint", "is no plain address", mend
    if not address.is_private:
        mend = "write https:// (http:// is for this machine alone)"
        return "telemetry.endpoint", "would be sent to in the clear", mend
    return None


def telemetry_of(section: TelemetrySection) -> Telemetry:
    """Return what a section without a flaw says."""
    return Telemetry(endpoint=section.endpoint, service_name=section.service_name, names_principals=section.principals)
