"""A service that opens behind the server's back."""

import threading
import time

import pytest

from journal.errors import Cancelled, DeadlineExceeded, JournalCorrupt, StoreUnavailable
from tests.tools.server.echo_server import EchoService
from tools.server.opening import OpeningService
from tools.server.service import CallContext, Remembered


class Listed:
    """What a host file says."""

    def purposes(self):
        return ("purpose:listed",)

    def listed_tools(self):
        return ("engram_memory_get",)

    def remembered(self, timeout_seconds):
        raise AssertionError("only the store knows")


def context(seconds: float = 20) -> CallContext:
    return CallContext(
        client_name=None,
        session_id="s",
        protocol_version="2025-11-25",
        deadline=time.monotonic() + seconds,
        cancelled=threading.Event(),
        progress=lambda _done, _total, _message: None,
    )


class Factory:
    """Makes an echo service when it is let, and counts."""

    def __init__(self, *outcomes):
        self.begun = threading.Event()
        self.let = threading.Event()
        self.made = 0
        self._outcomes = list(outcomes)

    def __call__(self):
        self.made += 1
        self.begun.set()
        assert self.let.wait(20)
        if self._outcomes and (outcome := self._outcomes.pop(0)):
            raise outcome
        return EchoService(listed=("engram_memory_search",))


def test_the_list_waits_for_nothing_and_sets_the_opening_going():
    factory = Factory()
    service = OpeningService(Listed(), factory)

    assert service.listed_tools() == ("engram_memory_get",)
    assert service.purposes() == ("purpose:listed",)
    assert factory.begun.wait(20)
    assert service.listed_tools() == ("engram_memory_get",)
    factory.let.set()
    service.call("engram_memory_get", {}, context())
    assert service.listed_tools() == ("engram_memory_search",)
    assert factory.made == 1
    service.close()


def test_nothing_opens_that_nobody_asked_for():
    factory = Factory()
    service = OpeningService(Listed(), factory)

    service.close()

    assert service.listed_tools() == ("engram_memory_get",)
    assert factory.made == 0


def test_a_call_opens_it_and_all_calls_share_one_opening():
    factory = Factory()
    service = OpeningService(Listed(), factory)
    answers = []
    callers = [
        threading.Thread(target=lambda: answers.append(service.call("engram_memory_get", {}, context()).ok))
        for _ in range(8)
    ]

    for caller in callers:
        caller.start()
    assert factory.begun.wait(20)
    factory.let.set()
    for caller in callers:
        caller.join(20)

    assert answers == [True] * 8
    assert factory.made == 1
    service.close()


@pytest.mark.parametrize(
    ("failure", "told"), [(RuntimeError("a text"), StoreUnavailable), (JournalCorrupt("detail"), JournalCorrupt)]
)
def test_a_failed_opening_is_told_and_tried_again(failure, told):
    factory = Factory(failure)
    factory.let.set()
    service = OpeningService(Listed(), factory)

    with pytest.raises(told):
        service.call("engram_memory_get", {}, context())
    assert service.listed_tools() == ("engram_memory_get",)
    assert service.call("engram_memory_get", {}, context()).ok
    service.close()


def test_a_call_waits_no_longer_than_its_deadline_or_its_client():
    factory = Factory()
    service = OpeningService(Listed(), factory)

    with pytest.raises(DeadlineExceeded):
        service.call("engram_memory_get", {}, context(seconds=0))
    given_up = context()
    given_up.cancelled.set()
    with pytest.raises(Cancelled):
        service.call("engram_memory_get", {}, given_up)

    factory.let.set()
    service.close()


def test_closing_waits_for_an_opening_that_began_and_closes_what_it_made(capfd):
    factory = Factory()
    service = OpeningService(Listed(), factory)
    service.listed_tools()
    assert factory.begun.wait(20)
    closer = threading.Thread(target=service.close)

    closer.start()
    factory.let.set()
    closer.join(20)

    assert not closer.is_alive()
    assert "closed\n" in capfd.readouterr().err


class Knowing(EchoService):
    """A service that knows something, and notes how long it was given for it."""

    def __init__(self):
        super().__init__()
        self.given = []

    def remembered(self, timeout_seconds):
        self.given.append(timeout_seconds)
        return Remembered("core", ())


def test_what_is_remembered_opens_the_service_and_shares_its_time():
    knowing = Knowing()
    service = OpeningService(Listed(), lambda: knowing)

    assert service.remembered(20) == Remembered("core", ())
    assert service.remembered(10) == Remembered("core", ())
    [first, second] = knowing.given
    assert 0 < first < 20
    assert 0 < second < 10
    service.close()


def test_a_service_that_is_not_open_in_time_has_nothing_to_tell_yet():
    factory = Factory()
    service = OpeningService(Listed(), factory)

    assert service.remembered(0.01) is None
    assert factory.begun.wait(20)
    factory.let.set()
    service.call("engram_memory_get", {}, context())
    assert factory.made == 1
    service.close()


def test_a_service_that_does_not_open_has_nothing_to_tell():
    factory = Factory(JournalCorrupt("detail"))
    factory.let.set()
    service = OpeningService(Listed(), factory)

    assert service.remembered(20) is None
    service.close()


def test_a_list_that_stands_in_the_store_waits_for_it():
    factory = Factory()
    factory.let.set()
    service = OpeningService(Listed(), factory, list_once_open=True)

    assert service.listed_tools() == ("engram_memory_search",)
    assert factory.made == 1
    service.close()


def test_such_a_list_is_none_while_the_store_cannot_be_opened():
    factory = Factory(JournalCorrupt("broken"), ValueError("of no class of ours"))
    factory.let.set()
    service = OpeningService(Listed(), factory, list_once_open=True)

    with pytest.raises(JournalCorrupt):
        service.listed_tools()
    with pytest.raises(StoreUnavailable):
        service.listed_tools()
    assert service.listed_tools() == ("engram_memory_search",), "a store that comes back is found"
    service.close()


def test_such_a_list_does_not_wait_for_ever(monkeypatch):
    monkeypatch.setattr("tools.server.opening.LISTING_WAIT_SECONDS", 0.01)
    factory = Factory()
    service = OpeningService(Listed(), factory, list_once_open=True)

    with pytest.raises(StoreUnavailable):
        service.listed_tools()
    factory.let.set()
    service.close()
    assert factory.made == 1
