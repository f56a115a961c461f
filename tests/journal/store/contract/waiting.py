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

    def test_a_put_that_fails_aborts_the_whole_batch(self, engine, store, history):
        history.write(store, history.capture())
        begun, goes_on = threading.Event(), threading.Event()

        def slow(_view):
            begun.set()
            assert goes_on.wait(30)
            return [history.capture()]

        answers = []

        def run(decide):
            try:
                answers.append(store.commit(HERE, decide))
            except EngramError as error:
                answers.append(error)

        with engine.failing_put(after=1):
            first = threading.Thread(target=run, args=(slow,))
            first.start()
            assert begun.wait(30)
            others = [threading.Thread(target=run, args=(lambda _: [history.capture()],)) for _ in range(3)]
            for thread in others:
                thread.start()
            assert all(queued(thread) for thread in others)
            goes_on.set()
            for thread in [first, *others]:
                thread.join()
        failed = [answer for answer in answers if isinstance(answer, EngramError)]
        assert len(failed) >= 2, "the one that was put before it too"
        assert all(type(error) is StoreUnavailable for error in failed)
        written = [answer[0].header.cursor for answer in answers if isinstance(answer, list)]
        assert sorted(written) == list(range(2, 2 + len(written)))
        assert store.head(HERE).cursor == 1 + len(written)
        assert len(store.read(HERE, 0, 100)) == 1 + len(written)
        assert history.write(store, history.capture())[0].header.cursor == 2 + len(written)

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
