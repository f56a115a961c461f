"""A progress bar, where a person watches: on stderr, and only if that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click


@contextmanager
def bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function that takes (done, total) and draws, or does nothing where nobody would see it."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    drawn = _Bar(label)
    try:
        yield drawn
    finally:
        drawn.finish()


class _Bar:
    """Draws on the first call, for only then is the total known."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._bar: Any = None
        self._done = 0

    def __call__(self, done: int, total: int) -> None:
        if self._bar is None:
            self._bar = click.progressbar(length=total, label=self._label, file=sys.stderr, width=30)
            self._bar.__enter__()
        self._bar.length = total
        self._bar.update(done - self._done)
        self._done = done

    def finish(self) -> None:
        if self._bar is not None:
            self._bar.__exit__(None, None, None)
