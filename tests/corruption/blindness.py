"""A product that does not look, for a control: what exchanged bodies do where nobody checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from journal import log


def take_any_body() -> None:
    """Let this process and its forks take the content of another body for that of one that does not open."""
    log.Journal.content = _any_content(log.Journal.content)  # type: ignore[method-assign]


def _any_content(real: Callable[..., Any]) -> Callable[..., Any]:
    last: list[Any] = [{}]

    def content(self: Any, *words: Any, **more: Any) -> Any:
        try:
            last[0] = real(self, *words, **more)
        except Exception:  # noqa: BLE001 - that is the fault
            return last[0]
        return last[0]

    return content
