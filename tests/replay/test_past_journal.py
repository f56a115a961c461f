"""The journal as it stood: states of then, content as far as it still opens."""

from __future__ import annotations

import pytest

from journal.errors import InvalidSchema, JournalCorrupt, StoreUnavailable
from journal.lifecycle import Operation, State
from journal.store.port import Part
from replay.asof import PastJournal
from tests.tools.memory.world import NOW, OTHER, SCOPE, World


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path / "store")
    yield made
    made.close()


def _lives(world):
    """Make lives with every kind of turn; return the subjects and the state of each after every cursor."""
    agent = world.caller()
    names = [agent.capture(f"Number {number}.") for number in range(5)]
    for name in names[:4]:
        agent.admit(name)
    agent.transit(names[4], Operation.REJECT)
    agent.transit(names[0], Operation.DISPUTE)
    agent.transit(names[0], Operation.RESOLVE_DISPUTE)
    agent.transit(names[1], Operation.SUPERSEDE, names[0])
    agent.transit(names[1], Operation.REWIND, names[0])
    agent.transit(names[2], Operation.EXPIRE)
    agent.transit(names[2], Operation.TOMBSTONE)
    world.journal.finish_destructions(SCOPE)
    return names


def test_the_states_of_every_cursor(world, monkeypatch):
    store, seen = world.journal.store, {}
    commit = store.commit

    def watching(scope, decide, **how):
        done = commit(scope, decide, **how)
        with store.view(SCOPE) as view:
            now = {name: (row.state, row.record_id, row.decided) for name, row in view.subjects()}
            seen[view.head.cursor] = {**now, "head": view.head.hash}
        return done

    monkeypatch.setattr(store, "commit", watching)
    names = _lives(world)
    assert sorted(seen) == list(range(1, store.head(SCOPE).cursor + 1))
    for cursor, expected in seen.items():
        past = PastJournal(world.journal, SCOPE, cursor, NOW)
        with past.store.view(SCOPE) as view:
            assert view.head.cursor == cursor
            assert view.head.hash == expected["head"]
            for name in names:
                row = view.subject(name)
                found = None if row is None else (row.state, row.record_id, row.decided)
                assert found == expected.get(name), (cursor, name)


def test_a_record_is_there_from_its_acceptance_on(world):
    agent = world.caller()
    candidate = agent.capture("One.")
    record = agent.admit(candidate)["record_id"]
    for cursor, expected in ((0, None), (1, None), (2, candidate)):
        with PastJournal(world.journal, SCOPE, cursor, NOW).store.view(SCOPE) as view:
            assert view.candidate_of(record) == expected


def test_events_and_parts_of_later_are_not_there_yet(world):
    agent = world.caller()
    agent.remember("One.")
    agent.remember("Two.")
    past = PastJournal(world.journal, SCOPE, 2, NOW)
    assert past.store.head(SCOPE).cursor == 2
    assert [event.header.cursor for event in past.store.read(SCOPE, 0, 100)] == [1, 2]
    assert past.store.body(SCOPE, 1, Part.CONTENT) is not None
    assert past.store.body(SCOPE, 3, Part.CONTENT) is None
    with past.store.view(SCOPE) as view:
        assert view.event(2) is not None
        assert view.event(3) is None
        assert view.body(1, Part.CONTENT) is not None
        assert view.body(3, Part.CONTENT) is None


def test_content_of_then_opens_unless_it_was_erased_since(world):
    agent = world.caller()
    kept, gone = agent.remember("Kept."), agent.remember("Gone.")
    cursor = agent.head
    agent.forget(gone)
    past = PastJournal(world.journal, SCOPE, cursor, NOW)
    with past.store.view(SCOPE) as view:
        for record, there in ((kept, True), (gone, False)):
            row = view.subject(view.candidate_of(record) or "")
            assert row is not None
            assert row.state == State.ACCEPTED_CURRENT
            capture = view.event(row.born)
            assert capture is not None
            assert (past.content(view, capture.header) is not None) is there


def test_its_clock_stands_still(world):
    assert PastJournal(world.journal, SCOPE, 0, 123).clock.now() == 123


def test_it_is_only_read(world):
    past = PastJournal(world.journal, SCOPE, 0, NOW)
    with pytest.raises(StoreUnavailable):
        past.commit(SCOPE, lambda view: [])
    past.admit(SCOPE)
    past.close()
    assert world.journal.store.head(SCOPE).cursor == 0


def test_a_cursor_that_was_never_reached(world):
    world.caller().remember("One.")
    with pytest.raises(InvalidSchema):
        PastJournal(world.journal, SCOPE, 3, NOW)


def test_another_scope_was_not_asked_for(world):
    past = PastJournal(world.journal, SCOPE, 0, NOW)
    with pytest.raises(JournalCorrupt):
        past.store.head(OTHER)
