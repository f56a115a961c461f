"""Work that two threads know of, and who comes first does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")


class Handed(Generic[Given, Made]):
    """One piece of work, done once by any of some threads, which all know what it is done with."""

    def __init__(self, work: Callable[[Given], Made]) -> None:
        self._work = work
        self._begun = threading.Lock()  # held for good by who has begun it
        self._made: Future[Made] = Future()

    def run(self, given: Given) -> None:
        """Do it, unless somebody has begun it. What it raises is raised to who asks for the result."""
        if not self._begun.acquire(blocking=False):
            return
        try:
            made = self._work(given)
        except BaseException as error:  # noqa: BLE001 - it is raised to who asks
            self._made.set_exception(error)
        else:
            self._made.set_result(made)

    def result(self, given: Given) -> Made:
        """Return what it made; it is done now where nobody has begun it."""
        self.run(given)
        return self._made.result()
