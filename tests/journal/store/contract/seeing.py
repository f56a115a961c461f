"""``view``: what the indexes say at one head, and that scopes know nothing of each other."""

from __future__ import annotations

import pytest

from journal.errors import (
    AlreadyTerminal,
    JournalCorrupt,
)
from journal.events import EventType, RequestState
from journal.frames import GENESIS
from journal.lifecycle import Operation, State
from journal.store.port import Part
from tests.journal.store.contract.engine import Contract, in_threads
from tests.journal.store.history import HERE, THERE, History, named, record_of


class Isolating(Contract):
    """Scopes know nothing of each other."""

    def test_each_scope_has_its_own_order(self, store):
        here, there = History(HERE), History(THERE)
        for _ in range(3):
            here.write(store, here.capture())
        (event,) = there.write(store, there.capture())
        assert event.header.cursor == 1
        assert event.header.prev == GENESIS
        assert [found.header.scope for found in store.read(HERE, 0, 10)] == [HERE] * 3
        assert [found.header.scope for found in store.read(THERE, 0, 10)] == [THERE]
        assert store.scopes() == [HERE, THERE]

    def test_the_same_identity_and_subject_in_two_scopes_are_two(self, store):
        here, there = History(HERE), History(THERE)
        identity = here.identity()
        here.write(store, here.capture(identity))
        there.write(store, there.capture(identity))
        candidate_id = str(here.capture(identity).subject)
        here.write(store, here.operation(Operation.WITHDRAW, candidate_id, State.PENDING))
        with store.view(HERE) as view_here, store.view(THERE) as view_there:
            assert view_here.subject(candidate_id).state == State.WITHDRAWN
            assert view_there.subject(candidate_id).state == State.PENDING
            assert view_here.pending_candidates() == []
            assert view_there.pending_candidates() == [candidate_id]
            assert len(view_here.pending_destructions()) == 1
            assert view_there.pending_destructions() == []

    def test_a_view_shows_its_own_scope_alone(self, store):
        here, there = History(HERE), History(THERE)
        candidate_id = here.bring(store, State.TOMBSTONED)
        (opened,) = here.write(store, here.request(named("operation", 1)))
        (capture,) = store.read(HERE, 0, 1)
        there.write(store, there.capture())
        with store.view(THERE) as view:
            assert view.outcome(capture.header.event_id) is None
            assert view.subject(candidate_id) is None
            assert view.candidate_of(record_of(candidate_id)) is None
            assert not view.tombstoned(capture.header.guards[0])
            assert view.open_request(named("operation", 1)) is None
            assert view.subject(opened.header.subject) is None
            assert view.open_requests() == []
            assert view.pending_erasures() == []
            assert view.slot(capture.header.key_id) is None
            assert len(view.subjects()) == 1

    def test_one_scopes_fault_is_not_told_to_another(self, engine, clock):
        here, there = History(HERE), History(THERE)
        store = engine.open(clock)
        for _ in range(2):
            here.write(store, here.capture())
            there.write(store, there.capture())
        store.close()
        engine.replace_frame(HERE, 1, b"\x00 not a frame")
        store = engine.open(clock)
        with pytest.raises(JournalCorrupt):
            store.read(HERE, 0, 10)
        assert len(store.read(THERE, 0, 10)) == 2
        there.write(store, there.capture())
        store.close()


