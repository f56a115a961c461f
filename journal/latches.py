"""What says that something is done, to one who waits for it or looks: with less in it than threading.Event."""

from __future__ import annotations

import threading
from contextlib import suppress


class Latch:
    """An event for one waiter. threading.Event makes a lock for every wait, and is four frames deep."""

    __slots__ = ("_closed", "_is_set")

    def __init__(self) -> None:
        self._closed = threading.Lock()
        self._closed.acquire()
        self._is_set = False

    def set(self) -> None:
        """Let the waiter go; harmless when repeated."""
        if not self._is_set:
            self._is_set = True
            with suppress(RuntimeError):  # two threads at this very moment: the other one did it
                self._closed.release()

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._is_set

    def wait(self, timeout_seconds: float = -1.0) -> bool:
        """Wait until it is set; return whether it is. Without a timeout for as long as it takes."""
        return self._is_set or self._closed.acquire(timeout=timeout_seconds)


class Mark:
    """Whether something is done, for one who need not wait for it: an event without its lock."""

    __slots__ = ("_is_set",)

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        """Say that it is done."""
        self._is_set = True

    def is_set(self) -> bool:
        """Whether it is done."""
        return self._is_set
