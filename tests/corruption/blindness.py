"""Products that do not look, for the controls: what damage does where nobody checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from journal import log
from projections import marks


def make_blind(to: str) -> None:
    """Let this process and its forks check nothing of one kind."""
    if to == "summed":
        marks.trusted = lambda directory: True
    else:
        log.Journal.content = _any_content(log.Journal.content)  # type: ignore[method-assign]


def _any_content(real: Callable[..., Any]) -> Callable[..., Any]:
    """Return what opens a body, and takes the content of another one where it does not open."""
    last: list[Any] = [{}]

    def content(self: Any, *words: Any, **more: Any) -> Any:
        try:
            last[0] = real(self, *words, **more)
        except Exception:  # noqa: BLE001 - that is the fault
            return last[0]
        return last[0]

    return content
