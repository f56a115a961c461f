"""Catch-up on read: whatever stands in the way, an answer is as of the head, or there is none."""

from __future__ import annotations

import random
import shutil
import threading
import time
from contextlib import contextmanager

import lmdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from journal.errors import BlobMissing, JournalCorrupt, ProjectionStale, StoreUnavailable
from journal.events import EventType
from journal.lifecycle import Operation
from journal.scope import Scope
from projections import catchup
from projections.catchup import Projections
from projections.lexical.tokens import query_terms
from projections.serving import make_projections
from projections.tail import Tail
from tests.projections.histories import (
    NOON,
    PURPOSE,
    SCOPE,
    WORDS,
    Author,
    MemoryJournal,
    candidate,
    make,
    payload_of,
    record,
    scribble,
)
from tests.projections.processes import Process


@pytest.fixture
def author():
    return Author()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "projections"


@pytest.fixture
def projections(author, path):
    with Projections(author.journal, SCOPE, path, make) as opened:
        yield opened


def cursors(projections, word, deadline=None):
    with projections.snapshot(deadline) as snapshot:
        return snapshot.reader("words").cursors(word)


def persisted(projections):
    return {status["name"]: status["cursor"] for status in projections.statuses()}


@contextmanager
def busy(projections, *names):
    """Hold the write claims of some projections, as another process that folds does."""
    held = []
    for name in names or projections.names:
        generation = projections.generations(name).open_or_begin(0, None)
        assert generation.environment.claim(None)
        held.append(generation)
    try:
        yield held
    finally:
        for generation in held:
            generation.environment.unclaim()
            generation.release()


# --- catching up ----------------------------------------------------------------------------------


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


# --- over what is persisted -----------------------------------------------------------------------


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
    folded = []
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


def test_a_fold_that_fails_in_memory_leaves_nothing_half_done(author, projections, monkeypatch):
    author.accepted(1, payload_of("word"))
    cursors(projections, "word")
    with busy(projections):
        author.accepted(2, payload_of("word"))
        fail = {"now": True}
        fold = type(projections.generations("words").projection).fold

        def failing(self, txn, databases, events):
            fold(self, txn, databases, events)
            if fail["now"]:
                raise BlobMissing

        monkeypatch.setattr("tests.projections.histories.Words.fold", failing)
        with pytest.raises(BlobMissing):
            cursors(projections, "word")
        fail["now"] = False
        assert cursors(projections, "word") == [1, 3]


@pytest.mark.parametrize("error", [BlobMissing, JournalCorrupt, ZeroDivisionError])
def test_a_fold_that_fails_leaves_the_generation_as_it_was(author, projections, monkeypatch, error):
    author.accepted(1, payload_of("word"))
    cursors(projections, "word")
    author.accepted(2, payload_of("word"))
    with monkeypatch.context() as patched:
        patched.setattr(author.journal, "payload", lambda scope, subject: (_ for _ in ()).throw(error))
        with pytest.raises(error):
            cursors(projections, "word")
    assert persisted(projections) == {"current": 2, "words": 2}
    assert cursors(projections, "word") == [1, 3]


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
        assert list(path.iterdir()) == []


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


def test_refreshing_lets_go_of_what_was_replaced(author, projections):
    author.accepted(1)
    cursors(projections, "x")
    generations = projections.generations("words")
    built = generations.build(0, None, fresh=False)
    built.environment.unclaim()
    generations.adopt(built, None)
    built.release()
    assert generations.sweep(None) == ["00000001"]
    projections.refresh()
    assert generations.sweep(None) == []


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
            snapshot.lexical.search(query_terms(word), 5, lambda cursors: current.eligible(cursors, now, (PURPOSE,)))
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
