"""Work that a thread aside may do before who wants it asks for it: who comes first does it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")


class Handed(Generic[Given, Made]):
    """One piece of work, done once by either of two threads, which both know what it is done with."""

    def __init__(self, work: Callable[[Given], Made]) -> None:
        self._work = work
        self._made: Future[Made] = Future()

    def run(self, given: Given) -> None:
        """Do it, unless somebody else did. What it raises is raised to who asks."""
        if self._made.set_running_or_notify_cancel():
            try:
                made = self._work(given)
            except BaseException as error:  # noqa: BLE001 - it is raised to who asks
                self._made.set_exception(error)
            else:
                self._made.set_result(made)

    def result(self, given: Given) -> Made:
        """Return what it made; it is done now where nobody has begun it."""
        return self._work(given) if self._made.cancel() else self._made.result()
