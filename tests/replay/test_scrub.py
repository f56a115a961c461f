"""The background scrub: pieces, rounds, what it finds, and the sweeper that runs it and signs what is due."""

from __future__ import annotations

import time

import msgspec
import pytest

from journal import layout, limits
from journal.checkpointfiles import Anchor
from journal.checkpointing import Checkpoints, folder_of
from journal.errors import JournalCorrupt
from journal.events import EventType
from journal.log import Journal
from journal.walks import NAME, Scrubbed, last_of
from projections.current_reader import NAMES
from replay.scrub import FILE, scrub, state_of
from tests.projections.spoiling import changed, row_of
from tests.replay.rebuilds import generation_of
from tests.replay.tampering import tampered
from tests.tools.conversation.talks import speaker
from tests.tools.memory.world import OTHER, ROOT_KEY, SCOPE, World
from tests.unpaused import unpaused
from tools.memory.sweeper import Sweeper


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path / "store")
    agent = made.caller()
    for number in range(4):
        agent.remember(f"Words {number}.")
    agent.forget(agent.remember("It goes."))
    yield made
    made.close()


@pytest.fixture
def folder(world):
    return folder_of(world.path, SCOPE.tag)


def _journal(world):
    return world.caller().engine.journal


def _round(journal, folder):
    """Scrub until nothing is due; return every state."""
    states = []
    while (state := scrub(journal, SCOPE, folder)) is not None:
        states.append(state)
    return states


def test_a_round_goes_to_the_head_in_pieces_and_is_clean(world, folder, monkeypatch):
    monkeypatch.setattr(limits, "SCRUB_PIECE_EVENTS", 4)
    journal = _journal(world)
    head = journal.store.head(SCOPE).cursor
    states = _round(journal, folder)
    assert [state.cursor for state in states] == [*range(4, head, 4), head]
    assert all(state.clean_cursor == state.cursor and state.findings == 0 for state in states)
    assert state_of(folder) == states[-1]
    world.caller().capture("A little more.")
    assert _round(journal, folder)[-1].clean_cursor == head + 1, "the tail belongs to the same round"


def test_the_next_round_begins_after_a_pause(world, folder):
    journal = _journal(world)
    _round(journal, folder)
    assert scrub(journal, SCOPE, folder) is None
    world.clock.advance(seconds=limits.SCRUB_PAUSE_SECONDS)
    again = scrub(journal, SCOPE, folder)
    assert again is not None
    assert again.round_began_at == again.clean_at == world.clock.now()


@pytest.mark.parametrize("damage", ["event", "content", "checkpoint"])
def test_rot_takes_the_clean_cursor_back(world, folder, damage):
    journal = _journal(world)
    Checkpoints(journal).write(SCOPE)
    head = _round(journal, folder)[-1].clean_cursor
    world.close()
    with tampered(world.path, SCOPE) as opened:
        if damage == "event":
            opened.delete(b"events", 3)
        if damage == "content":
            opened.put(b"content", 3, opened.get(b"content", 1))
    if damage == "checkpoint":
        (folder.path / f"{head:020}").write_text("nothing", encoding="utf-8")
    world.clock.advance(seconds=limits.SCRUB_PAUSE_SECONDS)
    journal = Journal.open(world.path, ROOT_KEY, clock=world.clock, readonly=True)
    try:
        (state,) = _round(journal, folder)
    finally:
        journal.close()
    assert state.findings == 1
    assert state.first_finding is not None
    code, cursor, _ = state.first_finding
    assert code == {"event": "CURSOR_GAP", "content": "JOURNAL_CORRUPT", "checkpoint": "INVALID_DIGEST"}[damage]
    assert state.clean_cursor == cursor - 1


def test_its_file_may_be_thrown_away_or_broken(world, folder):
    journal = _journal(world)
    first = _round(journal, folder)[-1]
    for text in (None, "{", '{"round_began_at": "x"}'):
        (folder.path / FILE).unlink() if text is None else (folder.path / FILE).write_text(text, encoding="utf-8")
        assert state_of(folder) is None
        assert _round(journal, folder)[-1].clean_cursor == first.clean_cursor


