"""While another process writes a generation, its tail is folded in memory, by the same fold to the same answers."""

from __future__ import annotations

import random
import shutil
import time
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from journal.errors import BlobMissing, ProjectionStale
from journal.lifecycle import Operation
from projections.catchup import Projections
from projections.lexical.question import Question
from projections.serving import make_projections
from projections.tail import Tail
from tests.projections.histories import (
    NOON,
    PURPOSE,
    SCOPE,
    WORDS,
    Author,
    candidate,
    make,
    payload_of,
    record,
    scribble,
)
from tests.projections.processes import Process
from tests.projections.reads import busy, cursors, persisted


@pytest.mark.parametrize("held", [(), ("current",), ("words",)])
def test_while_another_writes_the_tail_is_folded_in_memory(author, projections, held):
    author.accepted(1, payload_of("first"))
    assert cursors(projections, "first") == [1]
    before = persisted(projections)
    with busy(projections, *held):
        for number in range(2, 6):
            cursor = author.accepted(number, payload_of(f"word{number}"))
            with projections.snapshot() as snapshot:
                assert snapshot.cursor == cursor + 1
                assert snapshot.reader("words").cursors(f"word{number}") == [cursor]
                assert snapshot.current.lookup(record(number)).cursor == cursor
                assert snapshot.current.mask(NOON, (PURPOSE,))[cursor]
        author.move(1, Operation.TOMBSTONE)
        assert cursors(projections, "first") == []
        for name in held or projections.names:
            assert persisted(projections)[name] == before[name]
    assert cursors(projections, "word5") == [9]
    assert set(persisted(projections).values()) == {11}


def test_what_was_folded_in_memory_is_gone_on_from(author, projections, monkeypatch):
    author.accepted(1)
    cursors(projections, "x")
    folded: list[int] = []
    fold = type(projections.generations("words").projection).fold

    def counting(self, txn, databases, events):
        folded.extend(event.header.cursor for event in events)
        fold(self, txn, databases, events)

    monkeypatch.setattr("tests.projections.histories.Words.fold", counting)
    with busy(projections):
        for number in range(2, 5):
            author.accepted(number)
            cursors(projections, "x")
            cursors(projections, "x")
        assert folded == [3, 4, 5, 6, 7, 8]


def test_an_open_snapshot_over_memory_does_not_move_with_later_ones(author, projections):
    author.accepted(1, payload_of("word"))
    with busy(projections), projections.snapshot() as older:
        author.accepted(2, payload_of("word"))
        with projections.snapshot() as newer:
            assert newer.reader("words").cursors("word") == [1, 3]
        assert older.reader("words").cursors("word") == [1]
        assert cursors(projections, "word") == [1, 3]


def test_projections_that_stand_apart_are_read_at_one_cursor(author, projections):
    author.accepted(1, payload_of("word"))
    cursors(projections, "word")
    with busy(projections) as (current, _):
        author.accepted(2, payload_of("word"))
        current.fold(Tail(author.journal, SCOPE).page(2), 4)
        assert persisted(projections) == {"current": 4, "words": 2}
        with projections.snapshot() as snapshot:
            assert snapshot.cursor == 4
            assert snapshot.reader("words").cursors("word") == [1, 3]
            assert snapshot.current.accepted_current == 2


@pytest.mark.parametrize("victim", ["projections.current.Current.fold", "tests.projections.histories.Words.fold"])
def test_a_fold_that_fails_in_memory_leaves_nothing_half_done(author, projections, monkeypatch, victim):
    author.accepted(1, payload_of("word"))
    cursors(projections, "word")
    with busy(projections):
        author.accepted(2, payload_of("word"))
        cursors(projections, "word")
        author.accepted(3, payload_of("word"))
        fail = {"now": True}
        name = "current" if "current" in victim else "words"
        fold = type(projections.generations(name).projection).fold

        def failing(self, txn, databases, events):
            fold(self, txn, databases, events)
            if fail["now"]:
                raise BlobMissing

        monkeypatch.setattr(victim, failing)
        with pytest.raises(BlobMissing):
            cursors(projections, "word")
        fail["now"] = False
        assert cursors(projections, "word") == [1, 3, 5]


def test_what_was_folded_in_memory_is_dropped_when_the_writer_moved_on(author, projections):
    author.accepted(1, payload_of("word"))
    cursors(projections, "word")
    with busy(projections) as generations:
        author.accepted(2, payload_of("word"))
        cursors(projections, "word")
        author.accepted(3, payload_of("word"))
        for generation in generations:
            generation.fold(Tail(author.journal, SCOPE).page(2), 6)
        author.accepted(4, payload_of("word"))
        with projections.snapshot() as snapshot:
            assert snapshot.reader("words").cursors("word") == [1, 3, 5, 7]
            assert snapshot.current.accepted_current == 4


