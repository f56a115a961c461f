"""Group commit: what is queued, begun, answered, and what happens to callers when the engine breaks."""

from __future__ import annotations

import threading
import time

import pytest

from journal import limits
from journal.commit import GroupCommit
from journal.errors import DeadlineExceeded, MutationOutcomeUnknown, RateLimited, StoreUnavailable
from tests.journal.store.history import HERE


class Writer:
    """An engine that does nothing, and breaks where it is told."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.batches: list[int] = []
        self.breaks: dict[str, BaseException] = {}
        self.running = 0

    def _reach(self, name):
        if (error := self.breaks.pop(name, None)) is not None:
            raise error

    def acquire(self, deadline):
        self._reach("acquire")
        return self.gate.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))

    def release(self):
        self._reach("release")

    def run(self, commands):
        size = 0
        for command in commands:
            size += 1
            self._reach("run")
            command.decide(None)
            command.answer([])
        self.batches.append(size)


@pytest.fixture
def writer():
    return Writer()


@pytest.fixture
def group(writer):
    group = GroupCommit(writer)
    yield group
    writer.gate.set()
    group.close()


def nothing(_view):
    return []


def submit_many(group, count, decide=nothing):
    answers = []

    def run():
        try:
            answers.append(group.submit(HERE, decide, None))
        except Exception as error:  # noqa: BLE001 - whatever it was is the answer
            answers.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads, answers


def wait_for(group, count):
    """Wait until so many commands are queued."""
    while len(group._queue) < count:
        time.sleep(0.001)


def test_what_waits_together_shares_a_batch(group, writer):
    writer.gate.clear()
    threads, answers = submit_many(group, 20)
    wait_for(group, 20)
    writer.gate.set()
    for thread in threads:
        thread.join()
    assert answers == [[]] * 20
    assert writer.batches == [20]


def test_a_batch_is_bounded_in_commands(group, writer, monkeypatch):
    monkeypatch.setattr(limits, "BATCH_MAX_EVENTS", 8)
    monkeypatch.setattr(limits, "BATCH_MAX_MILLISECONDS", 60_000)
    writer.gate.clear()
    threads, _ = submit_many(group, 20)
    wait_for(group, 20)
    writer.gate.set()
    for thread in threads:
        thread.join()
    assert writer.batches == [8, 8, 4]


def test_a_batch_is_bounded_in_time(group, writer, monkeypatch):
    """The lock is given to another process after 20 ms, however many still wait here."""
    monkeypatch.setattr(limits, "BATCH_MAX_MILLISECONDS", 20)
    writer.gate.clear()
    threads, _ = submit_many(group, 6, lambda _: time.sleep(0.03))
    wait_for(group, 6)
    writer.gate.set()
    for thread in threads:
        thread.join()
    assert writer.batches == [1] * 6


def test_a_full_queue_is_refused(group, writer, monkeypatch):
    monkeypatch.setattr(limits, "QUEUE_MAX_COMMANDS", 3)
    writer.gate.clear()
    threads, answers = submit_many(group, 3)
    wait_for(group, 3)
    with pytest.raises(RateLimited):
        group.submit(HERE, nothing, None)
    writer.gate.set()
    for thread in threads:
        thread.join()
    assert answers == [[]] * 3


@pytest.mark.parametrize("error", [StoreUnavailable("no"), OSError("no"), ValueError("no")])
def test_a_lock_that_breaks_refuses_who_waits_and_nobody_after(group, writer, error):
    writer.breaks["acquire"] = error
    with pytest.raises(StoreUnavailable):
        group.submit(HERE, nothing, None)
    assert group.submit(HERE, nothing, None) == []


@pytest.mark.parametrize("error", [OSError("no"), KeyError("no"), SystemExit()])
def test_an_engine_that_breaks_leaves_the_outcome_open(group, writer, error):
    writer.breaks["run"] = error
    with pytest.raises(MutationOutcomeUnknown):
        group.submit(HERE, nothing, None)
    assert group.submit(HERE, nothing, None) == []


@pytest.mark.parametrize("error", [OSError("no"), SystemExit()])
def test_an_engine_that_breaks_before_anything_began_refuses_who_waits(group, writer, error):
    """Else the thread tries again without end, and whoever waits and the closing wait with it."""

    def run(_commands):
        raise error

    writer.run = run
    with pytest.raises(StoreUnavailable):
        group.submit(HERE, nothing, time.monotonic() + 60)
    del writer.run
    assert group.submit(HERE, nothing, None) == []


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit()])
def test_a_writer_thread_that_ends_hangs_nobody(group, writer, monkeypatch, error):
    def breaks():
        raise error

    monkeypatch.setattr(group, "_nearest_deadline", breaks)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            group.submit(HERE, nothing, time.monotonic() + 60)
    assert not group._thread.is_alive()


def test_a_lock_that_cannot_be_released_hangs_nobody(group, writer):
    writer.breaks["release"] = OSError("no")
    assert group.submit(HERE, nothing, None) == []
    assert group.submit(HERE, nothing, None) == []


def test_who_is_withdrawn_never_runs_however_late_the_lock_comes(group, writer):
    ran = []
    writer.gate.clear()
    with pytest.raises(DeadlineExceeded):
        group.submit(HERE, lambda _: ran.append(1), time.monotonic() + 0.02)
    threads, answers = submit_many(group, 1)
    writer.gate.set()
    threads[0].join()
    assert (ran, answers) == ([], [[]])


def test_one_that_ends_just_after_its_deadline_gets_its_answer(group):
    assert group.submit(HERE, lambda _: time.sleep(0.1), time.monotonic() + 0.05) == []


def test_closing_answers_what_is_queued_and_refuses_what_comes(writer):
    group = GroupCommit(writer)
    writer.gate.clear()
    threads, answers = submit_many(group, 4)
    wait_for(group, 4)
    closing = threading.Thread(target=group.close)
    closing.start()
    writer.gate.set()
    closing.join()
    for thread in threads:
        thread.join()
    assert answers == [[]] * 4
    with pytest.raises(StoreUnavailable):
        group.submit(HERE, nothing, None)


# --- a caller that leads --------------------------------------------------------------------------


def test_who_leads_writes_with_its_own_hands(group):
    threads = []
    group.submit(HERE, lambda _view: threads.append(threading.get_ident()), None, leading=True)
    group.submit(HERE, lambda _view: threads.append(threading.get_ident()), None)
    assert threads[0] == threading.get_ident() != threads[1]


def test_who_leads_takes_along_who_came_meanwhile(group, writer):
    """The others are queued while the leader decides; they stand in its batch, or in the next one of the thread."""
    others = [threading.Thread(target=group.submit, args=(HERE, nothing, None)) for _ in range(3)]

    def decide(_view):
        for other in others:
            other.start()
        while len(group._queue) < 3:
            time.sleep(0.001)

    group.submit(HERE, decide, None, leading=True)
    for other in others:
        other.join(5)
    assert sum(writer.batches) == 4
    assert writer.batches[0] >= 1


def test_nobody_leads_while_the_lock_is_elsewhere(group, writer):
    writer.gate.clear()
    with pytest.raises(DeadlineExceeded):
        group.submit(HERE, nothing, time.monotonic() + 0.05, leading=True)
    assert writer.batches == []


def test_a_decision_of_who_leads_must_not_commit(group):
    refused = []

    def decide(_view):
        with pytest.raises(StoreUnavailable):
            group.submit(HERE, nothing, None, leading=True)
        refused.append(True)

    group.submit(HERE, decide, None, leading=True)
    assert refused == [True]


def test_what_breaks_under_who_leads_is_its_answer(group, writer):
    writer.breaks["run"] = OSError()
    with pytest.raises(MutationOutcomeUnknown):
        group.submit(HERE, nothing, None, leading=True)
    writer.breaks["acquire"] = OSError()
    assert group.submit(HERE, nothing, None, leading=True) == []
    assert group.submit(HERE, nothing, None) == []


def test_a_batch_that_breaks_before_it_began_runs_a_leaders_command_once(group, writer):
    """Else its data key would be given back while something is sealed under it."""
    ran = []
    original, broken = writer.run, [True]

    def run(commands):
        if broken.pop() if broken else False:
            raise OSError("before the first command")
        original(commands)

    writer.run = run
    group.submit(HERE, lambda _view: ran.append(1), None, leading=True)
    group.submit(HERE, nothing, None)
    assert ran == [1]


def test_a_leaders_command_that_never_began_is_not_left_to_the_thread_as_well(group, writer):
    """The thread waits for the turn when the leader's batch breaks: it must not find what the leader queues again."""
    ran, other = [], threading.Thread(target=group.submit, args=(HERE, nothing, None))
    original, broken, turn = writer.run, [True], group._turn

    class SlowToGoOn:
        """The turn, of a leader that is held up just after it let go."""

        def acquire(self, **how):
            return turn.acquire(**how)

        def release(self):
            turn.release()
            time.sleep(0.1)

        def __enter__(self):
            turn.acquire()

        def __exit__(self, *_):
            turn.release()

    def run(commands):
        if broken.pop() if broken else False:
            other.start()
            while len(group._queue) < 2:
                time.sleep(0.001)
            time.sleep(0.1)  # the thread is at the turn by now
            raise OSError("before the first command")
        original(commands)

    def decide(_view):
        ran.append(1)
        time.sleep(0.3)

    writer.run, group._turn = run, SlowToGoOn()
    group.submit(HERE, decide, None, leading=True)
    other.join(5)
    group.submit(HERE, nothing, None)
    assert ran == [1]


def test_closing_waits_for_who_leads(group, writer):
    inside, goes_on = threading.Event(), threading.Event()

    def decide(_view):
        inside.set()
        assert goes_on.wait(10)

    leader = threading.Thread(target=group.submit, args=(HERE, decide, None), kwargs={"leading": True})
    leader.start()
    assert inside.wait(10)
    closing = threading.Thread(target=group.close)
    closing.start()
    closing.join(0.2)
    assert closing.is_alive()
    goes_on.set()
    closing.join(10)
    leader.join(10)
    assert writer.batches == [1]
