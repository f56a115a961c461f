"""Every cell of the lifecycle table, judged by the audit's own fold."""

from __future__ import annotations

import pytest

from journal.errors import IllegalTransition, JournalCorrupt
from journal.events import Actor, EventType, Header, RequestState
from journal.lifecycle import LEGAL, Operation, State
from replay.legality import States
from tests.tools.memory.world import SCOPE

SUBJECT = "candidate_" + 64 * "a"
OTHER = "candidate_" + 64 * "b"
CONFIRMATION = "confirmation_" + 32 * "c"
ROADS: dict[State, list[Operation]] = {
    State.ABSENT: [],
    State.PENDING: [Operation.CAPTURE],
    State.REJECTED: [Operation.CAPTURE, Operation.REJECT],
    State.WITHDRAWN: [Operation.CAPTURE, Operation.WITHDRAW],
    State.ACCEPTED_CURRENT: [Operation.CAPTURE, Operation.ACCEPT],
    State.ACCEPTED_DISPUTED: [Operation.CAPTURE, Operation.ACCEPT, Operation.DISPUTE],
    State.HISTORICAL: [Operation.CAPTURE, Operation.ACCEPT, Operation.MARK_NON_CURRENT],
    State.EXPIRED: [Operation.CAPTURE, Operation.ACCEPT, Operation.EXPIRE],
    State.TRUST_INVALID: [Operation.CAPTURE, Operation.ACCEPT, Operation.TRUST_INVALIDATE],
    State.TOMBSTONED: [Operation.CAPTURE, Operation.ACCEPT, Operation.TOMBSTONE],
}


def _header(kind: int, from_state: int, to_state: int, subject: str | None = SUBJECT, related: str | None = None):
    accepted = kind in range(2, 13) and kind not in (Operation.REJECT, Operation.WITHDRAW)
    with_content = kind in (EventType.CAPTURE, EventType.CONFIRMATION_REQUESTED)
    return Header(
        format=1, type=kind, scope=SCOPE, cursor=1, recorded_at=1, event_id=bytes(32), actor=Actor("p"),
        subject=subject, record_id="mem_a" if accepted else None, related=related, from_state=from_state,
        to_state=to_state, key_id=bytes(16) if with_content else None, intent=None, guards=(),
        content_digest=bytes(32) if with_content else None, ledger_digest=None, prev=bytes(32),
    )  # fmt: skip


def _walked(states: States, subject: str, target: State) -> None:
    state = State.ABSENT
    for operation in ROADS[target]:
        following = LEGAL[operation, state]
        states.apply(_header(operation, state, following, subject))
        state = following
    assert states.of(subject) == target


@pytest.fixture
def states():
    """States in which another record is current."""
    made = States()
    _walked(made, OTHER, State.ACCEPTED_CURRENT)
    return made


@pytest.mark.parametrize("operation", Operation)
@pytest.mark.parametrize("state", ROADS)
def test_every_cell(states, operation, state):
    _walked(states, SUBJECT, state)
    to_state = LEGAL.get((operation, state))
    if to_state is not None:
        header = _header(operation, state, to_state, related=OTHER)
        states.apply(header)
        assert states.of(SUBJECT) == to_state
        assert states.of(OTHER) == (State.HISTORICAL if operation is Operation.REWIND else State.ACCEPTED_CURRENT)
        return
    for claimed in State:
        with pytest.raises(IllegalTransition):
            states.apply(_header(operation, state, claimed, related=OTHER))
    assert states.of(SUBJECT) == state


def test_the_table_has_22_legal_cells_of_120():
    assert len(LEGAL) == 22
    assert len(ROADS) * len(Operation) == 120


@pytest.mark.parametrize(("operation", "state"), LEGAL)
@pytest.mark.parametrize("wrong", ["from", "to"])
def test_states_that_are_misstated(states, operation, state, wrong):
    _walked(states, SUBJECT, state)
    to_state = LEGAL[operation, state]
    for other in State:
        from_claimed, to_claimed = (other, to_state) if wrong == "from" else (state, other)
        if (from_claimed, to_claimed) != (state, to_state):
            with pytest.raises(JournalCorrupt):
                states.apply(_header(operation, from_claimed, to_claimed, related=OTHER))
    assert states.of(SUBJECT) == state


@pytest.mark.parametrize("related", [None, SUBJECT, "candidate_unknown", CONFIRMATION, "mem_a"])
@pytest.mark.parametrize("operation", [Operation.SUPERSEDE, Operation.REWIND])
def test_a_successor_must_be_another_current_record(states, operation, related):
    state = State.ACCEPTED_CURRENT if operation is Operation.SUPERSEDE else State.HISTORICAL
    _walked(states, SUBJECT, state)
    with pytest.raises(IllegalTransition):
        states.apply(_header(operation, state, LEGAL[operation, state], related=related))


def test_a_request_is_opened_and_ended_once(states):
    opened = _header(EventType.CONFIRMATION_REQUESTED, 0, RequestState.OPEN, CONFIRMATION)
    approved = _header(EventType.CONFIRMATION_APPROVED, RequestState.OPEN, RequestState.APPROVED, CONFIRMATION)
    denied = _header(EventType.CONFIRMATION_DENIED, RequestState.OPEN, RequestState.DENIED, CONFIRMATION)
    with pytest.raises(JournalCorrupt):
        states.apply(approved)
    states.apply(opened)
    assert not states.ended(opened)
    with pytest.raises(JournalCorrupt):
        states.apply(opened)
    states.apply(approved)
    assert states.ended(opened)
    for late in (approved, denied, opened):
        with pytest.raises(JournalCorrupt):
            states.apply(late)


def test_a_form_belongs_to_an_open_request_and_leaves_it_open(states):
    opened = _header(EventType.CONFIRMATION_REQUESTED, 0, RequestState.OPEN, CONFIRMATION)
    step = _header(EventType.CONFIRMATION_FORM, RequestState.OPEN, RequestState.OPEN, CONFIRMATION)
    with pytest.raises(JournalCorrupt):
        states.apply(step)
    states.apply(opened)
    states.apply(step)
    states.apply(step)
    with pytest.raises(JournalCorrupt):
        states.apply(_header(EventType.CONFIRMATION_FORM, RequestState.OPEN, RequestState.APPROVED, CONFIRMATION))
    states.apply(_header(EventType.CONFIRMATION_DENIED, RequestState.OPEN, RequestState.DENIED, CONFIRMATION))
    with pytest.raises(JournalCorrupt):
        states.apply(step)


def test_a_confirmation_id_is_no_candidate(states):
    with pytest.raises(JournalCorrupt):
        states.apply(_header(Operation.CAPTURE, 0, State.PENDING, CONFIRMATION))
    with pytest.raises(JournalCorrupt):
        states.apply(_header(EventType.CONFIRMATION_REQUESTED, 0, RequestState.OPEN, SUBJECT))


@pytest.mark.parametrize(
    ("state", "ended"), [(state, state in (State.REJECTED, State.WITHDRAWN, State.TOMBSTONED)) for state in ROADS]
)
def test_what_ended_has_no_content_any_more(states, state, ended):
    _walked(states, SUBJECT, state)
    assert states.ended(_header(Operation.CAPTURE, 0, State.PENDING)) is ended


@pytest.mark.parametrize("kind", [EventType.ADJUDICATION, EventType.KEY_ROTATION, EventType.ERASURE_DONE])
def test_other_events_move_nothing(states, kind):
    _walked(states, SUBJECT, State.PENDING)
    states.apply(_header(kind, 0, 0))
    states.apply(_header(kind, 1, 1, None))
    assert states.of(SUBJECT) == State.PENDING
