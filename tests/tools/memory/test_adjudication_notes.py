"""Notes about candidates: under whose key they are sealed, and when none is taken any more."""

from __future__ import annotations

import dataclasses

import pytest

from journal.errors import AlreadyTerminal, JournalCorrupt, NotFound
from journal.events import Actor, Draft, EventType
from tests.tools.memory.world import OTHER, SCOPE
from tools.memory.adjudication_notes import leave_note


def test_a_note_is_another_scopes_nothing(world, agent):
    candidate_id = agent.capture()
    with pytest.raises(NotFound):
        leave_note(world.journal, OTHER, candidate_id, "anna", "text")
    assert world.caller(OTHER).head == 0


def test_a_note_on_what_ended_meanwhile_is_not_taken(world, agent):
    candidate_id = agent.capture()
    commit = world.journal.commit

    def overtaken(scope, decide, **how):
        world.journal.commit = commit
        agent.withdraw(candidate_id)
        return commit(scope, decide, **how)

    world.journal.commit = overtaken
    with pytest.raises(AlreadyTerminal):
        leave_note(world.journal, SCOPE, candidate_id, "anna", "text")
    assert agent.events()[-1][0] != "adjudication_note"


@pytest.mark.parametrize("change", ["key", "content", "subject"])
def test_the_journal_takes_no_note_under_another_key(world, agent, change):
    candidate_id, other = agent.capture("one"), agent.capture("two")
    journal = world.journal
    with journal.store.view(SCOPE) as view:
        mine, its = view.subject(candidate_id), view.subject(other)
    event_id = journal.random_event_id(SCOPE)
    with journal.store.view(SCOPE) as view:
        sealed = journal.seal_under(view, SCOPE, event_id, candidate_id, mine.key_id, {"text": "x"})
    draft = Draft(
        type=EventType.ADJUDICATION_NOTE, event_id=event_id, actor=Actor("operator:tests"), subject=candidate_id,
        key_id=mine.key_id, content=sealed,
    )  # fmt: skip
    wrong = {
        "key": dataclasses.replace(draft, key_id=its.key_id),
        "content": dataclasses.replace(draft, content=None),
        "subject": dataclasses.replace(draft, subject="message_00"),
    }[change]
    with pytest.raises(JournalCorrupt):
        journal.commit(SCOPE, lambda view: [wrong])
    (committed,) = journal.commit(SCOPE, lambda view: [draft])
    assert committed.header.subject == candidate_id
