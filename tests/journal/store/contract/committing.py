"""``commit``: order, atomicity, refusals, and what is never written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from journal.chain import EMPTY_HEAD
from journal.errors import (
    AlreadyTerminal,
    DigestConflict,
    EngramError,
    JournalCorrupt,
    RegistryVersionUnavailable,
    StoreUnavailable,
)
from journal.events import WRITTEN, EventType
from journal.frames import GENESIS, decode_frame, frame_hash
from journal.lifecycle import Operation, State
from journal.store.port import Part
from tests.journal.store.contract.engine import Contract, in_threads, refusal_of
from tests.journal.store.history import HERE, named


class Committing(Contract):
    """``commit``: order, atomicity, refusals."""

    def test_an_empty_journal_has_an_empty_head(self, store):
        assert store.head(HERE) == EMPTY_HEAD
        assert store.read(HERE, 0, 10) == []
        assert store.scopes() == []
        assert store.body(HERE, 1, Part.CONTENT) is None

    def test_cursors_are_dense_from_one_and_chained(self, store, history):
        events = [event for _ in range(5) for event in history.write(store, history.capture())]
        assert [event.header.cursor for event in events] == [1, 2, 3, 4, 5]
        assert [event.header.prev for event in events] == [GENESIS, *(frame_hash(event.frame) for event in events[:-1])]
        assert store.read(HERE, 0, 100) == events
        head = store.head(HERE)
        assert (head.cursor, head.hash) == (5, frame_hash(events[-1].frame))
        assert head.recorded_at == events[-1].header.recorded_at

    def test_what_was_given_is_what_stands(self, store, history):
        draft = history.capture(content=b"\x00\xff content")
        (event,) = history.write(store, draft)
        for name in (
            "event_id",
            "actor",
            "subject",
            "record_id",
            "related",
            "from_state",
            "to_state",
            "key_id",
            "intent",
        ):
            assert getattr(event.header, name) == getattr(draft, name)
        assert event.header.guards == draft.guards
        assert (event.header.scope, event.header.type) == (HERE, EventType.CAPTURE)
        assert store.body(HERE, 1, Part.CONTENT) == b"\x00\xff content"
        assert store.body(HERE, 1, Part.LEDGER) == b"sealed ledger"
        assert decode_frame(event.frame) == event.header

    def test_an_event_without_a_part_has_none(self, store, history):
        history.write(store, replace(history.control(EventType.ADJUDICATION), ledger=None))
        assert store.body(HERE, 1, Part.CONTENT) is None
        assert store.body(HERE, 1, Part.LEDGER) is None
        assert store.read(HERE, 0, 1)[0].header.ledger_digest is None

    def test_a_large_part_comes_back_whole(self, store, history):
        content = bytes(range(256)) * 8_192
        history.write(store, history.capture(content=content))
        assert store.body(HERE, 1, Part.CONTENT) == content

    def test_several_drafts_of_one_decision_stand_together(self, store, history):
        events = history.write(store, history.capture(), history.request(named("operation", 1)), history.capture())
        assert [event.header.cursor for event in events] == [1, 2, 3]

    def test_a_decision_is_all_or_nothing(self, store, history):
        withdrawn = history.bring(store, State.WITHDRAWN)
        illegal = history.operation(Operation.ACCEPT, withdrawn, State.WITHDRAWN)
        assert isinstance(refusal_of(store, HERE, history.capture(), illegal, history.capture()), AlreadyTerminal)
        with store.view(HERE) as view:
            assert view.pending_candidates() == []

    def test_no_draft_is_no_event(self, store):
        assert store.commit(HERE, lambda _: []) == []
        assert store.head(HERE) == EMPTY_HEAD

    def test_a_refusal_reaches_its_caller_and_grows_nothing(self, store, history):
        history.write(store, history.capture())
        refusal = DigestConflict("told to the log")

        def decide(view):
            assert view.head.cursor == 1
            raise refusal

        with pytest.raises(DigestConflict) as refused:
            store.commit(HERE, decide)
        assert refused.value is refusal
        assert store.head(HERE).cursor == 1

    def test_a_decision_that_breaks_is_its_callers_answer_alone(self, store, history):
        def broken(_view):
            raise ZeroDivisionError

        def work(number):
            return store.commit(HERE, broken if number == 3 else lambda _: [history.capture()])

        answers = in_threads(8, work)
        assert isinstance(answers[3], ZeroDivisionError)
        assert sorted(answer[0].header.cursor for answer in answers if isinstance(answer, list)) == list(range(1, 8))

    def test_a_decision_sees_the_head_under_the_lock(self, store, history):
        """The view of a decision is what stands when its events are written: nobody comes in between."""
        seen = []

        def decide(view):
            seen.append(view.head)
            return [history.capture()]

        answers = in_threads(16, lambda _: store.commit(HERE, decide))
        assert [head.cursor for head in seen] == list(range(16))
        assert sorted(answer[0].header.cursor for answer in answers) == list(range(1, 17))
        chain = store.read(HERE, 0, 16)
        assert [head.hash for head in seen] == [event.header.prev for event in chain]

    def test_thirty_two_commands_with_one_identity_make_one_event(self, store, history):
        identity = history.identity()

        def decide(view):
            return [] if view.outcome(identity) is not None else [history.capture(identity)]

        answers = in_threads(32, lambda _: store.commit(HERE, decide))
        assert sorted(len(answer) for answer in answers) == [0] * 31 + [1]
        assert store.head(HERE).cursor == 1
        with store.view(HERE) as view:
            assert view.outcome(identity).header.cursor == 1

    def test_an_identity_is_never_used_twice(self, store, history):
        draft = history.capture()
        history.write(store, draft)
        assert isinstance(refusal_of(store, HERE, draft), JournalCorrupt)
        twin = replace(history.control(EventType.ADJUDICATION), event_id=draft.event_id)
        assert isinstance(refusal_of(store, HERE, twin), JournalCorrupt)
        fresh = history.capture()
        assert isinstance(refusal_of(store, HERE, fresh, replace(twin, event_id=fresh.event_id)), JournalCorrupt)

    def test_two_events_about_one_subject_are_two_decisions(self, store, history):
        candidate_id = history.bring(store, State.PENDING)
        accept = history.operation(Operation.ACCEPT, candidate_id, State.PENDING)
        withdraw = history.operation(Operation.WITHDRAW, candidate_id, State.PENDING)
        assert isinstance(refusal_of(store, HERE, accept, withdraw), JournalCorrupt)

    def test_recorded_at_never_decreases(self, store, history, clock):
        history.write(store, history.capture())
        noon = clock.now()
        clock.advance(seconds=-3_600)
        (early,) = history.write(store, history.capture())
        assert early.header.recorded_at == noon
        clock.advance(seconds=7_200)
        (late,) = history.write(store, history.capture())
        assert late.header.recorded_at == noon + 3_600_000
        assert store.head(HERE).recorded_at == late.header.recorded_at

    def test_a_clock_that_refuses_stops_the_commit(self, store, history, clock, monkeypatch):
        def jumped():
            raise StoreUnavailable("the wall clock jumped")

        monkeypatch.setattr(clock, "now", jumped)
        assert isinstance(refusal_of(store, HERE, history.capture()), StoreUnavailable)

    def test_the_slot_generation_is_mirrored_and_never_falls(self, store, history):
        for generation, expected in ((5, 5), (3, 5), (9, 9), (0, 9)):
            history.write(store, replace(history.capture(), slot_generation=generation))
            assert store.head(HERE).slot_generation == expected

    def test_what_was_committed_survives_closing(self, engine, clock, history):
        store = engine.open(clock)
        events = history.write(store, history.capture(), history.capture())
        head = store.head(HERE)
        store.close()
        store = engine.open(clock)
        assert store.read(HERE, 0, 10) == events
        assert store.head(HERE) == head
        assert store.body(HERE, 2, Part.CONTENT) == b"sealed content"
        store.close()

    def test_a_closed_store_refuses_everything(self, engine, clock, history):
        store = engine.open(clock)
        store.close()
        store.close()
        for call in (
            lambda: store.commit(HERE, lambda _: [history.capture()]),
            lambda: store.head(HERE),
            lambda: store.read(HERE, 0, 1),
            store.scopes,
        ):
            with pytest.raises(StoreUnavailable):
                call()

    def test_a_decision_must_not_commit(self, store, history):
        def decide(_view):
            return [event for event in store.commit(HERE, lambda _: [history.capture()]) if event is None]

        with pytest.raises(StoreUnavailable):
            store.commit(HERE, decide)
        assert store.head(HERE) == EMPTY_HEAD


class Shaping(Contract):
    """What could not be read again is never written."""

    @pytest.mark.parametrize("kind", [kind for kind in EventType if kind not in WRITTEN])
    def test_a_reserved_type_is_refused_by_name(self, store, history, kind):
        refused = refusal_of(store, HERE, history.control(kind))
        assert isinstance(refused, RegistryVersionUnavailable)
        assert kind.label in refused.detail

    @pytest.mark.parametrize("number", [0, 13, 31, 49, 63, 76, 96, 255, 10_000])
    def test_an_unknown_type_is_refused_by_number(self, store, history, number):
        refused = refusal_of(store, HERE, replace(history.control(EventType.ADJUDICATION), type=number))
        assert isinstance(refused, RegistryVersionUnavailable)
        assert str(number) in refused.detail

    @pytest.mark.parametrize(
        "amiss",
        [
            {"subject": None},
            {"subject": "confirmation_of_something"},
            {"content": None},
            {"key_id": None},
            {"slot": None},
            {"event_id": b"short"},
            {"intent": b"short"},
            {"guards": (bytes(32), bytes(31))},
            {"key_id": bytes(17)},
            {"slot": -1},
            {"slot": 2**64},
            {"subject": "candidate_" + "x" * 600},
            {"related": ""},
            {"record_id": "mem_too_early"},
            {"to_state": State.ACCEPTED_CURRENT},
            {"from_state": State.PENDING},
        ],
    )
    def test_a_capture_that_lacks_something_is_refused(self, store, history, amiss):
        assert isinstance(refusal_of(store, HERE, replace(history.capture(), **amiss)), EngramError)
        history.write(store, history.capture())  # and the store goes on

    @pytest.mark.parametrize("amiss", [{"guards": ()}, {"subject": "candidate_x"}, {"content": None}, {"to_state": 2}])
    def test_a_request_that_lacks_something_is_refused(self, store, history, amiss):
        assert isinstance(refusal_of(store, HERE, replace(history.request(named("a", 1)), **amiss)), JournalCorrupt)

    def test_an_accept_without_a_record_id_is_refused(self, store, history):
        candidate_id = history.bring(store, State.PENDING)
        accept = history.operation(Operation.ACCEPT, candidate_id, State.PENDING)
        assert isinstance(refusal_of(store, HERE, replace(accept, record_id=None)), JournalCorrupt)

    def test_a_draft_that_cannot_be_encoded_harms_nobody_else(self, store, history):
        """A lone surrogate has no UTF-8: it fails where the frame is made, inside the transaction."""
        unwritable = replace(history.capture(), related="\ud800")
        with pytest.raises(StoreUnavailable):
            store.commit(HERE, lambda _: [unwritable])
        assert history.write(store, history.capture())[0].header.cursor == 1

    def test_a_name_of_any_length_can_be_asked_for(self, store, history):
        history.write(store, history.capture())
        with store.view(HERE) as view:
            for name in ("", "x" * 100_000, "\N{HANGUL SYLLABLE GAG}" * 3_000):
                assert view.subject(name) is None
                assert view.candidate_of(name) is None


class Batching(Contract):
    """Many at once."""

    def test_more_commands_than_a_batch_holds_are_all_written_once(self, store, history):
        def work(number):
            return [
                store.commit(HERE, lambda _, n=n: [history.capture(named("mine", 100 * number + n))])[0]
                for n in range(20)
            ]

        answers = in_threads(32, work)
        cursors = sorted(event.header.cursor for answer in answers for event in answer)
        assert cursors == list(range(1, 641))
        assert [event.header.cursor for event in store.read(HERE, 0, 1_000)] == cursors

    def test_a_decision_of_many_events_is_one_batch(self, store, history):
        events = store.commit(HERE, lambda _: [history.capture() for _ in range(600)])
        assert [event.header.cursor for event in events] == list(range(1, 601))
        assert store.head(HERE).cursor == 600
