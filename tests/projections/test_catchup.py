"""Catch-up on read: whatever stands in the way, an answer is as of the head, or there is none."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter

import pytest

from journal.errors import ProjectionStale
from journal.scope import Scope
from projections import catchup
from projections.catchup import Projections
from projections.generation import Generation
from projections.tail import Tail
from tests.projections.histories import (
    NOON,
    PURPOSE,
    SCOPE,
    Author,
    MemoryJournal,
    candidate,
    make,
    payload_of,
    record,
    scribble,
)
from tests.projections.reads import busy, cursors, persisted


def test_an_empty_journal_is_read_at_cursor_zero(projections):
    with projections.snapshot() as snapshot:
        assert (snapshot.cursor, snapshot.head_hash) == (0, bytes(32))
        assert snapshot.names == ["current", "words"]
        assert snapshot.current.accepted_current == 0


def test_what_was_accepted_a_moment_ago_is_found(author, projections):
    for number in range(5):
        cursor = author.accepted(number, payload_of(f"word{number}"))
        assert cursors(projections, f"word{number}") == [cursor]
    head = author.journal.store.head(SCOPE)
    assert persisted(projections) == {"current": head.cursor, "words": head.cursor}
    with projections.snapshot() as snapshot:
        assert (snapshot.cursor, snapshot.head_hash) == (head.cursor, head.hash)
        assert (snapshot.version("words"), snapshot.generation("words")) == (1, "00000001")


def test_a_snapshot_stays_what_it_was(author, projections):
    cursor = author.accepted(1, payload_of("before"))
    with projections.snapshot() as older:
        author.accepted(2, payload_of("before"))
        with projections.snapshot() as newer:
            assert len(newer.reader("words").cursors("before")) == 2
        assert older.reader("words").cursors("before") == [cursor]
        assert older.current.lookup(record(2)) is None
    assert older.cursor == 2


def test_a_payload_is_opened_once_for_all_projections(author, projections):
    author.accepted(1)
    cursors(projections, "x")
    assert author.journal.opened == [candidate(1)]


def test_a_large_payload_is_not_kept(author, projections, monkeypatch):
    monkeypatch.setattr("journal.limits.PAYLOAD_KEPT_MAX_CHARACTERS", 3)
    author.accepted(1, payload_of("four"))
    assert cursors(projections, "four") == [1]
    assert author.journal.opened == [candidate(1)] * 2


def test_no_more_payloads_are_kept_than_have_room(author, projections, monkeypatch):
    monkeypatch.setattr("journal.limits.PAYLOADS_KEPT_MAX_CHARACTERS", 9)
    for number in (1, 2, 3):
        author.accepted(number, payload_of("four"))
    assert cursors(projections, "four") == [1, 3, 5]
    assert Counter(author.journal.opened) == {candidate(1): 1, candidate(2): 1, candidate(3): 2}


def test_long_tails_are_folded_in_pages(author, projections, monkeypatch):
    monkeypatch.setattr("journal.limits.CATCHUP_PAGE_EVENTS", 3)
    scribble(author, random.Random(1), 40)
    head = author.journal.store.head(SCOPE).cursor
    assert cursors(projections, "x") == []
    assert persisted(projections) == {"current": head, "words": head}


def test_one_scope_is_not_the_other(author, path):
    other = Author(MemoryJournal(Scope.of("tenant:test", "workspace:other")))
    other.accepted(1, payload_of("theirs"))
    author.accepted(1, payload_of("ours"))
    with (
        Projections(author.journal, SCOPE, path, make) as ours,
        Projections(other.journal, other.journal.scope, path, make) as theirs,
    ):
        assert (cursors(ours, "ours"), cursors(ours, "theirs")) == ([1], [])
        assert (cursors(theirs, "ours"), cursors(theirs, "theirs")) == ([], [1])


# --- what nobody wrote ----------------------------------------------------------------------------


@pytest.mark.parametrize("error", [IndexError, ValueError, KeyError, TypeError, OverflowError, MemoryError])
def test_an_error_of_no_code_has_the_projections_rebuilt_once(author, projections, error):
    """A changed byte makes of a row whatever it makes; a second time it is the program, which no rebuild mends."""
    author.accepted(1, payload_of("word"))
    with pytest.raises(ProjectionStale, match=error.__name__), projections.snapshot():
        raise error
    with projections.snapshot() as snapshot:
        assert (snapshot.generation("current"), snapshot.generation("words")) == ("00000002", "00000002")
    with pytest.raises(error), projections.snapshot():
        raise error
    assert cursors(projections, "word") == [1]
    assert projections.generations("words").current() == "00000002"


def test_so_has_one_that_a_fold_comes_upon(author, projections, monkeypatch):
    author.accepted(1, payload_of("word"))
    assert cursors(projections, "word") == [1]
    real, broken = Generation.fold, [True]

    def fold(generation, page, upto):
        if broken:
            broken.pop()
            raise IndexError
        return real(generation, page, upto)

    monkeypatch.setattr(Generation, "fold", fold)
    author.accepted(2, payload_of("word"))
    assert cursors(projections, "word") == [1, 3]
    assert projections.generations("words").current() == "00000002"


# --- deadlines ------------------------------------------------------------------------------------


def test_past_the_deadline_there_is_no_old_answer(author, projections):
    author.accepted(1)
    cursors(projections, "x")
    author.accepted(2)
    with pytest.raises(ProjectionStale):
        cursors(projections, "x", deadline=time.monotonic() - 1)
    with busy(projections), pytest.raises(ProjectionStale):
        cursors(projections, "x", deadline=time.monotonic() - 1)
    assert persisted(projections) == {"current": 2, "words": 2}
    cursors(projections, "x")
    assert cursors(projections, "x", deadline=time.monotonic() - 1) == []  # nothing was to be folded


def test_a_rebuild_that_does_not_fit_a_deadline_goes_on_with_the_next_call(author, projections, monkeypatch):
    monkeypatch.setattr("journal.limits.CATCHUP_PAGE_EVENTS", 2)
    author.accepted(1, payload_of("word"))
    author.accepted(2, payload_of("word"))
    looks = iter([None])

    def passed_after_one_page(_):
        if next(looks, "passed"):
            raise ProjectionStale

    with monkeypatch.context() as patched:
        patched.setattr(catchup, "check_deadline", passed_after_one_page)
        with pytest.raises(ProjectionStale):
            cursors(projections, "word")
    assert persisted(projections) == {"current": 2, "words": 2}
    assert cursors(projections, "word") == [1, 3]
    assert author.journal.opened == [candidate(1), candidate(2)]  # nothing was folded twice


def test_a_far_tail_is_waited_for_and_not_folded_in_memory(author, projections, monkeypatch):
    monkeypatch.setattr("journal.limits.OVERLAY_MAX_EVENTS", 3)
    author.accepted(1, payload_of("word"))
    cursors(projections, "word")
    with busy(projections):
        author.accepted(2, payload_of("word"))
        author.accepted(3, payload_of("word"))
        with pytest.raises(ProjectionStale):
            cursors(projections, "word", deadline=time.monotonic() + 0.05)
    assert cursors(projections, "word") == [1, 3, 5]


def test_when_the_writer_gets_near_enough_the_waiting_ends(author, projections, monkeypatch):
    monkeypatch.setattr("journal.limits.OVERLAY_MAX_EVENTS", 2)
    cursors(projections, "word")
    with busy(projections) as generations:
        author.accepted(1, payload_of("word"))
        author.accepted(2, payload_of("word"))
        found = []
        reader = threading.Thread(target=lambda: found.append(cursors(projections, "word")))
        reader.start()
        for generation in generations:
            generation.fold(Tail(author.journal, SCOPE).page(0), 2)
        reader.join()
        assert found == [[1, 3]]
        assert persisted(projections) == {"current": 2, "words": 2}


def test_a_writer_that_stopped_is_not_waited_for_for_ever(author, projections, monkeypatch):
    monkeypatch.setattr("journal.limits.OVERLAY_MAX_EVENTS", 3)
    monkeypatch.setattr("journal.limits.PROJECTION_STUCK_SECONDS", 0.05)
    author.accepted(1, payload_of("word"))
    cursors(projections, "word")
    with busy(projections):
        for number in range(2, 6):
            author.accepted(number, payload_of("word"))
        assert cursors(projections, "word") == [1, 3, 5, 7, 9]
        author.accepted(6, payload_of("word"))
        assert cursors(projections, "word", time.monotonic() + 60) == [1, 3, 5, 7, 9, 11]
        assert persisted(projections) == {"current": 2, "words": 2}
        with projections.snapshot() as snapshot:
            assert snapshot.generation("words") == "aside"
    assert cursors(projections, "word") == [1, 3, 5, 7, 9, 11]
    with projections.snapshot() as snapshot:
        assert snapshot.generation("words") == "00000001"
    assert persisted(projections) == {"current": 12, "words": 12}


# --- figures, threads, upkeep ---------------------------------------------------------------------


def test_statuses_say_where_each_stands(author, projections):
    named = {"tenant_id": SCOPE.tenant_id, "workspace_id": SCOPE.workspace_id, "version": 1}
    assert projections.statuses()[0] == {
        "name": "current", **named, "cursor": 0, "head_cursor": 0, "digest": None, "state": "absent",
    }  # fmt: skip
    author.accepted(1)
    with projections.snapshot() as snapshot:
        digests = {name: snapshot.digest(name) for name in snapshot.names}
    for status in projections.statuses():
        assert (status["state"], status["digest"]) == ("current", digests[status["name"]])
        assert len(status["digest"]) == len("blake3:") + 64
    author.accepted(2)
    assert [(s["state"], s["cursor"], s["head_cursor"]) for s in projections.statuses()] == [("behind", 2, 4)] * 2
    (projections.generations("words").path / "00000001" / "data.mdb").unlink()
    assert [status["state"] for status in projections.statuses()] == ["behind", "unusable"]


def test_a_digest_binds_scope_cursor_and_projection(author, tmp_path):
    other = Author(MemoryJournal(Scope.of("tenant:test", "workspace:other")))
    digests = set()
    for writer, at in ((author, "a"), (other, "b")):
        with Projections(writer.journal, writer.journal.scope, tmp_path / at, make) as projections:
            for _ in range(2):
                with projections.snapshot() as snapshot:
                    digests |= {snapshot.digest(name) for name in snapshot.names}
                writer.control()
    assert len(digests) == 8


def test_many_threads_each_see_their_own_head(author, projections):
    lock, failures = threading.Lock(), []

    def work(first):
        try:
            for number in range(first, first + 10):
                with lock:
                    cursor = author.accepted(number, payload_of(f"word{number}"))
                with projections.snapshot() as snapshot:
                    assert snapshot.cursor >= cursor + 1
                    assert snapshot.reader("words").cursors(f"word{number}") == [cursor]
                    assert snapshot.current.eligible([cursor], NOON, (PURPOSE,)).tolist() == [True]
        except BaseException as error:  # noqa: BLE001 - told to the test
            failures.append(error)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(0, 60, 10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_closing_marks_everything_clean_for_the_next_boot(author, path):
    author.accepted(1, payload_of("word"))
    with Projections(author.journal, SCOPE, path, make) as projections:
        cursors(projections, "word")
    marks = list(path.rglob("MARK"))
    assert len(marks) == 2
    for mark in marks:
        mark.write_text(mark.read_text().replace('"boot":"', '"boot":"another '))
    with Projections(author.journal, SCOPE, path, make) as projections:
        assert set(persisted(projections).values()) == {2}
        assert cursors(projections, "word") == [1]
        with projections.snapshot() as snapshot:
            assert snapshot.generation("words") == "00000001"


def test_a_machine_that_went_down_costs_a_rebuild(author, path):
    author.accepted(1, payload_of("word"))
    with Projections(author.journal, SCOPE, path, make) as projections:
        cursors(projections, "word")
    for mark in path.rglob("MARK"):
        text = mark.read_text().replace('"boot":"', '"boot":"another ')
        mark.write_text(text.replace('"clean":true', '"clean":false'))
    with Projections(author.journal, SCOPE, path, make) as projections:
        assert cursors(projections, "word") == [1]
        with projections.snapshot() as snapshot:
            assert snapshot.generation("words") == "00000002"
        assert projections.generations("words").numbers() == ["00000002"]


def test_upkeep_does_what_folds_left(author, projections, monkeypatch):
    author.accepted(1, payload_of("word"))
    cursors(projections, "word")
    assert not projections.upkeep()
    left = [b"one", b"two"]

    def work(self, txn, databases):
        if left:
            txn.put(left.pop(), b"", db=databases[b"subjects"])
            return True
        return False

    monkeypatch.setattr("tests.projections.histories.Words.upkeep", work, raising=False)
    with busy(projections, "words"):
        assert not projections.upkeep()
    assert [projections.upkeep() for _ in range(3)] == [True, True, False]
    assert cursors(projections, "word") == [1]


def test_refreshing_removes_what_nobody_has(author, projections):
    author.accepted(1)
    cursors(projections, "x")
    generations = projections.generations("words")
    built = generations.build(0, None, fresh=False)
    built.environment.unclaim()
    generations.adopt(built, None)
    built.release()
    projections.refresh()
    assert generations.numbers() == ["00000002"]
