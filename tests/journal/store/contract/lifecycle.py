"""12 operations by 10 states, successors, and the ends of requests, as a storage engine must hold them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from journal.errors import (
    AlreadyTerminal,
    IllegalTransition,
    JournalCorrupt,
)
from journal.events import EventType
from journal.lifecycle import LEGAL, TERMINAL, Operation, State
from tests.journal.store.contract.engine import Contract, refusal_of
from tests.journal.store.history import HERE, WAY_TO, named, record_of


class Lifecycle(Contract):
    """12 operations by 10 states: 22 lead on, 98 are refused before a cursor is allocated."""

    @pytest.mark.parametrize("state", State, ids=lambda state: state.label)
    @pytest.mark.parametrize("operation", Operation, ids=lambda operation: operation.label)
    def test_every_cell_of_the_table(self, store, history, operation, state):
        other = history.bring(store, State.ACCEPTED_CURRENT)
        candidate_id = history.bring(store, state) if WAY_TO[state] else str(history.capture().subject)
        draft = history.operation(operation, candidate_id, state, related=other)
        if operation is Operation.CAPTURE:
            draft = replace(history.capture(), subject=candidate_id, from_state=state)
        if (operation, state) in LEGAL:
            (event,) = history.write(store, draft)
            with store.view(HERE) as view:
                row = view.subject(candidate_id)
                assert (row.state, row.changed) == (LEGAL[operation, state], event.header.cursor)
        else:
            refused = refusal_of(store, HERE, draft)
            assert type(refused) is (AlreadyTerminal if state in TERMINAL else IllegalTransition)

    def test_an_event_that_misstates_the_states_is_refused(self, store, history):
        candidate_id = history.bring(store, State.ACCEPTED_CURRENT)
        dispute = history.operation(Operation.DISPUTE, candidate_id, State.ACCEPTED_CURRENT)
        assert isinstance(refusal_of(store, HERE, replace(dispute, from_state=State.PENDING)), JournalCorrupt)
        assert isinstance(refusal_of(store, HERE, replace(dispute, to_state=State.HISTORICAL)), JournalCorrupt)

    @pytest.mark.parametrize("state", State, ids=lambda state: state.label)
    @pytest.mark.parametrize(
        "operation", [Operation.SUPERSEDE, Operation.REWIND], ids=lambda operation: operation.label
    )
    def test_a_successor_must_be_of_a_state_that_can_succeed(self, store, history, operation, state):
        before = State.ACCEPTED_CURRENT if operation is Operation.SUPERSEDE else State.HISTORICAL
        candidate_id = history.bring(store, before)
        successor = history.bring(store, state) if WAY_TO[state] else str(history.capture().subject)
        draft = history.operation(operation, candidate_id, before, related=successor)
        lawful = (
            {State.ACCEPTED_CURRENT}
            if operation is Operation.SUPERSEDE
            else {State.ACCEPTED_CURRENT, State.ACCEPTED_DISPUTED}
        )
        if state not in lawful:
            assert isinstance(refusal_of(store, HERE, draft), IllegalTransition)
            return
        history.write(store, draft)
        with store.view(HERE) as view:
            expected = state if operation is Operation.SUPERSEDE else State.HISTORICAL
            assert view.subject(successor).state == expected
            assert view.subject(candidate_id).state == LEGAL[operation, before]

    @pytest.mark.parametrize(
        "operation", [Operation.SUPERSEDE, Operation.REWIND], ids=lambda operation: operation.label
    )
    def test_nobody_succeeds_himself_or_no_one(self, store, history, operation):
        before = State.ACCEPTED_CURRENT if operation is Operation.SUPERSEDE else State.HISTORICAL
        candidate_id = history.bring(store, before)
        for related in (candidate_id, None, record_of(candidate_id)):
            draft = history.operation(operation, candidate_id, before, related=related)
            assert isinstance(refusal_of(store, HERE, draft), IllegalTransition)

    @pytest.mark.parametrize(
        "end", [EventType.CONFIRMATION_APPROVED, EventType.CONFIRMATION_DENIED, EventType.CONFIRMATION_EXPIRED]
    )
    def test_a_request_ends_once(self, store, history, end):
        (opened,) = history.write(store, history.request(named("operation", 1)))
        confirmation_id = opened.header.subject
        assert isinstance(refusal_of(store, HERE, history.decision(end, "confirmation_unknown")), JournalCorrupt)
        history.write(store, history.decision(end, confirmation_id))
        for again in (EventType.CONFIRMATION_APPROVED, EventType.CONFIRMATION_DENIED, EventType.CONFIRMATION_EXPIRED):
            assert isinstance(refusal_of(store, HERE, history.decision(again, confirmation_id)), JournalCorrupt)

    def test_a_form_belongs_to_an_open_request_and_leaves_it_as_it_is(self, store, history):
        (opened,) = history.write(store, history.request(named("operation", 1)))
        confirmation_id = opened.header.subject
        with store.view(HERE) as view:
            before = view.subject(confirmation_id)
        history.write(store, history.form(confirmation_id))
        history.write(store, history.form(confirmation_id))
        with store.view(HERE) as view:
            assert view.subject(confirmation_id) == before
            assert view.open_requests() == [confirmation_id]
        for stranger in ("confirmation_unknown", "candidate_unknown"):
            assert isinstance(refusal_of(store, HERE, history.form(stranger)), JournalCorrupt)
        history.write(store, history.decision(EventType.CONFIRMATION_DENIED, confirmation_id))
        assert isinstance(refusal_of(store, HERE, history.form(confirmation_id)), JournalCorrupt)
