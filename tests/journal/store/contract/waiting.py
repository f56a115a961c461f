"""Deadlines and failures: what is queued, what has begun, what broke while it was written."""

from __future__ import annotations

import threading
import time

import pytest

from journal import limits
from journal.chain import EMPTY_HEAD
from journal.errors import (
    DeadlineExceeded,
    DigestConflict,
    EngramError,
    IllegalTransition,
    MutationOutcomeUnknown,
    StoreUnavailable,
)
from tests.journal.store.contract.engine import SOON_SECONDS, Contract, queued
from tests.journal.store.history import HERE


class Waiting(Contract):
    """Deadlines: what is queued can be withdrawn, what is begun is shielded."""

    def test_a_command_that_cannot_begin_in_time_is_withdrawn_for_good(self, engine, store, history):
        ran = threading.Event()

        def decide(_view):
            ran.set()
            return [history.capture()]

        with engine.out_of_reach():
            started = time.monotonic()
            with pytest.raises(DeadlineExceeded):
                store.commit(HERE, decide, deadline=time.monotonic() + SOON_SECONDS)
            assert time.monotonic() - started >= SOON_SECONDS
        history.write(store, history.capture())
        assert not ran.is_set()
        assert store.head(HERE).cursor == 1

    def test_a_deadline_that_has_passed_runs_nothing(self, store, history):
        with pytest.raises(DeadlineExceeded):
            store.commit(HERE, lambda _: [history.capture()], deadline=time.monotonic() - 1)
        assert store.head(HERE) == EMPTY_HEAD

    def test_one_without_a_deadline_waits_for_the_lock(self, engine, store, history):
        answers = []
        waiting = threading.Thread(target=lambda: answers.append(history.write(store, history.capture())))
        with engine.out_of_reach():
            waiting.start()
            with pytest.raises(DeadlineExceeded):
                store.commit(HERE, lambda _: [], deadline=time.monotonic() + SOON_SECONDS)
            assert answers == []
        waiting.join()
        assert [event.header.cursor for event in answers[0]] == [1]

    def test_one_that_has_begun_may_have_happened(self, store, history):
        goes_on = threading.Event()
        identity = history.identity()

        def decide(view):
            assert goes_on.wait(30)
            return [] if view.outcome(identity) is not None else [history.capture(identity)]

        with pytest.raises(MutationOutcomeUnknown):
            store.commit(HERE, decide, deadline=time.monotonic() + SOON_SECONDS)
        goes_on.set()
        assert store.commit(HERE, decide) == []  # the same identity gives the clear result
        with store.view(HERE) as view:
            assert view.outcome(identity).header.cursor == 1

    def test_one_queued_behind_a_slow_one_is_withdrawn(self, store, history):
        goes_on, begun = threading.Event(), threading.Event()

        def slow(_view):
            begun.set()
            assert goes_on.wait(30)
            return [history.capture()]

        first = threading.Thread(target=lambda: store.commit(HERE, slow))
        first.start()
        assert begun.wait(30)
        with pytest.raises(DeadlineExceeded):
            store.commit(HERE, lambda _: [history.capture()], deadline=time.monotonic() + SOON_SECONDS)
        goes_on.set()
        first.join()
        assert store.commit(HERE, lambda _: []) == []
        assert store.head(HERE).cursor == 1

    def test_closing_answers_who_waits(self, engine, clock, history):
        store = engine.open(clock)
        answers = []

        def wait():
            try:
                answers.append(store.commit(HERE, lambda _: [history.capture()]))
            except EngramError as error:
                answers.append(error)

        waiting = [threading.Thread(target=wait) for _ in range(4)]
        with engine.out_of_reach():
            for thread in waiting:
                thread.start()
            with pytest.raises(DeadlineExceeded):
                store.commit(HERE, lambda _: [], deadline=time.monotonic() + SOON_SECONDS)
            store.close()
            for thread in waiting:
                thread.join()
        assert len(answers) == 4
        assert all(isinstance(answer, StoreUnavailable) for answer in answers)


