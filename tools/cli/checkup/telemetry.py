"""Telemetry: whether the libraries that a configured collector needs are there. Nothing is sent."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from journal.extras import install_extra
from tools.cli.checkup.finding import Finding, warning

_LIBRARIES = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http")


def check() -> Iterator[Finding]:
    """Yield that spans are asked for and cannot be made."""
    if not all(map(_is_there, _LIBRARIES)):
        yield warning(
            "TELEMETRY_MISSING", "telemetry", "a collector is named, but the libraries of the extra otel are not there",
            f"{install_extra('otel')}, or name no collector",
        )  # fmt: skip


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of a package above it
        return False
