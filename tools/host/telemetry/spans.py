"""What the engine says of a span, whoever takes it. Nothing of OpenTelemetry is imported here.

A span holds names, codes and digests, and never a word of content, of a query or of an exception.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol


class Span(Protocol):
    """A span that is open."""

    def note(self, name: str, value: str) -> None:
        """Add what became known meanwhile."""
        ...

    def fail(self, kind: str) -> None:
        """Say that what it spans failed; ``kind`` is one of few: a code."""
        ...


class Tracing(Protocol):
    """Who takes spans. What it does with them never slows or fails what they span."""

    def span(
        self, name: str, attributes: Mapping[str, str], *, is_call: bool = False, trace_parent: str | None = None
    ) -> AbstractContextManager[Span]:
        """Open a span within the one that is open in this thread.

        Args:
            name: one of few.
            attributes: what is known by now.
            is_call: it is what a client called for.
            trace_parent: the client's own span, in the words of W3C Trace Context; None: it names none.
        """
        ...

    def close(self) -> None:
        """Send what was not sent yet, within a bounded time."""
        ...


class _NoSpan:
    def note(self, name: str, value: str) -> None:
        pass

    def fail(self, kind: str) -> None:
        pass


class _NoTracing:
    def __init__(self) -> None:
        self._nothing: AbstractContextManager[Span] = nullcontext(_NoSpan())

    def span(
        self, name: str, attributes: Mapping[str, str], *, is_call: bool = False, trace_parent: str | None = None
    ) -> AbstractContextManager[Span]:
        del name, attributes, is_call, trace_parent
        return self._nothing

    def close(self) -> None:
        pass


NO_TRACING: Final[Tracing] = _NoTracing()
"""Takes no spans."""
