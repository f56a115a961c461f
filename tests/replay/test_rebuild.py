"""Rebuilding beside what serves: stopped, killed, raced, compared, and for an erasure's sake."""

from __future__ import annotations

import random
import shutil
import time

import pytest

from journal import layout
from journal.errors import InvalidSchema, ProjectionStale
from journal.events import EventType
from journal.lifecycle import Operation
from projections.aside import Aside, as_of
from projections.catchup import Projections
from projections.generations import BuildingBusy
from projections.serving import make_projections
from replay import rebuild as rebuilding
from replay.rebuild import compact, coverage, invalidate, rebuild, sweep, verify
from tests.projections.histories import NOON, PURPOSE, SCOPE, Author, make, payload_of, record, scribble
from tests.projections.processes import Process
from tests.projections.stores import Store, created

REBUILDER = """
from pathlib import Path
from journal import limits
from replay.rebuild import rebuild, compact
from tests.projections.stores import Store
from projections.generations import BuildingBusy, Generations
limits.CATCHUP_PAGE_EVENTS = 5
build = Generations.build
def told(*arguments, **options):
    try:
        return build(*arguments, **options)
    except BuildingBusy:
        say("busy")
        raise
Generations.build = told
store = Store(Path(sys.argv[1]))
projections = store.projections()
def progress(cursor, head):
    say(cursor, head)
    if sys.argv[2] == "stepwise":
        wait()
done = rebuild(projections, "words", progress=progress, wait="wait" in sys.argv)
say("done", done.generation, done.cursor)
projections.close()
"""

HOLDER = """
from pathlib import Path
from tests.projections.stores import Store
store = Store(Path(sys.argv[1]))
projections = store.projections()
with projections.snapshot() as snapshot:
    say(*(snapshot.generation(name) for name in snapshot.names))
while wait() == "refresh":
    projections.refresh()
    say("refreshed")
"""


class Stopped(Exception):
    """Raised by a progress callback."""


@pytest.fixture
def author():
    author = Author()
    scribble(author, random.Random(7), 60)
    return author


@pytest.fixture
def path(tmp_path):
    return tmp_path / "projections"


@pytest.fixture
def projections(author, path, monkeypatch):
    monkeypatch.setattr("journal.limits.CATCHUP_PAGE_EVENTS", 5)
    with Projections(author.journal, SCOPE, path, make) as opened:
        yield opened


def served(projections):
    with projections.snapshot() as snapshot:
        return {name: snapshot.digest(name) for name in snapshot.names}


def generation_of(projections, name="words"):
    with projections.snapshot() as snapshot:
        return snapshot.generation(name)


def head_of(projections):
    return projections.journal.store.head(SCOPE).cursor


# --- rebuilding -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["current", "words"])
def test_a_rebuild_gives_the_same_content_in_a_new_generation(projections, name):
    before = served(projections)
    done = rebuild(projections, name)
    assert (done.name, done.generation, done.cursor, done.held) == (name, "00000002", head_of(projections), ())
    assert served(projections) == before
    assert generation_of(projections, name) == "00000002"
    assert projections.generations(name).numbers() == ["00000002"]


def test_it_says_how_far_it_is(projections):
    told = []
    rebuild(projections, "words", progress=lambda cursor, head: told.append((cursor, head)))
    head = head_of(projections)
    assert told == [(cursor, head) for cursor in [*range(0, head, 5), head]]


def test_the_old_one_serves_meanwhile_and_what_comes_meanwhile_is_in(author, projections):
    generation_of(projections)
    seen = []

    def progress(cursor, head):
        number = 1000 + len(seen)
        at = author.accepted(number, payload_of(f"meanwhile{number}"))
        with projections.snapshot() as snapshot:
            seen.append(snapshot.generation("words"))
            assert snapshot.reader("words").cursors(f"meanwhile{number}") == [at]

    rebuild(projections, "words", progress=progress)
    assert set(seen) == {"00000001"}
    with projections.snapshot() as snapshot:
        assert snapshot.generation("words") == "00000002"
        for number in range(1000, 1000 + len(seen)):
            assert len(snapshot.reader("words").cursors(f"meanwhile{number}")) == 1


def test_without_a_generation_in_force_it_makes_the_first(projections):
    done = rebuild(projections, "words")
    assert done.generation == "00000001"
    assert generation_of(projections) == "00000001"


def stopped_after(pages):
    left = iter(range(pages))

    def progress(cursor, head):
        if next(left, None) is None:
            raise Stopped

    return progress


def test_a_stopped_one_is_gone_on_with(projections):
    before = served(projections)
    with pytest.raises(Stopped):
        rebuild(projections, "words", progress=stopped_after(3))
    assert generation_of(projections) == "00000001"
    assert projections.generations("words").numbers() == ["00000001", "00000002"]
    told = []
    done = rebuild(projections, "words", progress=lambda cursor, head: told.append(cursor))
    assert (told[0], done.generation) == (15, "00000002")
    assert served(projections) == before


