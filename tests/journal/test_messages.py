"""The states of messages: every legal cell, and every other one refused before a cursor is taken."""

import itertools

import pytest

from journal.chain import check_draft, check_transition, has_ended, prefix_of
from journal.errors import AlreadyTerminal, IllegalTransition, JournalCorrupt
from journal.events import CONVERSATION, Actor, Draft, EventType
from journal.messages import LEGAL, MESSAGE_EVENTS, UNDER_SCOPE_KEY, MessageState, check_move, message_id_of
from journal.store.port import Subject

CELLS = [
    (kind, state, to)
    for kind, state, to in itertools.product(sorted(MESSAGE_EVENTS), MessageState, MessageState)
    if to in LEGAL.get((kind, state), ())
]
OTHERS = [cell for cell in itertools.product(sorted(MESSAGE_EVENTS), MessageState, MessageState) if cell not in CELLS]


def test_there_are_fifteen_legal_cells():
    assert len(CELLS) == 15
    assert len(OTHERS) == 8 * 5 * 5 - 15


@pytest.mark.parametrize(("kind", "state", "to"), CELLS)
def test_a_legal_cell_passes(kind, state, to):
    subject = None if state is MessageState.ABSENT else Subject(state, 1, 0, 1, bytes(16), None, None)
    check_transition(kind, state, to, subject)


@pytest.mark.parametrize(("kind", "state", "to"), OTHERS)
def test_every_other_cell_is_refused(kind, state, to):
    with pytest.raises(AlreadyTerminal if state is MessageState.ERASED else IllegalTransition):
        check_move(kind, state, to)


def test_a_misstated_state_is_no_legal_event():
    with pytest.raises(JournalCorrupt):
        check_transition(
            EventType.MESSAGE_PIN, MessageState.ARCHIVED, MessageState.PINNED, Subject(1, 1, 0, 1, b"", None, None)
        )


def test_only_an_erased_message_has_ended():
    assert [state for state in MessageState if has_ended("message_" + 32 * "0", state)] == [MessageState.ERASED]


def test_every_conversation_event_is_about_a_message_or_stands_under_the_scopes_key():
    known = MESSAGE_EVENTS | UNDER_SCOPE_KEY | {EventType.DIGEST}
    assert {kind for kind in EventType if kind in CONVERSATION} == known
    assert {prefix_of(kind) for kind in MESSAGE_EVENTS} == {"message_"}


def test_an_id_is_the_half_of_its_event_id():
    assert message_id_of(bytes(range(32))) == "message_000102030405060708090a0b0c0d0e0f"


@pytest.mark.parametrize(
    "fields",
    [
        {"type": EventType.MESSAGE, "subject": "candidate_1"},
        {"type": EventType.MESSAGE, "subject": "message_1"},
        {"type": EventType.MESSAGE, "subject": "message_1", "content": b"x", "key_id": bytes(16)},
        {"type": EventType.MESSAGE_TAG, "subject": "message_1"},
        {"type": EventType.MESSAGE_REVISION, "subject": "message_1", "content": b"x"},
        {"type": EventType.PROFILE},
        {"type": EventType.PROJECT_TAG, "ledger": b"x", "subject": "message_1"},
    ],
    ids=str,
)
def test_what_a_reader_could_not_read_is_not_written(fields):
    with pytest.raises(JournalCorrupt):
        check_draft(Draft(event_id=bytes(32), actor=Actor("a"), **fields))
