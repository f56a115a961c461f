"""What an engine gives the contract, and what all its classes share."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

import pytest

from journal.errors import (
    EngramError,
)
from journal.testing import ManualClock
from tests.journal.store.history import History

if TYPE_CHECKING:
    from journal.clock import Clock
    from journal.scope import Scope
    from journal.store.port import Store

SOON_SECONDS = 0.05


class Engine(Protocol):
    """One place where a journal is kept, and what the contract needs of it beyond the port."""

    opening: str
    """Statements that open the same place in another process, as ``store``."""

    def open(self, clock: Clock) -> Store:
        """Open the place in this process."""
        ...

    def out_of_reach(self) -> AbstractContextManager[None]:
        """Keep the write lock from everybody, as a stopped process would."""
        ...

    def failing_put(self, after: int) -> AbstractContextManager[None]:
        """Let writing fail once, inside the transaction, when so many events of it were put."""
        ...

    def failing_content(self, content: bytes) -> AbstractContextManager[None]:
        """Let writing fail whenever this content is put, by a fault of ours that no code stands for."""
        ...

    def failing_commit(self) -> AbstractContextManager[None]:
        """Let the next commit fail at its end, so that nobody knows how far it came."""
        ...

    def replace_frame(self, scope: Scope, cursor: int, frame: bytes | None) -> None:
        """Put other bytes, or none, where an event stands. The store is closed."""
        ...


class Contract:
    """What all contract classes share: an open store, a clock and a history to write."""

    @pytest.fixture
    def engine(self) -> Engine:
        raise NotImplementedError

    @pytest.fixture
    def clock(self):
        return ManualClock()

    @pytest.fixture
    def store(self, engine, clock):
        store = engine.open(clock)
        yield store
        store.close()

    @pytest.fixture
    def history(self):
        return History()


def in_threads(count, work):
    """Run ``work(n)`` in so many threads at once; return what each returned or raised."""
    answers: list[object] = [None] * count
    gate = threading.Barrier(count)

    def run(number):
        gate.wait()
        try:
            answers[number] = work(number)
        except Exception as error:  # noqa: BLE001 - whatever it was is the answer
            answers[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def refusal_of(store, scope, *drafts):
    """Return what the store refuses these drafts with; the journal must not have grown."""
    before = store.head(scope)
    with pytest.raises(EngramError) as refused:
        store.commit(scope, lambda _: list(drafts))
    assert store.head(scope) == before
    assert store.read(scope, before.cursor, 10) == []
    return refused.value


def queued(thread):
    """Whether a thread waits for its answer, as far as one can tell from outside: it lives, and has had its time."""
    thread.join(SOON_SECONDS)
    return thread.is_alive()