def test_a_fresh_one_goes_on_with_nothing(projections):
    generation_of(projections)
    with pytest.raises(Stopped):
        rebuild(projections, "words", progress=stopped_after(3))
    told = []
    rebuild(projections, "words", progress=lambda cursor, head: told.append(cursor), fresh=True)
    assert told[0] == 0
    assert projections.generations("words").numbers() == ["00000002"]


def test_a_deadline_keeps_what_is_built(projections):
    generation_of(projections)
    with pytest.raises(ProjectionStale):
        rebuild(projections, "words", deadline=time.monotonic() - 1)
    assert generation_of(projections) == "00000001"


def test_a_half_built_one_of_another_journal_is_dropped(author, projections):
    generation_of(projections)
    with pytest.raises(Stopped):
        rebuild(projections, "words", progress=stopped_after(3))
    del author.journal.store.events[8:]  # rolled back under the half-built one
    before = served(projections)
    done = rebuild(projections, "words")
    assert done.cursor == 8
    assert served(projections) == before


def test_one_that_is_invalidated_while_it_is_built_is_begun_again(author, projections):
    generation_of(projections)
    once = iter([True])

    def progress(cursor, head):
        if cursor == 10 and next(once, False):
            author.control(EventType.PROJECTION_INVALIDATED, "words")

    done = rebuild(projections, "words", progress=progress)
    assert generation_of(projections) == done.generation
    assert projections.generations("words").floor_in_force(None) == head_of(projections)


def test_deleting_everything_during_a_rebuild_costs_another_round(projections, path):
    before = served(projections)
    once = iter([True])

    def progress(cursor, head):
        if cursor == 10 and next(once, False):
            shutil.rmtree(path)

    rebuild(projections, "words", progress=progress)
    assert served(projections) == before


# --- processes ------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path):
    with Store(created(tmp_path / "store")) as opened:
        for number in range(20):
            opened.accepted(f"text{number}")
        yield opened


def test_of_two_at_once_one_is_told_and_one_that_waits_takes_it_as_its_own(store):
    with store.projections() as projections, Process(REBUILDER, store.path, "stepwise") as builder:
        before = served(projections)
        assert builder.hear() == "0 40"
        with pytest.raises(BuildingBusy):
            rebuild(projections, "words")
        with pytest.raises(ProjectionStale):
            rebuild(projections, "words", wait=True, deadline=time.monotonic() + 0.05)
        assert served(projections) == before
        with Process(REBUILDER, store.path, "at once", "wait") as waiting:
            assert waiting.hear() == "busy"
            while (line := builder_says(builder)) is not None:
                assert line.split()[1] == "40"
            assert [line for line in waiting.hear_all() if line != "busy"] == ["done 00000002 40"]
        assert served(projections) == before
        assert generation_of(projections) == "00000002"


def builder_says(builder):
    builder.tell()
    line = builder.hear()
    return None if line.startswith("done") else line


def test_a_rebuild_begun_too_early_is_not_taken_as_ones_own(store):
    with store.projections() as projections, Process(REBUILDER, store.path, "stepwise") as builder:
        generation_of(projections)
        assert builder.hear() == "0 40"
        store.accepted("later")
        with Process(REBUILDER, store.path, "at once", "wait") as waiting:
            assert waiting.hear() == "busy"
            while builder_says(builder) is not None:
                pass
            *told, last = (line for line in waiting.hear_all() if line != "busy")
            assert last == "done 00000003 42"
            assert told[0] == "0 42"


def test_a_killed_rebuild_is_gone_on_with_by_another(store):
    with store.projections() as projections:
        before = served(projections)
        with Process(REBUILDER, store.path, "stepwise") as builder:
            for _ in range(3):
                builder.hear()
                builder.tell()
            assert builder.hear() == "15 40"
            builder.kill()
        assert generation_of(projections) == "00000001"
        with Process(REBUILDER, store.path, "at once") as builder:
            told = list(builder.hear_all())
        assert told[0] == "15 40"
        assert told[-1] == "done 00000002 40"
        assert served(projections) == before


def test_rebuilds_killed_at_random_moments_while_others_read_and_write_leave_it_whole(store):
    rng = random.Random(11)
    with store.projections() as projections:
        for round_number in range(6):
            with Process(REBUILDER, store.path, "at once", "wait") as builder:
                lines = builder.hear_all()  # ends early where little was left to build
                for _ in range(1 + rng.randrange(4)):
                    next(lines, None)
                store.accepted(f"round{round_number}")
                with projections.snapshot() as snapshot:
                    assert len(snapshot.reader("words").cursors(f"round{round_number}")) == 1
                builder.kill()
        assert all(one.ok for one in verify(projections))
        rebuild(projections, "words")
        assert all(one.ok for one in verify(projections))
        assert projections.generations("words").numbers() == [generation_of(projections)]


