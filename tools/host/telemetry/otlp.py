"""Spans to a collector over OTLP/HTTP, by OpenTelemetry's own libraries (the extra ``otel``).

A span that ended is put in a queue of bounded length, and a thread sends it; with a full queue the oldest are lost.
Whether anybody takes them is nothing that a call waits for. The process's own tracer provider is left alone, so that no
other library's spans, which may quote what a caller sent, go out by this way.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import cast

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from journal import limits
from tools.host.telemetry.spans import Span
from tools.lazylog import LazyLog

_log = LazyLog()


class OtlpTracing:
    """Takes spans and sends them (``tools.host.telemetry.spans.Tracing``)."""

    def __init__(self, address: str, service_name: str, version: str) -> None:
        """Make ready, without a request; ``address`` is that of the collector, path and all."""
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # it would tell of each try; see _Told
        # What OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME say goes before what the host file does.
        own = Resource({SERVICE_NAME: service_name, SERVICE_VERSION: version})
        named = {
            name: value
            for name, value in Resource.create().attributes.items()
            if name != SERVICE_NAME or not str(value).startswith("unknown_service")
        }
        self._provider = TracerProvider(resource=own.merge(Resource(named)), shutdown_on_exit=False)
        told = _Told(OTLPSpanExporter(endpoint=address))
        self._provider.add_span_processor(BatchSpanProcessor(cast("SpanExporter", told)))
        self._tracer = self._provider.get_tracer("engram", version)
        self._parents = TraceContextTextMapPropagator()

    @contextmanager
    def span(
        self, name: str, attributes: Mapping[str, str], *, is_call: bool = False, trace_parent: str | None = None
    ) -> Iterator[Span]:
        """See ``Tracing``. What is raised within is said by the type alone: its words may quote a caller."""
        parent = None if trace_parent is None else self._parents.extract({"traceparent": trace_parent})
        kind = trace.SpanKind.SERVER if is_call else trace.SpanKind.INTERNAL
        with self._tracer.start_as_current_span(
            name, parent, kind, attributes, record_exception=False, set_status_on_exception=False
        ) as opened:
            yield _OtlpSpan(opened)

    def close(self) -> None:
        """See ``Tracing``. A collector that does not answer is not waited for."""
        thread = threading.Thread(target=self._provider.shutdown, name="engram-telemetry-end", daemon=True)
        thread.start()
        thread.join(limits.TELEMETRY_END_SECONDS)


class _OtlpSpan:
    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def note(self, name: str, value: str) -> None:
        self._span.set_attribute(name, value)

    def fail(self, kind: str) -> None:
        self._span.set_attribute("error.type", kind)
        self._span.set_status(trace.StatusCode.ERROR)


class _Told:
    """An exporter that tells the operator once that spans are not taken, and once that they are taken again."""

    def __init__(self, sending: SpanExporter) -> None:
        self._sending = sending
        self._is_well = True

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans."""
        result = self._sending.export(spans)
        is_well = result is SpanExportResult.SUCCESS
        if is_well is not self._is_well:
            self._is_well = is_well
            if is_well:
                _log.info("telemetry_taken_again")
            else:
                _log.warning("telemetry_not_taken", spans=len(spans))
        return result

    def shutdown(self) -> None:
        """Let go of the connection."""
        self._sending.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Do nothing: nothing is kept here."""
        return bool(self._sending.force_flush(timeout_millis))