def test_an_empty_scope_has_nothing_to_scrub(tmp_path):
    world = World(tmp_path / "empty")
    try:
        journal = _journal(world)
        assert scrub(journal, SCOPE, folder_of(world.path, SCOPE.tag)) is None
    finally:
        world.close()


def test_the_sweeper_signs_what_is_due_and_scrubs(world, folder, tmp_path):
    engine = world.caller().engine
    engine.checkpoints = Checkpoints(engine.journal, tmp_path / "anchors", every=4)
    sweeper = Sweeper(engine)
    try:
        sweeper.sweep()
    finally:
        sweeper.close()
    head = engine.journal.store.head(SCOPE).cursor
    key = engine.checkpoints.key(SCOPE)
    assert folder.sizes() == Anchor(tmp_path / "anchors").folder(key).sizes() == [head]
    state = state_of(folder)
    assert state is not None
    assert (state.clean_cursor, state.findings) == (head, 0)


def test_what_was_said_is_clean_whatever_became_of_it(world):
    one = speaker(world)
    pinned = one.save("It stays.")
    one.move(EventType.MESSAGE_PIN, pinned)
    one.know("update", memory_id=pinned, content="It stays, otherwise.")
    one.know("remove", memory_id=one.save("It is put away."))
    one.erase(one.save("It goes."))
    journal, folder = one.engine.journal, folder_of(world.path, one.told_in.tag)
    state = _round(journal, folder)[-1]
    assert (state.clean_cursor, state.findings) == (journal.store.head(one.told_in).cursor, 0), state.first_finding


def test_the_sweeper_has_the_journals_pages_walked_and_its_damage_ends_every_call(world, monkeypatch):
    monkeypatch.setattr(limits, "PAGE_SCRUB_PAUSE_SECONDS", 0)
    agent = world.caller()
    engine, journal = agent.engine, world.path / layout.JOURNAL
    sweeper = Sweeper(engine)
    try:
        while (last := last_of(journal)) is None:
            sweeper.sweep()
            time.sleep(0.01)
        assert last.code == ""
        assert agent.search("words")["records"]
        found = Scrubbed(time.time(), 1.0, JournalCorrupt.code, "found by another process")
        (journal / NAME).write_bytes(msgspec.json.encode(found))
        sweeper.sweep()
    finally:
        sweeper.close()
    with pytest.raises(JournalCorrupt, match="another process"):
        engine.journal.store.head(SCOPE)


def test_the_sweeper_has_projections_walked_and_a_changed_one_is_built_anew(world, monkeypatch):
    unpaused(monkeypatch)
    agent = world.caller()
    right = agent.search("words")["records"]
    projections, path = agent.engine.projections(SCOPE), world.path / layout.PROJECTIONS
    before = generation_of(projections, "current")
    changed(path, "current", row_of(projections, "current", NAMES), 0)
    sweeper = Sweeper(agent.engine)
    try:
        while generation_of(projections, "current") == before:
            sweeper.sweep()
            time.sleep(0.01)
    finally:
        sweeper.close()
    assert agent.search("words")["records"] == right


def test_the_sweeper_looks_after_the_conversations_scope_too(world, tmp_path):
    one = speaker(world, talk={"scope": OTHER})
    one.save("It is said.")
    engine = one.engine
    engine.checkpoints = Checkpoints(engine.journal, tmp_path / "anchors", every=1)
    sweeper = Sweeper(engine)
    try:
        sweeper.sweep()
    finally:
        sweeper.close()
    for scope in (SCOPE, OTHER):
        folder, head = folder_of(world.path, scope.tag), engine.journal.store.head(scope).cursor
        assert folder.sizes() == [head]
        state = state_of(folder)
        assert state is not None
        assert (state.clean_cursor, state.findings) == (head, 0)
