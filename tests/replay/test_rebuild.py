"""Rebuilding beside what serves: stopped, killed, raced and compared."""

from __future__ import annotations

import gc
import random
import shutil
import time
from contextlib import suppress

import pytest

from journal.errors import ProjectionStale
from journal.events import EventType
from journal.lifecycle import Operation
from projections.aside import Aside
from projections.generations import BuildingBusy
from replay import rebuild as rebuilding
from replay.rebuild import collecting_seldom, invalidate, rebuild, rebuild_all, sweep, verify
from tests.projections.histories import payload_of
from tests.projections.processes import Process
from tests.replay.rebuilds import (
    HOLDER,
    REBUILDER,
    Stopped,
    builder_says,
    generation_of,
    head_of,
    served,
    stopped_after,
)

# --- rebuilding -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["current", "words"])
def test_a_rebuild_gives_the_same_content_in_a_new_generation(projections, name):
    before = served(projections)
    done = rebuild(projections, name)
    assert (done.name, done.generation, done.cursor, done.held) == (name, "00000002", head_of(projections), ())
    assert served(projections) == before
    assert generation_of(projections, name) == "00000002"
    assert projections.generations(name).numbers() == ["00000002"]


def test_several_are_rebuilt_in_one_walk_that_opens_each_payload_once(author, projections):
    before = served(projections)
    author.journal.opened.clear()
    told = []
    done = rebuild_all(projections, ["words", "current"], progress=lambda cursor, head: told.append(cursor))
    assert [(one.name, one.generation, one.cursor) for one in done] == [
        (name, "00000002", head_of(projections)) for name in projections.names if name in ("words", "current")
    ]
    assert author.journal.opened
    assert len(author.journal.opened) == len(set(author.journal.opened))
    assert told == sorted(told)
    assert served(projections) == before


def test_of_several_that_were_stopped_each_goes_on_where_it_was(projections):
    before = served(projections)
    with pytest.raises(Stopped):
        rebuild(projections, "words", progress=stopped_after(3))
    told = []
    rebuild_all(projections, projections.names, progress=lambda cursor, head: told.append(cursor))
    assert told[0] == 0
    assert served(projections) == before


def test_one_of_several_that_is_invalidated_meanwhile_is_begun_anew(author, projections):
    generation_of(projections)
    once = iter([True])

    def progress(cursor, head):
        if cursor == 10 and next(once, False):
            author.control(EventType.PROJECTION_INVALIDATED, "words")

    done = {one.name: one for one in rebuild_all(projections, projections.names, progress=progress)}
    assert {one.cursor for one in done.values()} == {head_of(projections)}
    assert projections.generations("words").floor_in_force(None) == head_of(projections)
    assert projections.generations("current").floor_in_force(None) < head_of(projections)
    assert all(one.ok for one in verify(projections))


def test_it_says_how_far_it_is(projections):
    told = []
    rebuild(projections, "words", progress=lambda cursor, head: told.append((cursor, head)))
    head = head_of(projections)
    assert told == [(cursor, head) for cursor in [*range(0, head, 5), head]]


@pytest.mark.parametrize(
    ("left", "pages"), [(0, 4), (60_000, 4), (100_000, 8), (196_607, 15), (196_608, 16), (10**9, 16)]
)
def test_a_long_journal_is_taken_in_greater_goes(left, pages):
    assert rebuilding._events_a_go(left) == pages * 512


def test_the_old_one_serves_meanwhile_and_what_comes_meanwhile_is_in(author, projections):
    generation_of(projections)
    seen: list[str] = []

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


def test_garbage_is_looked_for_seldom_until_it_is_over():
    before = gc.get_threshold()
    with suppress(KeyError), collecting_seldom():
        assert gc.get_threshold()[0] > before[0]
        raise KeyError
    assert gc.get_threshold() == before


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
    served(projections)
    steps = iter([lambda: author.accepted(9999, payload_of("late")), lambda: author.move(9999, Operation.TOMBSTONE)])

    class Late(Aside):
        """Between the two folds the live one reads the record; then it is forgotten, and the fresh one cannot."""

        def fold_to(self, cursor, before_page=lambda _: None):
            next(steps, lambda: None)()
            super().fold_to(cursor, before_page)

    monkeypatch.setattr(rebuilding, "Aside", Late)
    assert all(one.ok for one in verify(projections))
    assert next(steps, None) is None
