"""Compacting the messages of a scope by copying: blocks, postings and rows hold nothing of what was erased."""

from __future__ import annotations

import numpy as np

from journal.events import EventType
from projections.lexical.tables import DOCUMENT_ROW
from projections.messages.shelves import Shelf, shelf_names
from replay.rebuild import compact, verify
from tests.tools.conversation.talks import speaker
from tests.tools.memory.world import NOW, SCOPE


def digests(projections):
    with projections.snapshot() as snapshot:
        return {name: snapshot.digest(name) for name in snapshot.names}


def remains(projections):
    """Return how many bits signatures have that were taken away, and how many rows documents that are out of force."""
    with projections.snapshot(names=["messages"]) as snapshot:
        state = snapshot._states["messages"]
        bits = 0
        for owner, size in shelf_names(state.txn, state.tables):
            shelf = Shelf(state.txn, state.tables, owner, size)
            matrix = np.concatenate([matrix for _, matrix in shelf.stretches()])
            bits += int(np.unpackbits(matrix[shelf.all_rows()["cursor"] == 0]).sum())
        in_force = sum(1 for _ in state.txn.cursor(db=state.tables[b"ordinals"]))
        size = DOCUMENT_ROW.itemsize
        rows = b"".join(bytes(value) for _, value in state.txn.cursor(db=state.tables[b"documents"]))
        filled = sum(any(rows[at : at + size]) for at in range(0, len(rows), size))
        return bits, filled - in_force


def test_what_was_erased_is_in_no_block_and_in_no_row(world):
    one = speaker(world)
    projections, journal = one.engine.projections(SCOPE), one.engine.journal
    ids = one.tell([f"message {number} about plums and pears" for number in range(150)], at=range(NOW, NOW + 150))
    one.look("plums")
    for message_id in ids[::3]:
        one.move(EventType.MESSAGE_ERASED, message_id)
    journal.finish_destructions(SCOPE)
    before = digests(projections)
    bits, rows = remains(projections)
    assert bits > 0
    assert rows > 0
    result = compact(projections)
    assert result.complete
    assert remains(projections) == (0, 0)
    assert digests(projections) == before
    assert all(found.ok for found in verify(projections))
    assert len(one.ids("plums", limit=50)) == 50
    more = one.tell(["one more about plums"])
    assert more[0] in one.ids("more")
    assert all(found.ok for found in verify(projections))