class Failing(Contract):
    """What fails while it is written."""

    @pytest.fixture(autouse=True)
    def _long_batches(self, monkeypatch):
        """Let who waits for a slow decision share its batch."""
        monkeypatch.setattr(limits, "BATCH_MAX_MILLISECONDS", 60_000)

    def together(self, store, decisions):
        """Commit decisions in one batch, and return their answers in the same order."""
        begun, goes_on = threading.Event(), threading.Event()
        answers: dict[int, object] = {}

        def slow(view):
            begun.set()
            assert goes_on.wait(30)
            return decisions[0](view)

        def run(number, decide):
            try:
                answers[number] = store.commit(HERE, decide)
            except Exception as error:  # noqa: BLE001 - whatever it was is the answer
                answers[number] = error

        threads = [
            threading.Thread(target=run, args=(number, slow if number == 0 else decide))
            for number, decide in enumerate(decisions)
        ]
        threads[0].start()
        assert begun.wait(30)
        for thread in threads[1:]:
            thread.start()
        assert all(queued(thread) for thread in threads[1:])
        goes_on.set()
        for thread in threads:
            thread.join()
        return [answers[number] for number in range(len(decisions))]

    def check_written(self, store, answers):
        """Check that what was answered with an event is there, and nothing else."""
        written = [answer[0].header.cursor for answer in answers if isinstance(answer, list)]
        assert sorted(written) == list(range(2, 2 + len(written)))
        assert store.head(HERE).cursor == 1 + len(written)
        assert len(store.read(HERE, 0, 100)) == 1 + len(written)

    def test_a_put_that_fails_once_costs_nobody_anything(self, engine, store, history):
        history.write(store, history.capture())
        with engine.failing_put(after=1):
            answers = self.together(store, 4 * [lambda _: [history.capture()]])
        assert all(isinstance(answer, list) for answer in answers)
        self.check_written(store, answers)
        assert history.write(store, history.capture())[0].header.cursor == 6

    @pytest.mark.parametrize("at", [0, 2, 3])
    @pytest.mark.parametrize("rounds", [1, 2])
    def test_a_command_over_which_writing_breaks_is_refused_alone(self, engine, store, history, at, rounds):
        """And again when all are tried together anew, so that those beside it never wait for it."""
        history.write(store, history.capture())
        doomed = history.capture(content=b"doomed")
        answers = []
        with engine.failing_content(b"doomed"):
            for _ in range(rounds):
                decisions = 4 * [lambda _: [history.capture()]]
                decisions[at] = lambda _: [history.capture(), doomed]
                answers += self.together(store, decisions)
        refused = [answer for answer in answers if not isinstance(answer, list)]
        assert [type(answer) for answer in refused] == rounds * [StoreUnavailable]
        assert [answer is refused[0] for answer in answers[:4]].index(True) == at
        self.check_written(store, answers)
        with store.view(HERE) as view:
            assert view.outcome(doomed.event_id) is None
            assert view.subject(doomed.subject) is None

    def test_refusals_beside_a_command_that_breaks_stay_what_they_are(self, engine, store, history):
        history.write(store, history.capture())
        doomed = history.capture(content=b"doomed")
        refusals = [IllegalTransition("no"), KeyError("ours")]

        def refuse(error):
            raise error

        with engine.failing_content(b"doomed"):
            answers = self.together(
                store,
                [
                    lambda _: [history.capture()],
                    lambda _: refuse(refusals[0]),
                    lambda _: [doomed],
                    lambda _: refuse(refusals[1]),
                    lambda _: [history.capture()],
                ],
            )
        assert [answers[1], answers[3]] == refusals
        assert type(answers[2]) is StoreUnavailable
        self.check_written(store, answers)

    def test_a_commit_that_fails_leaves_its_outcome_open_and_the_store_sound(self, engine, store, history):
        history.write(store, history.capture())
        identity = history.identity()

        def decide(view):
            return [] if view.outcome(identity) is not None else [history.capture(identity)]

        with engine.failing_commit(), pytest.raises(MutationOutcomeUnknown):
            store.commit(HERE, decide)
        store.commit(HERE, decide)  # the same identity gives the clear result
        with store.view(HERE) as view:
            assert view.outcome(identity).header.cursor == 2
        assert [event.header.cursor for event in store.read(HERE, 0, 10)] == [1, 2]

    def test_a_refusal_that_rests_on_a_failed_commit_is_no_refusal(self, engine, store, history):
        """Two in one batch: the second was refused for what the first wrote, which then was not written."""
        begun, goes_on = threading.Event(), threading.Event()
        identity = history.identity()
        answers = {}

        def first(_view):
            begun.set()
            assert goes_on.wait(30)
            return [history.capture(identity)]

        def second(view):
            if view.outcome(identity) is not None:
                raise DigestConflict
            return []

        def run(name, decide):
            try:
                answers[name] = store.commit(HERE, decide)
            except EngramError as error:
                answers[name] = error

        with engine.failing_commit():
            one = threading.Thread(target=run, args=("first", first))
            one.start()
            assert begun.wait(30)
            two = threading.Thread(target=run, args=("second", second))
            two.start()
            assert queued(two)
            goes_on.set()
            one.join()
            two.join()
        assert isinstance(answers["first"], MutationOutcomeUnknown)
        assert not isinstance(answers["second"], DigestConflict)
