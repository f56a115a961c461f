"""What one scope does changes no byte of another.

With clock and randomness held, frames and sealed parts are a function of what was asked of their own scope.
"""

from __future__ import annotations

import pytest

from journal.lifecycle import Operation
from journal.store.port import Part
from journal.testing import ManualClock, SeededRandomness
from tests.journal.store.history import History
from tests.journal.stores import ACTOR, OTHER, SCOPE, capture, make, move, opened

NOON = 1_764_417_600_000
EVENTS_OF_THE_OTHER = 10_000


def live(path, interleaved, seed=b"seed"):
    """Live a scope's life, with so many events of another scope in between; return every byte that it left."""
    clock, randomness = ManualClock(NOON), SeededRandomness(seed)
    make(path)
    with opened(path, clock=clock, randomness=randomness) as journal:
        other, steps = History(OTHER), 50
        for step in range(steps):
            clock.set(NOON + 1_000 * step)
            candidate_id, _ = capture(journal, f"key-{step:016}", f"text {step}")
            if interleaved:
                capture(journal, f"key-of-the-other-{step:04}", f"text {step}", OTHER)
                clock.set(NOON + 1_000 * step + 500)
                journal.commit(OTHER, lambda _: [other.capture() for _ in range(interleaved // steps)])
                clock.set(NOON + 1_000 * step + 1)
            clock.set(NOON + 1_000 * step + 1)
            if step % 3 == 0:
                move(journal, Operation.ACCEPT, candidate_id)
            if step % 6 == 0:
                move(journal, Operation.TOMBSTONE, candidate_id)
                journal.finish_destructions(SCOPE)
            if step == steps // 2:
                journal.rotate_keys(SCOPE, ACTOR)
        head = journal.store.head(SCOPE)
        frames = [event.frame for event in journal.store.read(SCOPE, 0, head.cursor)]
        parts = [journal.store.body(SCOPE, cursor, part) for cursor in range(1, head.cursor + 1) for part in Part]
        tokens = journal.projection_key(SCOPE, "lexical", 1)
        if interleaved:
            assert journal.store.head(OTHER).cursor == interleaved + steps
    keys = {found.name: found.read_bytes() for found in (path / "keys").glob(f"{SCOPE.tag.hex()}*")}
    return head, frames, parts, tokens, keys


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return live(tmp_path_factory.mktemp("alone") / "store", 0)


def test_ten_thousand_events_of_another_scope_change_no_byte(tmp_path, alone):
    assert live(tmp_path / "store", EVENTS_OF_THE_OTHER) == alone


def test_the_same_again_is_the_same(tmp_path, alone):
    assert live(tmp_path / "store", 0) == alone


def test_another_seed_is_another_store(tmp_path, alone):
    _, frames, parts, tokens, keys = live(tmp_path / "store", 0, b"another seed")
    assert set(frames).isdisjoint(alone[1])
    assert (set(parts) - {None}).isdisjoint(alone[2])
    assert tokens != alone[3]
    assert all(keys[name] != found for name, found in alone[4].items() if found)
