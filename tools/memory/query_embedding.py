"""A query that is embedded on a thread aside while its words are looked up, and the wait for its vector."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any

from journal import limits
from projections.vector.threads import threads


@contextmanager
def begun(embed: Callable[[], Any], refuse_late: Callable[[], None]) -> Iterator[Callable[[], Any]]:
    """Begin to embed; yield what waits for the vector, and raises what ``embed`` and ``refuse_late`` raise.

    ``refuse_late`` raises where a call is not to wait any longer; ``embed`` raises no TimeoutError. What no thread has
    begun by the end of the block is never embedded.
    """
    is_begun = threading.Event()

    def work() -> Any:
        is_begun.set()
        return embed()

    asked = threads().submit(work)
    is_begun.wait(limits.SEMANTIC_BEGIN_SECONDS)  # or it would not get the interpreter before this one lets go of it
    try:
        yield partial(_waited_for, asked, refuse_late)
    finally:
        asked.cancel()


def _waited_for(asked: Future[Any], refuse_late: Callable[[], None]) -> Any:
    while True:
        try:
            return asked.result(limits.SEMANTIC_LOOK_SECONDS)
        except TimeoutError:
            refuse_late()
