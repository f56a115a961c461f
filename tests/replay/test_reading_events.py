"""Reading events: pages, instants, and what is told of them."""

from __future__ import annotations

import pytest

from journal import limits
from journal.clock import instant
from journal.events import WRITTEN, Actor, EventType, Header
from journal.frames import GENESIS, encode_frame, event_digest
from journal.lifecycle import State
from journal.store.port import Committed
from replay.events import cursor_at, described, pages, states_of
from tests.tools.memory.world import NOW, SCOPE, World


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path / "store")
    yield made
    made.close()


@pytest.fixture
def store(world):
    """A store with six events, two an instant: at NOW, a second later, and a minute later."""
    agent = world.caller()
    for seconds in (0, 1, 60):
        world.clock.set(NOW + 1000 * seconds)
        agent.remember(f"Number {seconds}.")
    return world.journal.store


def _cursors(found):
    return [event.header.cursor for page in found for event in page]


@pytest.mark.parametrize("page", [1, 2, 4, 6, 100])
def test_pages_give_every_event_once(store, monkeypatch, page):
    monkeypatch.setattr(limits, "READ_PAGE_EVENTS", page)
    assert _cursors(pages(store, SCOPE)) == [1, 2, 3, 4, 5, 6]
    assert _cursors(pages(store, SCOPE, after=2)) == [3, 4, 5, 6]
    assert _cursors(pages(store, SCOPE, to=3)) == [1, 2, 3]
    assert _cursors(pages(store, SCOPE, after=2, to=4)) == [3, 4]
    assert _cursors(pages(store, SCOPE, to=0)) == []
    assert _cursors(pages(store, SCOPE, to=99)) == [1, 2, 3, 4, 5, 6]
    assert all(len(each) <= page for each in pages(store, SCOPE))


@pytest.mark.parametrize(
    ("milliseconds", "cursor"),
    [(-1, 0), (0, 2), (999, 2), (1_000, 4), (59_999, 4), (60_000, 6), (10**12, 6)],
)
def test_the_last_event_at_or_before_an_instant(store, milliseconds, cursor):
    assert cursor_at(store, SCOPE, NOW + milliseconds) == cursor


def test_an_empty_scope_has_no_instant(world):
    assert cursor_at(world.journal.store, SCOPE, NOW) == 0
    assert list(pages(world.journal.store, SCOPE)) == []


def _event(kind: EventType, from_state: int = 0, to_state: int = 0) -> Committed:
    header = Header(
        format=1, type=kind, scope=SCOPE, cursor=7, recorded_at=NOW, event_id=bytes(32),
        actor=Actor("p", "a", bytes(16)), subject="candidate_x", record_id="mem_x", related="candidate_y",
        from_state=from_state, to_state=to_state, key_id=bytes(16), intent=bytes(32), guards=(bytes(32), b"\x01" * 32),
        content_digest=bytes(32), ledger_digest=None, prev=GENESIS,
    )  # fmt: skip
    return Committed(header, encode_frame(header))


def test_every_field_of_a_header_is_described():
    event = _event(EventType.ACCEPT, State.PENDING, State.ACCEPTED_CURRENT)
    told = described(event)
    assert told == {
        "cursor": "7",
        "recorded_at": instant(NOW),
        "type": "accept",
        "event_id": 64 * "0",
        "event_digest": event_digest(event.frame),
        "actor": {"principal": "p", "agent_id": "a", "session": 32 * "0"},
        "subject": "candidate_x",
        "record_id": "mem_x",
        "related": "candidate_y",
        "from_state": "pending",
        "to_state": "accepted_current",
        "key_id": 32 * "0",
        "intent": 64 * "0",
        "guards": [64 * "0", 32 * "01"],
        "content_digest": 64 * "0",
        "ledger_digest": None,
        "prev": 64 * "0",
        "format": 1,
    }
    assert len(told) == len(event.header.__struct_fields__)  # scope is left out, event_digest is added


@pytest.mark.parametrize("kind", sorted(WRITTEN))
def test_states_are_named_where_an_event_moves_one(kind):
    from_state, to_state = states_of(_event(kind, 1, 2).header)
    if kind in range(1, 32):
        assert (from_state, to_state) == ("pending", "rejected")
    elif kind.label.startswith("confirmation"):
        assert (from_state, to_state) == ("open", "approved")
    elif kind.label.startswith("message"):
        assert (from_state, to_state) == ("active", "pinned")
    elif kind.label.startswith("grant"):
        assert (from_state, to_state) == ("standing", "revoked")
    elif kind.label.startswith("tenant"):
        assert (from_state, to_state) == ("enabled", "disabled")
    else:
        assert (from_state, to_state) == (None, None)


def test_a_state_that_is_none_is_told_by_its_number():
    assert states_of(_event(EventType.ACCEPT, 77, 4).header) == ("77", "accepted_current")