def test_a_held_generation_is_left_for_a_later_sweep(store):
    with store.projections() as projections, Process(HOLDER, store.path) as holder:
        assert holder.hear() == "00000001 00000001"
        assert rebuild(projections, "words").held == ("00000001",)
        assert sweep(projections) == ["words/00000001"]
        holder.tell("refresh")
        assert holder.hear() == "refreshed"
        assert sweep(projections) == []
        assert projections.generations("words").numbers() == ["00000002"]


# --- invalidating and verifying -------------------------------------------------------------------


def test_invalidating_takes_out_of_force_at_once(projections):
    before = served(projections)
    invalidate(projections, ["words"])
    assert projections.generations("words").current() is None
    assert [status["state"] for status in projections.statuses()] == ["current", "absent"]
    assert served(projections) == before
    assert (generation_of(projections, "words"), generation_of(projections, "current")) == ("00000002", "00000001")


def test_verifying_compares_with_a_fresh_fold(projections):
    live = served(projections)
    assert [(one.name, one.ok, one.live_digest, one.replayed_digest) for one in verify(projections)] == [
        (name, True, live[name], live[name]) for name in live
    ]


@pytest.mark.parametrize("victim", ["current", "words"])
def test_a_change_of_one_byte_is_found(author, projections, victim):
    author.accepted(9999, payload_of("word"))
    served(projections)
    generation = projections.generations(victim).open(None)
    table = generation.tables[b"chunks" if victim == "current" else b"texts"]
    generation.environment.claim(None)
    with generation.environment.writing() as txn:
        cursor = txn.cursor(db=table)
        cursor.last()
        key, value = bytes(cursor.key()), bytearray(cursor.value())
        value[-1 if victim == "words" else 2] ^= 1
        txn.put(key, bytes(value), db=table)
    generation.environment.unclaim()
    generation.release()
    assert {one.name for one in verify(projections) if not one.ok} == {victim}
    rebuild(projections, victim, fresh=True)
    assert all(one.ok for one in verify(projections))


def test_what_is_forgotten_while_verifying_is_no_finding(author, projections, monkeypatch):
    author.accepted(9998, payload_of("word"))
    served(projections)
    forgotten = iter([True])

    class Late(Aside):
        def fold_to(self, cursor, before_page=lambda _: None):
            if cursor == head_of(projections) and next(forgotten, False):
                author.accepted(9999, payload_of("late"))
                served(projections)
                author.move(9999, Operation.TOMBSTONE)
            super().fold_to(cursor, before_page)

    monkeypatch.setattr(rebuilding, "Aside", Late)
    assert all(one.ok for one in verify(projections))


# --- erasure --------------------------------------------------------------------------------------


def bytes_on_disk(path):
    return b"".join(found.read_bytes() for found in path.rglob("*") if found.is_file())


def test_after_a_compaction_no_file_holds_what_was_forgotten(store):
    projections_path = store.path / layout.PROJECTIONS
    with store.projections() as projections:
        subject, _ = store.accepted("Zanzibar")
        store.accepted("Timbuktu")
        served(projections)
        tombstone = store.forget(subject)
        served(projections)
        assert b"Zanzibar" in bytes_on_disk(projections_path)  # LMDB keeps it in a free page
        result = compact(projections, floor=tombstone)
        assert (result.complete, result.held) == (True, ())
        assert result.coverage == [
            {"projection": name, "version": 1, "generation": "00000002", "cursor": str(head_of(projections))}
            for name in ("current", "words")
        ]
        assert b"Zanzibar" not in bytes_on_disk(projections_path)
        assert b"Timbuktu" in bytes_on_disk(projections_path)
        assert all(one.ok for one in verify(projections))


def test_one_compaction_serves_all_forgettings_before_it(store):
    with store.projections() as projections:
        served(projections)
        first = store.forget(store.accepted("one")[0])
        second = store.forget(store.accepted("two")[0])
        assert compact(projections, floor=second).complete
        assert compact(projections, floor=first).complete
        assert generation_of(projections) == "00000002"
        third = store.forget(store.accepted("three")[0])
        assert not coverage(projections, third).complete
        assert compact(projections).complete
        assert coverage(projections, third).complete
        assert generation_of(projections) == "00000003"


def test_it_is_pending_as_long_as_somebody_has_an_old_generation(store):
    with store.projections() as projections, Process(HOLDER, store.path) as holder:
        assert holder.hear() == "00000001 00000001"
        tombstone = store.forget(store.accepted("word")[0])
        result = compact(projections, floor=tombstone)
        assert (result.complete, result.held) == (False, ("current/00000001", "words/00000001"))
        assert not coverage(projections, tombstone).complete
        holder.tell("refresh")
        assert holder.hear() == "refreshed"
        assert coverage(projections, tombstone).complete


