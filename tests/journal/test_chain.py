"""What must hold between neighbours, and what a draft must be; the storage contract shows it through an engine."""

from __future__ import annotations

import msgspec
import pytest

from journal.chain import EMPTY_HEAD, check_draft, check_transition, follow, link, verify_next, verify_run
from journal.errors import CursorGap, JournalCorrupt, RegistryVersionUnavailable
from journal.events import EventType, RequestState
from journal.frames import GENESIS, encode_frame, frame_hash
from journal.lifecycle import Operation, State
from journal.store.port import Head, Subject
from tests.journal.store.history import HERE, THERE, History, named


@pytest.fixture
def chain():
    history, head, events = History(), EMPTY_HEAD, []
    for number in range(5):
        event = link(HERE, head, history.capture(), 1_000 + number)
        head = follow(head, event, number)
        events.append(event)
    return events, head


def frames(events):
    return [event.frame for event in events]


def test_a_chain_is_linked_and_followed(chain):
    events, head = chain
    assert head == Head(5, frame_hash(events[-1].frame), 1_004, 4)
    assert verify_run(HERE, 1, frames(events), GENESIS, head.hash) == events
    assert verify_run(HERE, 3, frames(events[2:4]), frame_hash(events[1].frame), events[4].header.prev) == events[2:4]
    assert verify_run(HERE, 3, frames(events[2:4]), None, events[4].header.prev) == events[2:4]
    assert verify_run(HERE, 1, [], GENESIS, GENESIS) == []


def test_time_never_goes_back():
    head = Head(3, bytes(32), 5_000, 7)
    event = link(HERE, head, History().capture(), 4_000)
    assert event.header.recorded_at == 5_000
    assert follow(head, event, 2).slot_generation == 7


def test_an_unknown_format_is_told_as_such_only_where_it_was_written(chain):
    """A flipped bit in the first field is corruption; a frame that the chain vouches for is another release's."""
    events, head = chain
    foreign = encode_frame(msgspec.structs.replace(events[-1].header, format=2))
    with pytest.raises(JournalCorrupt):
        verify_run(HERE, 1, [*frames(events[:-1]), foreign], GENESIS, head.hash)
    with pytest.raises(RegistryVersionUnavailable, match="format 2"):
        verify_run(HERE, 1, [*frames(events[:-1]), foreign], GENESIS, frame_hash(foreign))


def test_a_run_that_follows_something_else_is_corrupt(chain):
    events, head = chain
    with pytest.raises(JournalCorrupt, match="cursor 1 does not follow"):
        verify_run(HERE, 1, frames(events), bytes([1]) * 32, head.hash)
    with pytest.raises(JournalCorrupt, match="cursor 5 is not the one"):
        verify_run(HERE, 1, frames(events), GENESIS, bytes(32))


def test_one_event_is_checked_for_scope_place_and_predecessor(chain):
    events, _ = chain
    assert verify_next(HERE, 2, frame_hash(events[0].frame), events[1].frame) == events[1]
    with pytest.raises(JournalCorrupt, match="another scope"):
        verify_next(THERE, 2, None, events[1].frame)
    with pytest.raises(CursorGap):
        verify_next(HERE, 3, None, events[1].frame)
    with pytest.raises(JournalCorrupt, match="does not follow"):
        verify_next(HERE, 2, bytes(32), events[1].frame)


def subject(state):
    return Subject(state, 1, 0, 1, None, None, None)


def test_control_events_about_no_state_are_always_legal():
    for kind in (
        EventType.ADJUDICATION,
        EventType.ERASURE_DONE,
        EventType.KEY_ROTATION,
        EventType.PROJECTION_INVALIDATED,
    ):
        check_transition(kind, 0, 0, subject(State.PENDING))
        check_draft(History().control(kind))


def test_a_request_is_opened_once_for_each_id():
    check_transition(EventType.CONFIRMATION_REQUESTED, 0, RequestState.OPEN, None)
    with pytest.raises(JournalCorrupt):
        check_transition(EventType.CONFIRMATION_REQUESTED, 0, RequestState.OPEN, subject(RequestState.OPEN))


def test_lawful_drafts_pass():
    history = History()
    capture = history.capture()
    check_draft(capture)
    check_draft(history.request(named("operation", 1)))
    check_draft(history.decision(EventType.CONFIRMATION_DENIED, "confirmation_a"))
    for operation in Operation:
        if operation is not Operation.CAPTURE:
            check_draft(history.operation(operation, str(capture.subject), State.ACCEPTED_CURRENT))
