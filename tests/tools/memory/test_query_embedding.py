"""A query's vector on its way: who waits for it, and what the thread that makes it does next."""

from __future__ import annotations

import threading

import pytest

from journal.errors import DeadlineExceeded, RankingUnavailable
from tools.memory.query_embedding import Ready, begun

VECTOR = object()


def refuse_late():
    """Wait as long as it takes."""


def raises(error):
    """Return what raises it."""

    def raised(*_):
        raise error

    return raised


def test_the_thread_that_embeds_goes_on_with_the_vector():
    goes_on = threading.Event()
    done: list[tuple[object, threading.Thread]] = []

    def embed():
        assert goes_on.wait(30)
        return VECTOR

    def work(vector):
        done.append((vector, threading.current_thread()))
        worked.set()

    worked = threading.Event()
    with begun(embed, refuse_late) as vector:
        assert vector.then(work)
        goes_on.set()
        assert vector() is VECTOR
    assert worked.wait(30)
    ((given, thread),) = done
    assert given is VECTOR
    assert thread is not threading.current_thread()


def test_what_is_there_already_is_gone_on_with_by_nobody():
    done: list[object] = []
    with begun(lambda: VECTOR, refuse_late) as vector:
        assert vector() is VECTOR
        assert not vector.then(done.append)
    assert not Ready(VECTOR).then(done.append)
    assert Ready(VECTOR)() is VECTOR
    assert done == []


def test_work_that_fails_is_nobodys_matter():
    goes_on = threading.Event()
    with begun(lambda: goes_on.wait(30) and VECTOR, refuse_late) as vector:
        assert vector.then(raises(ValueError("no")))
        goes_on.set()
        assert vector() is VECTOR
    with begun(lambda: VECTOR, refuse_late) as vector:
        assert vector() is VECTOR, "the threads go on"


def test_without_a_vector_nothing_is_gone_on_with():
    goes_on = threading.Event()
    done: list[object] = []

    def embed():
        assert goes_on.wait(30)
        raise RankingUnavailable("no answer")

    with begun(embed, refuse_late) as vector:
        assert vector.then(done.append)
        goes_on.set()
        for _ in range(2):
            with pytest.raises(RankingUnavailable):
                vector()
    assert done == []


def test_who_waits_too_long_is_refused(monkeypatch):
    monkeypatch.setattr("journal.limits.SEMANTIC_LOOK_SECONDS", 0.01)
    goes_on = threading.Event()
    with begun(lambda: goes_on.wait(30), raises(DeadlineExceeded())) as vector:
        try:
            with pytest.raises(DeadlineExceeded):
                vector()
        finally:
            goes_on.set()
