"""Group commit: who prepares what is committed, and what comes of it where that fails, is late, or waits."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager, nullcontext

import pytest

from journal import patience
from journal.commit import GroupCommit
from journal.errors import DeadlineExceeded, StoreUnavailable
from tests.journal.store.history import HERE
from tests.journal.test_commit import Writer, nothing, submit_many, wait_for


@pytest.fixture
def writer():
    return Writer()


@pytest.fixture
def group(writer):
    group = GroupCommit(writer)
    yield group
    writer.gate.set()
    group.close()


@contextmanager
def somebody_at_the_lock(group, writer):
    """Have one command wait for the lock, which another process keeps."""
    writer.gate.clear()
    waiting = threading.Thread(target=group.submit, args=(HERE, nothing, None))
    waiting.start()
    wait_for(group, 1)
    yield
    writer.gate.set()
    waiting.join()


class Wish:
    """A command with something to prepare, and who did what of it."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.prepared_by: list[int] = []
        self.decided = 0
        self._error = error

    def prepare(self):
        self.prepared_by.append(threading.get_ident())
        if self._error is not None:
            raise self._error

    def decide(self, _view):
        assert self.prepared_by
        self.decided += 1
        return []

    def submit(self, group, deadline=None, *, leading=False):
        return group.submit(HERE, self.decide, deadline, leading=leading, prepare=self.prepare)


def test_whoever_writes_prepares_for_all_that_wait(group, writer, monkeypatch):
    monkeypatch.setattr("journal.commit._OTHERS_SECONDS", 60)
    wishes = [Wish() for _ in range(20)]
    with somebody_at_the_lock(group, writer):
        threads = [threading.Thread(target=wish.submit, args=(group,)) for wish in wishes]
        for thread in threads:
            thread.start()
        wait_for(group, 21)
    for thread in threads:
        thread.join()
    assert {number for wish in wishes for number in wish.prepared_by} == {group._thread.ident}
    assert [len(wish.prepared_by) for wish in wishes] == [1] * 20
    assert [wish.decided for wish in wishes] == [1] * 20


@pytest.mark.parametrize("error", [StoreUnavailable("no"), KeyError("no"), SystemExit()])
@pytest.mark.parametrize("is_first", [True, False])
def test_what_fails_to_be_prepared_never_begins_and_harms_nobody(group, writer, error, is_first):
    wish = Wish(error)
    with nullcontext() if is_first else somebody_at_the_lock(group, writer):
        with pytest.raises(type(error)):
            wish.submit(group)
        assert (wish.decided, len(group._queue)) == (0, 0 if is_first else 1)
    assert group.submit(HERE, nothing, None) == []


def test_who_comes_first_prepares_with_its_own_hands(group):
    wish = Wish()
    wish.submit(group)
    wish.submit(group)
    assert wish.prepared_by == 2 * [threading.get_ident()]


def test_who_waits_behind_a_lock_is_refused_without_it(group, writer):
    """A refusal is told, and a replay answered, though another process keeps the lock."""
    wish = Wish(StoreUnavailable("refused"))
    with somebody_at_the_lock(group, writer), pytest.raises(StoreUnavailable, match="refused"):
        wish.submit(group)
    assert (wish.decided, len(wish.prepared_by)) == (0, 1)


def test_who_leads_prepares_with_its_own_hands(group):
    wish = Wish()
    wish.submit(group, leading=True)
    assert wish.prepared_by == [threading.get_ident()]
    assert wish.decided == 1


def test_who_leads_leaves_what_is_not_prepared_to_the_thread(group, writer):
    wish = Wish()
    other = threading.Thread(target=wish.submit, args=(group,))

    def decide(_view):
        other.start()
        wait_for(group, 1)

    group.submit(HERE, decide, None, leading=True)
    other.join(5)
    assert (wish.decided, len(wish.prepared_by)) == (1, 1)


def test_what_is_withdrawn_is_prepared_in_vain_and_never_runs(group, writer):
    writer.gate.clear()
    wish = Wish()
    with pytest.raises(DeadlineExceeded):
        wish.submit(group, time.monotonic() + 0.02)
    threads, answers = submit_many(group, 1)
    writer.gate.set()
    threads[0].join()
    assert (wish.decided, answers) == (0, [[]])


def test_a_preparation_by_another_thread_must_not_commit(group, writer, monkeypatch):
    monkeypatch.setattr("journal.commit._OTHERS_SECONDS", 60)  # the thread does it
    with somebody_at_the_lock(group, writer), pytest.raises(StoreUnavailable, match="must not commit"):
        group.submit(HERE, nothing, None, prepare=lambda: group.submit(HERE, nothing, None))


def test_closing_waits_for_who_still_prepares(writer, monkeypatch):
    """Queued, and taken on by its own caller: it is answered, and closing waits for that."""
    monkeypatch.setattr("journal.commit._OTHERS_SECONDS", 0.0)
    group = GroupCommit(writer)
    group._alone = True  # somebody came before
    preparing, going_on = threading.Event(), threading.Event()
    answers = []

    def prepare():
        preparing.set()
        going_on.wait()

    caller = threading.Thread(target=lambda: answers.append(group.submit(HERE, nothing, None, prepare=prepare)))
    caller.start()
    preparing.wait()
    closing = threading.Thread(target=group.close)
    closing.start()
    going_on.set()
    closing.join(10)
    caller.join(10)
    assert answers == [[]]


class Needy(Wish):
    """A command that needs a lock to be prepared."""

    def __init__(self, lock) -> None:
        super().__init__()
        self._lock = lock

    def prepare(self):
        super().prepare()
        if not self._lock.acquire(timeout=patience.left(60)):
            raise patience.given_up("the lock")
        self._lock.release()


def test_whoever_writes_waits_for_nobody_and_the_caller_does(group, writer, monkeypatch):
    monkeypatch.setattr("journal.commit._OTHERS_SECONDS", 60)
    lock = threading.Lock()
    needy, plain = Needy(lock), Wish()
    with lock:
        with somebody_at_the_lock(group, writer):
            caller = threading.Thread(target=needy.submit, args=(group,))
            caller.start()
            wait_for(group, 2)
        plain.submit(group)
        while len(needy.prepared_by) < 2:
            time.sleep(0.001)
        assert (plain.decided, needy.decided) == (1, 0)
        assert group.submit(HERE, nothing, None) == []
        assert needy.decided == 0
    caller.join()
    assert needy.prepared_by == [group._thread.ident, caller.ident]
    assert needy.decided == 1


def test_a_preparation_that_was_given_back_ends_by_the_deadline(group, writer, monkeypatch):
    monkeypatch.setattr("journal.commit._OTHERS_SECONDS", 60)
    lock = threading.Lock()
    needy = Needy(lock)

    def answered():
        with patience.bounded(time.monotonic() + 0.2):
            return needy.submit(group, time.monotonic() + 0.2)

    with lock, somebody_at_the_lock(group, writer), pytest.raises(DeadlineExceeded):
        answered()
    assert needy.decided == 0
    assert group.submit(HERE, nothing, None) == []


def test_a_decision_waits_for_nobody(group):
    lock, refused = threading.Lock(), []

    def decide(_view):
        if not lock.acquire(timeout=patience.left(60)):
            refused.append(type(patience.given_up("the lock")))
        return []

    with lock:
        for leading in (False, True):
            group.submit(HERE, decide, None, leading=leading)
    assert refused == 2 * [patience.WouldWait]
