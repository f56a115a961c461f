"""A query's vector: there already, or on its way from a thread aside while the query's words are looked up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Final, Protocol

from journal import limits
from projections.vector.threads import threads

Meanwhile = Callable[[Callable[[], bool]], object]
"""Some work that may be done while a vector is waited for: as long as it is waited for, which it is given to ask."""

_SHARED: Final = 1.5
_SHARED_SECONDS: Final = 0.001
"""Work that took so many times the processor's time by the clock, and so much more, shared a core with other work."""


class QueryVector(Protocol):
    """Gives the vector of a query, once it is there."""

    def __call__(self, meanwhile: Meanwhile | None = None) -> Any:
        """Return it; ``meanwhile``: what is done again and again until it is there.

        Raises:
            RankingUnavailable: it cannot be had.
        """
        ...

    def then(self, work: Callable[[Any], object]) -> bool:
        """Have the thread that embeds do some work with the vector, before who waits is awake; return whether it will.

        It may not be done, where there is no vector; what it raises is nobody's matter.
        """
        ...


class Ready:
    """A vector that is there."""

    def __init__(self, vector: Any) -> None:
        self._vector = vector

    def __call__(self, meanwhile: Meanwhile | None = None) -> Any:
        """Return it."""
        return self._vector

    def then(self, work: Callable[[Any], object]) -> bool:
        """Return that nobody does it."""
        return False


class _Begun:
    """A vector that a thread aside makes."""

    def __init__(self, embed: Callable[[], Any], refuse_late: Callable[[], None]) -> None:
        self._embed = embed
        self._refuse_late = refuse_late
        self._vector: Future[Any] = Future()
        self._mutex = threading.Lock()
        self._work: Callable[[Any], object] | None = None
        self.is_begun = threading.Event()

    def __call__(self, meanwhile: Meanwhile | None = None) -> Any:
        until = time.monotonic() + limits.SEMANTIC_READ_OVER_MAX_SECONDS
        while True:
            if meanwhile is not None and not (self._is_worth(meanwhile) and time.monotonic() < until):
                meanwhile = None
            pause = limits.SEMANTIC_LOOK_SECONDS if meanwhile is None else limits.SEMANTIC_READ_OVER_SECONDS
            try:
                return self._vector.result(pause)
            except TimeoutError:
                self._refuse_late()

    def _is_worth(self, meanwhile: Meanwhile) -> bool:
        """Do it once; return whether this thread had a core for itself: else it only keeps others from theirs."""
        began, before = time.monotonic(), time.thread_time()
        meanwhile(lambda: not self._vector.done())
        return time.monotonic() - began < _SHARED * (time.thread_time() - before) + _SHARED_SECONDS

    def then(self, work: Callable[[Any], object]) -> bool:
        with self._mutex:
            if self._vector.done():
                return False
            self._work = work
            return True

    def make(self) -> None:
        """Embed, and go on with what is to be done then."""
        self.is_begun.set()
        try:
            vector = self._embed()
        except BaseException as error:  # noqa: BLE001 - it is raised to who waits
            self._vector.set_exception(error)
            return
        with self._mutex:
            self._vector.set_result(vector)
        if self._work is not None:
            self._work(vector)  # what it raises ends here: who waits does what was not done, and meets the same


@contextmanager
def begun(embed: Callable[[], Any], refuse_late: Callable[[], None]) -> Iterator[QueryVector]:
    """Begin to embed; yield what waits for the vector, and raises what ``embed`` and ``refuse_late`` raise.

    ``refuse_late`` raises where a call is not to wait any longer; ``embed`` raises no TimeoutError. What no thread has
    begun by the end of the block is never embedded.
    """
    asked = _Begun(embed, refuse_late)
    made = threads().submit(asked.make)
    asked.is_begun.wait(limits.SEMANTIC_BEGIN_SECONDS)  # or it would get the interpreter when this one lets go of it
    try:
        yield asked
    finally:
        made.cancel()