def test_a_killed_holder_keeps_nothing(store):
    with store.projections() as projections, Process(HOLDER, store.path) as holder:
        holder.hear()
        tombstone = store.forget(store.accepted("word")[0])
        assert not compact(projections, floor=tombstone).complete
        holder.kill()
        assert coverage(projections, tombstone).complete


def test_what_was_half_built_before_a_forgetting_does_not_survive_its_compaction(store, monkeypatch):
    monkeypatch.setattr("journal.limits.CATCHUP_PAGE_EVENTS", 5)
    with store.projections() as projections:
        subject, _ = store.accepted("Zanzibar")
        served(projections)
        with pytest.raises(Stopped):
            rebuild(projections, "words", progress=stopped_after(9))
        tombstone = store.forget(subject)
        assert not coverage(projections, tombstone).complete
        assert compact(projections, floor=tombstone).complete
        assert b"Zanzibar" not in bytes_on_disk(store.path / layout.PROJECTIONS)


def test_what_is_half_built_after_a_replacement_is_swept_or_waited_for(store):
    """The generation in force was begun late enough, but a builder that began too early still holds its own."""
    with store.projections() as projections, Process(REBUILDER, store.path, "stepwise") as builder:
        served(projections)
        builder.hear()
        tombstone = store.forget(store.accepted("word")[0])
        with pytest.raises(ProjectionStale):
            compact(projections, floor=tombstone, deadline=time.monotonic() + 0.1)
        assert not coverage(projections, tombstone).complete
        builder.kill()
        assert compact(projections, floor=tombstone).complete


def test_a_compaction_that_was_interrupted_is_taken_up_again(store):
    with store.projections() as projections:
        served(projections)
        tombstone = store.forget(store.accepted("word")[0])
        with pytest.raises(Stopped):
            compact(projections, floor=tombstone, progress=stopped_after(2))
        assert not coverage(projections, tombstone).complete
        assert compact(projections, floor=tombstone).complete


def test_the_real_projections_hold_no_token_of_what_was_forgotten(store):
    """A keyed token that only the forgotten record had is in the files before and in none after."""
    projections_path = store.path / layout.PROJECTIONS
    with store.projections(make_projections) as projections:
        subject, _ = store.accepted("Zanzibar")
        served(projections)
        lexical = projections.generations("lexical").projection
        token = lexical._key.tokens(["zanzibar"])[0]
        assert token in bytes_on_disk(projections_path)
        assert compact(projections, floor=store.forget(subject)).complete
        assert token not in bytes_on_disk(projections_path)


# --- the past -------------------------------------------------------------------------------------


def test_the_past_is_what_was_served_then(author, path):
    seen = {}
    author = Author()
    rng = random.Random(3)
    with Projections(author.journal, SCOPE, path, make) as projections:
        for _ in range(12):
            scribble(author, rng, 4)
            with projections.snapshot() as snapshot:
                live = {row.cursor: row.state for row in snapshot.current.rows(_READABLE)}
                seen[snapshot.cursor] = (snapshot.head_hash, live)
    for cursor, (head_hash, live) in seen.items():
        with as_of(author.journal, SCOPE, make(author.journal, SCOPE), cursor) as snapshot:
            assert (snapshot.cursor, snapshot.head_hash) == (cursor, head_hash)
            assert {row.cursor: row.state for row in snapshot.current.rows(_READABLE)} == live
    assert sorted(path.iterdir()) == [path / SCOPE.tag.hex()]


_READABLE = [4, 5, 6]


def test_the_past_names_what_was_erased_since(store):
    subject, cursor = store.accepted("Zanzibar")
    head = store.journal.store.head(SCOPE).cursor
    store.forget(subject)
    with as_of(store.journal, SCOPE, make(store.journal, SCOPE), head) as snapshot:
        assert [row.record_id for row in snapshot.current.erased()] == [record(cursor)]
        assert snapshot.reader("words").cursors("Zanzibar") == []
        assert len(snapshot.reader("words").cursors("text3")) == 1
        assert snapshot.current.eligible([cursor, 1], NOON, (PURPOSE,)).tolist() == [False, True]


def test_what_the_journal_has_not_reached_is_refused(author):
    with pytest.raises(InvalidSchema), as_of(author.journal, SCOPE, make(author.journal, SCOPE), 10_000):
        pass


def test_the_past_leaves_no_file_behind(author, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "tmp").mkdir()
    with as_of(author.journal, SCOPE, make(author.journal, SCOPE), 10) as snapshot:
        assert snapshot.cursor == 10
        assert list((tmp_path / "tmp").iterdir()) == []