def test_a_writer_ahead_of_the_head_that_was_seen_is_read_at_its_own(author, projections, monkeypatch):
    """Between our look at the head and our read, another process committed and folded."""
    author.accepted(1, payload_of("word"))
    cursors(projections, "word")
    seen = author.journal.store.head(SCOPE)
    author.accepted(2, payload_of("word"))
    with busy(projections, "current") as (current,):
        current.fold(Tail(author.journal, SCOPE).page(2), 4)
        head, first = author.journal.store.head, iter([seen])
        monkeypatch.setattr(author.journal.store, "head", lambda scope: next(first, None) or head(scope))
        with projections.snapshot() as snapshot:
            assert (snapshot.cursor, snapshot.head_hash) == (4, head(SCOPE).hash)
            assert snapshot.current.accepted_current == 2
            assert snapshot.reader("words").cursors("word") == [1, 3]


def test_threads_that_read_one_overlay_change_nothing_in_it(author, projections):
    cursors(projections, "word")
    with busy(projections):
        for number in range(3):
            author.accepted(number, payload_of("word"))
            cursors(projections, "word")
            for member in projections._members:
                assert [changed for changed in member.changes.tables.values() if changed._unsorted] == []


def test_one_that_lags_far_behind_another_is_waited_for(author, projections, monkeypatch):
    """A head that was looked at before the other one moved on must not make it seem near."""
    monkeypatch.setattr("journal.limits.OVERLAY_MAX_EVENTS", 3)
    cursors(projections, "word")
    seen = author.journal.store.head(SCOPE)
    for number in range(4):
        author.accepted(number, payload_of("word"))
    with busy(projections) as (current, words):
        current.fold(Tail(author.journal, SCOPE).page(0), 8)
        head, first = author.journal.store.head, iter([seen])
        with monkeypatch.context() as patched:
            patched.setattr(author.journal.store, "head", lambda scope: next(first, None) or head(scope))
            with pytest.raises(ProjectionStale):
                cursors(projections, "word", time.monotonic() + 0.05)
        words.fold(Tail(author.journal, SCOPE).page(0), 6)
        assert cursors(projections, "word") == [1, 3, 5, 7]


def test_in_memory_too_a_payload_is_opened_once(author, projections):
    cursors(projections, "word")
    with busy(projections):
        author.accepted(1)
        cursors(projections, "word")
    assert author.journal.opened == [candidate(1)]


# --- any order ------------------------------------------------------------------------------------

_STEPS = st.lists(
    st.sampled_from(["write", "write much", "fold", "in memory", "one in memory", "delete", "reopen"]), max_size=12
)


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32), steps=_STEPS, page=st.integers(1, 40))
def test_any_order_of_folding_gives_equal_answers_and_digests(tmp_path_factory, seed, steps, page):
    path = tmp_path_factory.mktemp("any") / "projections"
    author, rng = Author(), random.Random(seed)
    projections = Projections(author.journal, SCOPE, path, make_projections)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("journal.limits.CATCHUP_PAGE_EVENTS", page)
        for step in [*steps, "fold"]:
            if step.startswith("write"):
                scribble(author, rng, 40 if "much" in step else 3)
            elif step == "delete":
                shutil.rmtree(path, ignore_errors=True)
            elif step == "reopen":
                projections.close()
                projections = Projections(author.journal, SCOPE, path, make_projections)
            else:
                held = {"in memory": ["current", "lexical"], "one in memory": [rng.choice(["current", "lexical"])]}
                with busy_or_free(projections, held.get(step, [])):
                    seen = answers(projections, author.now)
                with Projections(
                    author.journal, SCOPE, path.with_name(f"fresh{rng.random()}"), make_projections
                ) as fresh:
                    assert answers(fresh, author.now) == seen
    projections.close()


@contextmanager
def busy_or_free(projections, names):
    if not names:
        yield
    else:
        with busy(projections, *names):
            yield


def answers(projections, now):
    with projections.snapshot() as snapshot:
        current = snapshot.current
        found = [
            snapshot.lexical.search(
                Question.of(word), 5, lambda cursors: current.eligible(cursors, now, (PURPOSE,))
            ).hits
            for word in WORDS[:4]
        ]
        return [snapshot.cursor, *(snapshot.digest(name) for name in snapshot.names), current.accepted_current, found]


def test_the_search_above_finds_something(tmp_path):
    """So that equal answers are not equal for being empty."""
    author = Author()
    author.accepted(1, payload_of("the journal holds events"))
    with Projections(author.journal, SCOPE, tmp_path / "projections", make_projections) as projections:
        assert [cursor for cursor, _ in answers(projections, NOON)[-1][0]] == [1]


def test_a_killed_reader_leaves_nothing_in_the_way(author, path):
    code = """
    from pathlib import Path
    from projections.catchup import Projections
    from tests.projections.histories import SCOPE, Author, make, payload_of
    author = Author()
    author.accepted(1, payload_of("word"))
    projections = Projections(author.journal, SCOPE, Path(sys.argv[1]), make)
    with projections.snapshot() as snapshot:
        say(snapshot.reader("words").cursors("word"))
        wait()
    """
    author.accepted(1, payload_of("word"))
    with Process(code, path) as other:
        assert other.hear() == "[1]"
        other.kill()
    with Projections(author.journal, SCOPE, path, make) as projections:
        assert persisted(projections) == {"current": 2, "words": 2}
        assert cursors(projections, "word") == [1]
