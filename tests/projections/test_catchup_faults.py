"""What must not be served is rebuilt; what was deleted or cannot be written holds up no answer."""

from __future__ import annotations

import random
import shutil

import lmdb
import pytest

from journal.errors import ProjectionStale, StoreUnavailable
from journal.events import EventType
from journal.lifecycle import Operation
from projections.aside import is_held_aside
from projections.catchup import Projections
from tests.projections.histories import (
    NOON,
    SCOPE,
    Author,
    make,
    payload_of,
    scribble,
)
from tests.projections.reads import busy, cursors

# --- what must not be served ----------------------------------------------------------------------


def test_a_journal_that_was_rolled_back_is_folded_anew(author, path):
    author.accepted(1, payload_of("kept"))
    with Projections(author.journal, SCOPE, path, make) as projections:
        author.accepted(2, payload_of("undone"))
        assert cursors(projections, "undone") == [3]
        del author.journal.store.events[2:]
        assert (cursors(projections, "kept"), cursors(projections, "undone")) == ([1], [])
        with projections.snapshot() as snapshot:
            assert (snapshot.cursor, snapshot.generation("words")) == (2, "00000002")


@pytest.mark.parametrize("more", [0, 1, 5])
def test_a_journal_that_went_another_way_is_folded_anew(author, path, more):
    author.accepted(1, payload_of("ours"))
    with Projections(author.journal, SCOPE, path, make) as projections:
        assert cursors(projections, "ours") == [1]
    other = Author()
    other.now = NOON + 1
    other.accepted(1, payload_of("theirs"))
    for number in range(more):
        other.accepted(2 + number, payload_of("theirs"))
    with Projections(other.journal, SCOPE, path, make) as projections:
        assert cursors(projections, "ours") == []
        assert len(cursors(projections, "theirs")) == 1 + more


@pytest.mark.parametrize("in_memory", [False, True])
@pytest.mark.parametrize(
    ("related", "rebuilt"), [("words", {"words"}), ("vector", set()), (None, {"words", "current"})]
)
def test_an_event_takes_projections_out_of_force(author, projections, related, rebuilt, in_memory):
    author.accepted(1, payload_of("word"))
    cursors(projections, "word")
    author.control(EventType.PROJECTION_INVALIDATED, related)
    if in_memory:
        with busy(projections):
            assert cursors(projections, "word") == [1]
    for _ in range(2):
        author.accepted(author.journal.store.head(SCOPE).cursor)
        assert cursors(projections, "word") == [1]
    with projections.snapshot() as snapshot:
        assert {name for name in snapshot.names if snapshot.generation(name) != "00000001"} == rebuilt


def test_broken_content_is_rebuilt(author, projections):
    cursor = author.accepted(1, payload_of("word"))
    cursors(projections, "word")
    with pytest.raises(ProjectionStale), projections.snapshot():
        raise lmdb.CorruptedError("a page that cannot be")
    assert cursors(projections, "word") == [cursor]
    with projections.snapshot() as snapshot:
        assert snapshot.generation("words") == "00000002"


def test_another_error_of_lmdb_is_an_unavailable_store(author, projections):
    with pytest.raises(StoreUnavailable), projections.snapshot():
        raise lmdb.DiskError("no space left")
    with projections.snapshot() as snapshot:
        assert snapshot.generation("words") == "00000001"


def test_broken_content_met_while_folding_is_rebuilt(author, projections, monkeypatch):
    author.accepted(1, payload_of("word"))
    cursors(projections, "word")
    author.accepted(2, payload_of("word"))
    fold = type(projections.generations("words").projection).fold
    broken = iter([True])

    def once(self, txn, databases, events):
        if next(broken, False):
            raise lmdb.PageNotFoundError("a page that cannot be")
        fold(self, txn, databases, events)

    monkeypatch.setattr("tests.projections.histories.Words.fold", once)
    assert cursors(projections, "word") == [1, 3]
    with projections.snapshot() as snapshot:
        assert (snapshot.generation("words"), snapshot.generation("current")) == ("00000002", "00000001")


# --- deletion, places that cannot be written ------------------------------------------------------


def test_deleting_everything_at_rest_is_safe(author, path):
    scribble(author, random.Random(3), 60)
    digests = []
    for _ in range(2):
        with Projections(author.journal, SCOPE, path, make) as projections, projections.snapshot() as snapshot:
            digests.append([snapshot.digest(name) for name in snapshot.names])
        shutil.rmtree(path)
    assert digests[0] == digests[1]


def test_deleting_everything_under_a_live_process_is_survived(author, projections, path):
    for number in range(6):
        cursor = author.accepted(number, payload_of(f"word{number}"))
        with projections.snapshot() as held:
            shutil.rmtree(path, ignore_errors=True)
            assert held.reader("words").cursors(f"word{number}") == [cursor]
            assert cursors(projections, f"word{number}") == [cursor]
            assert held.reader("words").cursors(f"word{number}") == [cursor]
    assert path.is_dir()


def test_deleting_one_projection_or_its_name_is_survived(author, projections, path):
    cursor = author.accepted(1, payload_of("word"))
    for victim in ("words", "words/CURRENT", "words/00000002", "current"):
        assert cursors(projections, "word") == [cursor]
        there = path / SCOPE.tag.hex() / victim
        shutil.rmtree(there) if there.is_dir() else there.unlink()
    assert cursors(projections, "word") == [cursor]


def test_a_store_that_cannot_be_written_is_read_from_a_place_of_our_own(author, path, monkeypatch):
    cursor = author.accepted(1, payload_of("word"))
    path.mkdir()

    def refuse(self, *_):
        raise PermissionError(13, "denied")

    monkeypatch.setattr("projections.generations.Generations.open_or_begin", refuse)
    with Projections(author.journal, SCOPE, path, make) as projections:
        assert cursors(projections, "word") == [cursor]
        more = author.accepted(2, payload_of("word"))
        assert cursors(projections, "word") == [cursor, more]
        assert list(path.rglob("*")) == [path / SCOPE.tag.hex()]


def test_a_place_of_our_own_is_left_when_an_erasure_waits_for_it(author, path, monkeypatch):
    author.accepted(1, payload_of("word"))
    path.mkdir()
    monkeypatch.setattr(
        "projections.generations.Generations.open_or_begin", lambda *_: (_ for _ in ()).throw(PermissionError(13, ""))
    )
    with Projections(author.journal, SCOPE, path, make) as projections:
        assert cursors(projections, "word") == [1]
        assert is_held_aside(path, SCOPE)
        projections.refresh()
        assert is_held_aside(path, SCOPE)
        author.move(1, Operation.TOMBSTONE)
        projections.refresh()
        assert not is_held_aside(path, SCOPE)
        assert cursors(projections, "word") == []
        projections.refresh()  # what was begun after the forgetting stays
        assert is_held_aside(path, SCOPE)
    assert not is_held_aside(path, SCOPE)
