"""Work for two threads is done once, by who comes first."""

from __future__ import annotations

import threading

import pytest

from projections.vector.handed import Handed


def noted(done):
    """Return work that notes who did it, and gives what it was given."""

    def work(given):
        done.append(threading.current_thread())
        return given

    return work


def test_who_asks_does_what_nobody_has_begun():
    done: list[threading.Thread] = []
    handed = Handed(noted(done))
    assert handed.result(7) == 7
    handed.run(7)
    assert done == [threading.current_thread()], "and nobody does it again"


def test_who_asks_takes_what_another_did():
    done: list[threading.Thread] = []
    handed = Handed(noted(done))
    aside = threading.Thread(target=handed.run, args=(7,))
    aside.start()
    aside.join()
    assert handed.result(7) == 7
    assert done == [aside]


def test_who_asks_waits_for_what_is_begun():
    begun, goes_on = threading.Event(), threading.Event()

    def work(given):
        begun.set()
        assert goes_on.wait(30)
        return given

    handed, found = Handed(work), []
    aside = threading.Thread(target=handed.run, args=(7,))
    aside.start()
    assert begun.wait(30)
    asking = threading.Thread(target=lambda: found.append(handed.result(7)))
    asking.start()
    asking.join(0.05)
    assert found == []
    goes_on.set()
    asking.join(30)
    aside.join(30)
    assert found == [7]


def test_what_it_raises_is_raised_to_who_asks():
    def work(_):
        raise ValueError("no")

    handed = Handed(work)
    handed.run(7)
    with pytest.raises(ValueError, match="no"):
        handed.result(7)
    with pytest.raises(ValueError, match="no"):
        Handed(work).result(7)