class Seeing(Contract):
    """``view``: what the indexes say, at one head."""

    def test_a_view_is_a_snapshot(self, store, history):
        candidate_id = history.bring(store, State.PENDING)
        with store.view(HERE) as before:
            assert before.head.cursor == 1
            history.write(store, history.operation(Operation.ACCEPT, candidate_id, State.PENDING))
            assert before.head.cursor == 1
            assert before.subject(candidate_id).state == State.PENDING
            assert before.event(2) is None
        with store.view(HERE) as after:
            assert after.subject(candidate_id).state == State.ACCEPTED_CURRENT

    def test_a_candidates_life_shows_in_its_row(self, store, history):
        (capture,) = history.write(store, history.capture())
        candidate_id = capture.header.subject
        with store.view(HERE) as view:
            row = view.subject(candidate_id)
            assert (row.state, row.born, row.decided, row.changed) == (State.PENDING, 1, 0, 1)
            assert (row.key_id, row.record_id) == (capture.header.key_id, None)
            assert view.slot(capture.header.key_id) is not None
            assert view.pending_candidates() == [candidate_id]
            assert view.candidate_of(record_of(candidate_id)) is None
        history.write(store, history.operation(Operation.ACCEPT, candidate_id, State.PENDING))
        history.write(store, history.operation(Operation.DISPUTE, candidate_id, State.ACCEPTED_CURRENT))
        with store.view(HERE) as view:
            row = view.subject(candidate_id)
            assert (row.state, row.born, row.decided, row.changed) == (State.ACCEPTED_DISPUTED, 1, 2, 3)
            assert row.record_id == record_of(candidate_id)
            assert view.candidate_of(row.record_id) == candidate_id
            assert view.pending_candidates() == []
            assert view.subjects() == [(candidate_id, row)]
            assert view.subjects(candidate_id[:-1]) == [(candidate_id, row)]
            assert view.subjects("candidates_") == view.subjects("grant_") == []

    def test_a_rejected_candidate_never_has_a_record(self, store, history):
        candidate_id = history.bring(store, State.REJECTED)
        with store.view(HERE) as view:
            assert view.subject(candidate_id).record_id is None
            assert view.candidate_of(record_of(candidate_id)) is None

    @pytest.mark.parametrize(
        "state", [State.REJECTED, State.WITHDRAWN, State.TOMBSTONED], ids=lambda state: state.label
    )
    def test_a_key_waits_for_its_destruction_until_it_is_done(self, store, history, state):
        candidate_id = history.bring(store, state)
        last = store.head(HERE).cursor
        with store.view(HERE) as view:
            key_id = view.subject(candidate_id).key_id
            assert view.pending_destructions() == [(last, key_id)]
        history.write(store, history.control(EventType.ERASURE_DONE, related=str(last - 1)))
        with store.view(HERE) as view:
            assert view.pending_destructions() == [(last, key_id)]
        history.write(store, history.control(EventType.ERASURE_DONE, related=str(last)))
        with store.view(HERE) as view:
            assert view.pending_destructions() == []
            assert view.slot(key_id) is not None  # where it was is not forgotten: an older slot file may come back

    def test_a_forgotten_record_leaves_its_guards_and_an_erasure(self, store, history):
        candidate_id = history.bring(store, State.ACCEPTED_CURRENT)
        with store.view(HERE) as view:
            guards = view.event(view.subject(candidate_id).born).header.guards
            assert not any(view.tombstoned(guard) for guard in guards)
        (gone,) = history.write(store, history.operation(Operation.TOMBSTONE, candidate_id, State.ACCEPTED_CURRENT))
        with store.view(HERE) as view:
            assert all(view.tombstoned(guard) for guard in guards)
            assert not view.tombstoned(named("other", 1))
            assert view.pending_erasures() == [(gone.header.cursor, candidate_id)]
        history.write(store, history.control(EventType.ERASURE_DONE, subject=candidate_id))
        with store.view(HERE) as view:
            assert view.pending_erasures() == []
            assert all(view.tombstoned(guard) for guard in guards)

    def test_a_request_is_found_while_it_is_open(self, store, history):
        one, two = named("operation", 1), named("operation", 2)
        (first,) = history.write(store, history.request(one))
        (second,) = history.write(store, history.request(two))
        with store.view(HERE) as view:
            assert view.open_request(one) == first.header.subject
            assert view.open_requests() == [first.header.subject, second.header.subject]
            assert view.subject(first.header.subject).state == RequestState.OPEN
            assert view.subject(first.header.subject).related == "mem_target"
        (denied,) = history.write(store, history.decision(EventType.CONFIRMATION_DENIED, first.header.subject))
        with store.view(HERE) as view:
            assert view.open_request(one) is None
            assert view.open_requests() == [second.header.subject]
            row = view.subject(first.header.subject)
            assert (row.state, row.decided) == (RequestState.DENIED, denied.header.cursor)
            assert view.pending_destructions() == [(denied.header.cursor, row.key_id)]

    def test_the_same_operation_can_be_requested_again(self, store, history):
        operation = named("operation", 1)
        (first,) = history.write(store, history.request(operation))
        history.write(store, history.decision(EventType.CONFIRMATION_EXPIRED, first.header.subject))
        (second,) = history.write(store, history.request(operation))
        with store.view(HERE) as view:
            assert view.open_request(operation) == second.header.subject

    def test_lists_are_in_the_order_of_the_journal(self, store, history):
        candidates = [str(history.write(store, history.capture())[0].header.subject) for _ in range(12)]
        history.write(store, history.operation(Operation.ACCEPT, candidates[4], State.PENDING))
        with store.view(HERE) as view:
            assert view.pending_candidates() == candidates[:4] + candidates[5:]

    def test_an_event_is_found_by_cursor_and_by_identity(self, store, history):
        events = [history.write(store, history.capture())[0] for _ in range(3)]
        with store.view(HERE) as view:
            assert [view.event(cursor) for cursor in (1, 2, 3)] == events
            assert [view.outcome(event.header.event_id) for event in events] == events
            assert view.event(0) is None
            assert view.event(4) is None
            assert view.outcome(named("never", 1)) is None
            assert view.body(2, Part.CONTENT) == b"sealed content"
            assert view.body(4, Part.CONTENT) is None

    def test_a_decision_sees_what_the_one_before_it_wrote(self, store, history):
        """Also where both stand in one batch, whose commit is still to come."""
        candidate_id = history.bring(store, State.PENDING)

        def decide(view):
            if view.subject(candidate_id).state != State.PENDING:
                raise AlreadyTerminal
            assert view.event(view.head.cursor).header.cursor == view.head.cursor
            return [history.operation(Operation.WITHDRAW, candidate_id, State.PENDING)]

        answers = in_threads(16, lambda _: store.commit(HERE, decide))
        assert sum(isinstance(answer, list) for answer in answers) == 1
        assert sum(isinstance(answer, AlreadyTerminal) for answer in answers) == 15
