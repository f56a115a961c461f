"""A subject's story holds its own events and nobody else's."""

from __future__ import annotations

import pytest

from journal import limits
from journal.errors import NotFound
from journal.lifecycle import Operation
from replay.history import find_subject, story
from tests.tools.memory.world import OTHER, SCOPE, World, forgetting, withdrawal
from tools.host.capabilities import FORGET, WITHDRAW


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path / "store")
    yield made
    made.close()


def _types(world, subject):
    return [chapter.event.header.kind.label for chapter in story(world.journal, SCOPE, subject)]


@pytest.mark.parametrize("page", [1, 3, 1_024])
def test_two_interleaved_stories_stay_apart(world, monkeypatch, page):
    agent = world.caller()
    first, second = agent.capture("One."), agent.capture("Two.")
    agent.admit(second)
    agent.admit(first)
    agent.withdraw(agent.capture("Three."))
    monkeypatch.setattr(limits, "READ_PAGE_EVENTS", page)
    assert _types(world, first) == ["capture", "accept"]
    assert _types(world, second) == ["capture", "accept"]
    cursors = [chapter.event.header.cursor for chapter in story(world.journal, SCOPE, first)]
    assert cursors == [1, 4]


def test_a_record_is_found_by_either_id(world):
    agent = world.caller()
    candidate = agent.capture("One.")
    record = agent.admit(candidate)["record_id"]
    assert _types(world, candidate) == _types(world, record)
    with world.journal.store.view(SCOPE) as view:
        assert find_subject(view, record) == find_subject(view, candidate)


def test_the_end_of_its_key_belongs_to_a_story_and_other_keys_do_not(world):
    agent = world.caller()
    first = agent.remember("One.")
    agent.forget(agent.remember("Two."))
    assert _types(world, first) == ["capture", "accept"]
    agent.forget(first)
    told = _types(world, first)
    assert told[2:5] == ["confirmation_requested", "confirmation_approved", "tombstone"]
    assert told[5:].count("erasure_done") == 2  # the key, and the projections


def test_a_rejection_and_its_key(world):
    agent = world.caller()
    candidate = agent.capture("One.")
    agent.transit(candidate, Operation.REJECT)
    assert _types(world, candidate) == ["capture", "reject"]
    world.journal.finish_destructions(SCOPE)
    assert _types(world, candidate) == ["capture", "reject", "erasure_done"]


def test_confirmations_that_came_to_nothing(world):
    agent = world.caller()
    candidate = agent.capture("One.")
    assert agent.code(WITHDRAW, withdrawal(candidate)) == "gate_failed"
    record = agent.admit(candidate)["record_id"]
    assert agent.code(FORGET, forgetting(record)) == "gate_failed"
    assert _types(world, record) == ["capture", "confirmation_requested", "accept", "confirmation_requested"]


def test_a_successor_belongs_to_both_stories(world):
    agent = world.caller()
    old, new = agent.capture("Old."), agent.capture("New.")
    agent.admit(old)
    agent.admit(new)
    agent.transit(old, Operation.SUPERSEDE, new)
    assert _types(world, old)[-1] == "supersede"
    assert _types(world, new)[-1] == "supersede"


def test_the_ledger_is_told_and_no_content(world):
    agent = world.caller()
    record = agent.remember("Words of the content.")
    agent.forget(record)
    chapters = [chapter.as_json() for chapter in story(world.journal, SCOPE, record)]
    assert chapters[1]["ledger"]["decision"]["decision"] == "accept"
    assert "Words" not in str(chapters)


@pytest.mark.parametrize("name", ["", "nonsense", "mem_", "mem_aaaa", "candidate_", "confirmation_00"])
def test_what_is_not_there_is_not_found(world, name):
    world.caller().remember("One.")
    with pytest.raises(NotFound):
        list(story(world.journal, SCOPE, name))


def test_a_confirmation_is_no_subject(world):
    agent = world.caller()
    assert agent.code(FORGET, forgetting(agent.remember("One."))) == "gate_failed"
    with pytest.raises(NotFound):
        list(story(world.journal, SCOPE, agent.requests()[0].confirmation_id))


def test_another_scopes_subject_is_not_found(world):
    record = world.caller(OTHER).remember("One.")
    with pytest.raises(NotFound):
        list(story(world.journal, SCOPE, record))
