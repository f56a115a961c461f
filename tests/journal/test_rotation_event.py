"""A rotation is an event: one that died after its switch is told of by whoever opens the store next, once."""

from __future__ import annotations

import signal

import pytest

from journal.events import EventType
from tests.journal.stores import ACTOR, SCOPE, capture, make, opened
from tests.journal.test_failpoints import Told, mortal


def rotations(journal):
    events = [event for event in journal.store.read(SCOPE, 0, 10_000) if event.header.type == EventType.KEY_ROTATION]
    with journal.store.view(SCOPE) as view:
        return [(event.header.actor.principal, journal.ledger(view, event.header)["epoch"]) for event in events]


@pytest.mark.parametrize(("name", "told"), [("rotate.slots_written", []), ("rotate.switched", [("engram:system", 2)])])
def test_a_rotation_that_died_is_told_of_at_the_next_opening_if_it_happened(tmp_path, name, told):
    path = make(tmp_path / "store")
    assert Told().hear_all(mortal(path, "first", f"{name}:1")) == -signal.SIGKILL
    for _ in range(2):
        with opened(path) as journal:
            journal.admit(SCOPE)
            assert rotations(journal) == told
    with opened(path) as journal:
        epoch = journal.rotate_keys(SCOPE, ACTOR)
        assert rotations(journal) == [*told, (ACTOR.principal, epoch)]


def test_a_store_that_never_rotated_tells_of_nothing(tmp_path):
    path = make(tmp_path / "store")
    with opened(path) as journal:
        capture(journal, "key-0000000000000001")
        head = journal.store.head(SCOPE)
    with opened(path) as journal:
        journal.admit(SCOPE)
        assert journal.store.head(SCOPE) == head


def test_what_a_dead_rotation_left_goes_with_the_next_destruction(tmp_path):
    """Who has the store open all along never tidies, and a key that it destroys must be gone all the same."""
    path = make(tmp_path / "store")
    with opened(path) as journal:
        capture(journal, "key-0000000000000001")
        key = journal.take_key(SCOPE)
        assert Told().hear_all(mortal(path, "first", "rotate.switched:1")) == -signal.SIGKILL
        assert len(list((path / "keys").glob("*.slots"))) == 2
        journal.keyring.destroy(SCOPE, [(key.key_id, key.slot)])
        assert len(list((path / "keys").glob("*.slots"))) == 1
