"""A query's vector on its way: who waits for it, and what the thread that makes it does next."""

from __future__ import annotations

import threading
import time

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


def test_what_may_be_done_meanwhile_is_done_again_and_again():
    done, ends = [], threading.Event()

    def meanwhile(go_on):
        done.append(go_on())
        if len(done) == 5:
            ends.set()

    with begun(lambda: ends.wait(30) and VECTOR, refuse_late) as vector:
        assert vector(meanwhile) is VECTOR
    assert done[:5] == [True] * 5


def test_what_is_done_meanwhile_is_told_when_the_vector_is_there():
    ends, told = threading.Event(), []

    def meanwhile(go_on):
        told.append(go_on())
        ends.set()
        end = time.monotonic() + 30
        while go_on() and time.monotonic() < end:
            time.sleep(0.001)
        told.append(go_on())

    with begun(lambda: ends.wait(30) and VECTOR, refuse_late) as vector:
        assert vector(meanwhile) is VECTOR
    assert told[:2] == [True, False]


def test_who_has_no_core_for_himself_only_waits():
    """By the clock what is done meanwhile takes far longer than the processor works on it."""
    done, ends = [], threading.Event()

    def meanwhile(go_on):
        done.append(go_on())
        time.sleep(0.05)

    with begun(lambda: ends.wait(0.3) or VECTOR, refuse_late) as vector:
        assert vector(meanwhile) is VECTOR
    assert len(done) == 1


def test_nothing_is_done_meanwhile_for_long(monkeypatch):
    monkeypatch.setattr("journal.limits.SEMANTIC_READ_OVER_MAX_SECONDS", 0.0)
    done: list[object] = []
    ends = threading.Event()
    with begun(lambda: ends.wait(0.3) or VECTOR, refuse_late) as vector:
        assert vector(done.append) is VECTOR
    assert len(done) == 1


def test_who_waits_too_long_is_refused_whatever_is_done_meanwhile():
    goes_on = threading.Event()
    with begun(lambda: goes_on.wait(30), raises(DeadlineExceeded())) as vector:
        try:
            with pytest.raises(DeadlineExceeded):
                vector(lambda _: None)
        finally:
            goes_on.set()


def test_a_vector_that_is_there_is_not_waited_for():
    assert Ready(VECTOR)(raises(ValueError("nothing is to be done meanwhile"))) is VECTOR
