"""Generations on disk: which is in force, how one replaces another, and when an old one goes."""

from __future__ import annotations

import shutil
import stat
import threading
import time

import pytest

from journal.errors import ProjectionStale
from projections.environment import Unusable
from projections.generations import BuildingBusy, Generations
from projections.inforce import CURRENT
from projections.locks import InodeLock
from projections.tail import Tail
from tests.projections.histories import SCOPE, Author, Words
from tests.projections.processes import Process

HOLDER = """
from pathlib import Path
from projections.generations import Generations
from tests.projections.histories import SCOPE, Words
generations = Generations(Path(sys.argv[1]), Words(), SCOPE)
if sys.argv[2] == "build":
    generation = generations.build(0, None, fresh=False)
else:
    generation = generations.open_or_begin(0, None)
say(generation.number)
wait()
generation.release()
say("released")
wait()
"""


@pytest.fixture
def generations(path):
    return Generations(path, Words(), SCOPE)


def fold(generation, author, upto=None):
    assert generation.environment.claim(None)
    try:
        upto = author.journal.store.head(SCOPE).cursor if upto is None else upto
        return generation.fold(Tail(author.journal, SCOPE).page(generation.position().cursor), upto)
    finally:
        generation.environment.unclaim()


def replaced(generations, floor=0):
    """Put a new generation in force beside the old one; return its number."""
    built = generations.build(floor, None, fresh=False)
    built.environment.unclaim()
    generations.adopt(built, None)
    built.release()
    return built.number


def test_the_first_to_ask_makes_the_first_generation(generations, path):
    assert generations.open(None) is None
    generation = generations.open_or_begin(7, None)
    assert (generation.number, generation.floor, generation.position().cursor) == ("00000001", 7, 0)
    assert (path / SCOPE.tag.hex() / "words" / CURRENT).read_text() == "00000001\n"
    assert generations.is_current(generation)
    generation.release()
    again = generations.open_or_begin(99, None)
    assert (again.number, again.floor) == ("00000001", 7)
    again.release()


def test_everything_is_private_to_its_owner(generations, path):
    generations.open_or_begin(0, None).release()
    for found in (path, *path.rglob("*")):
        assert stat.S_IMODE(found.stat().st_mode) == (0o700 if found.is_dir() else 0o600), found


def test_a_fold_moves_content_and_position_together(generations, author):
    author.accepted(1)
    generation = generations.open_or_begin(0, None)
    meta = fold(generation, author)
    assert (meta.cursor, meta.head_hash) == (2, author.journal.store.head(SCOPE).hash)
    assert generation.position() == meta
    author.accepted(2)
    assert fold(generation, author, upto=3).cursor == 3
    assert fold(generation, author, upto=3).cursor == 3
    assert fold(generation, author).cursor == 4
    generation.release()


def test_what_readers_keep_is_the_generations_own(generations):
    first = generations.open_or_begin(0, None)
    first.tables.kept["word"] = "here"
    same = generations.open(None)
    assert same.tables.kept == {"word": "here"}
    replaced(generations)
    other = generations.open(None)
    assert other.number != first.number
    assert other.tables.kept == {}
    for generation in (same, other, first):
        generation.release()
    assert first.environment.kept == {}


def test_a_fold_that_raises_changes_nothing(generations, author, monkeypatch):
    author.accepted(1)
    generation = generations.open_or_begin(0, None)
    fold(generation, author)
    author.accepted(2)

    def half(txn, databases, events):
        txn.put(b"half", b"done", db=databases[b"words"])
        raise ZeroDivisionError

    monkeypatch.setattr(generation.projection, "fold", half)
    with pytest.raises(ZeroDivisionError):
        fold(generation, author)
    assert generation.position().cursor == 2
    with generation.environment.reading() as txn:
        assert txn.get(b"half", db=generation.tables[b"words"]) is None
    generation.release()


def test_another_journal_is_not_folded_on(generations, author):
    author.accepted(1)
    generation = generations.open_or_begin(0, None)
    fold(generation, author)
    other = Author()
    other.accepted(2)
    other.accepted(3)
    with pytest.raises(Unusable):
        fold(generation, other)
    assert generation.position().cursor == 2
    generation.release()


@pytest.mark.parametrize("text", ["", "00000009\n", "nonsense", "../../etc\n", "1\n", "\x00" * 40, "00000001"])
def test_whatever_stands_in_current_there_is_a_generation(generations, text):
    generations.open_or_begin(0, None).release()
    (generations.path / CURRENT).write_text(text)
    generation = generations.open_or_begin(0, None)
    assert generations.is_current(generation)
    assert generation.number == {"00000001": "00000001", "00000009\n": "00000010"}.get(text, "00000002")
    generation.release()


def test_what_cannot_be_opened_is_replaced_and_removed(generations):
    generations.open_or_begin(0, None).release()
    (generations.path / "00000001" / "data.mdb").write_bytes(b"no database")
    generation = generations.open_or_begin(0, None)
    assert generation.number == "00000002"
    assert generations.numbers() == ["00000002"]
    generation.release()


@pytest.mark.parametrize("attribute", ["version", "name"])
def test_another_version_or_projection_is_replaced(path, generations, attribute):
    generations.open_or_begin(0, None).release()
    other = Words()
    setattr(other, attribute, 2 if attribute == "version" else "worse")
    if attribute == "name":
        (path / SCOPE.tag.hex() / "words").rename(path / SCOPE.tag.hex() / "worse")
    generation = Generations(path, other, SCOPE).open_or_begin(0, None)
    assert generation.number == "00000002"
    generation.release()


def test_a_newer_version_is_not_thrown_away_while_somebody_serves_it(path, generations, monkeypatch):
    older = Words()
    older.version = 0
    with Process(HOLDER, path, "open") as holder:
        assert holder.hear() == "00000001"
        with pytest.raises(ProjectionStale):
            Generations(path, older, SCOPE).open_or_begin(0, None)
        assert generations.current() == "00000001"
        holder.tell()
        assert holder.hear() == "released"
        generation = Generations(path, older, SCOPE).open_or_begin(0, None)
        assert generation.number == "00000002"
        generation.release()


def test_a_deleted_directory_is_made_anew(generations, path):
    generation = generations.open_or_begin(0, None)
    shutil.rmtree(path)
    assert not generations.is_current(generation)
    again = generations.open_or_begin(0, None)
    assert again.number == generation.number
    assert generations.is_current(again)
    assert not generations.is_current(generation)
    generation.release()
    again.release()


def test_the_lock_is_waited_for_until_the_deadline(generations):
    generations.path.mkdir(parents=True)
    lock = InodeLock(generations.path)
    assert lock.try_acquire()
    with pytest.raises(ProjectionStale):
        generations.open_or_begin(0, time.monotonic() + 0.02)
    threading.Timer(0.05, lock.release).start()
    generations.open_or_begin(0, time.monotonic() + 30).release()
    lock.close()


def test_a_lock_on_a_deleted_directory_is_none(generations):
    """Who waited for the lock of a directory that was deleted and made anew meanwhile waits for the new one's."""
    generations.path.mkdir(parents=True)
    old = InodeLock(generations.path)
    assert old.try_acquire()
    refused = []

    def ask():
        try:
            generations.open_or_begin(0, time.monotonic() + 0.3)
        except ProjectionStale:
            refused.append(True)

    thread = threading.Thread(target=ask)
    thread.start()
    time.sleep(0.05)  # so that it stands at the old one; it must be refused wherever it stands
    shutil.rmtree(generations.path)
    generations.path.mkdir()
    new = InodeLock(generations.path)
    assert new.try_acquire()
    old.close()
    thread.join()
    assert refused == [True]
    new.close()
    generations.open_or_begin(0, None).release()


def test_many_who_ask_at_once_get_one_generation(path):
    code = HOLDER.replace("say(generation.number)", "wait(); say(generation.number)")
    processes = [Process(code, path, "open") for _ in range(4)]
    try:
        for process in processes:
            process.tell()
        assert {process.hear() for process in processes} == {"00000001"}
    finally:
        for process in processes:
            process.__exit__()


# --- building ------------------------------------------------------------------------------------


def test_one_that_is_built_serves_nobody_until_it_is_adopted(generations, author):
    author.accepted(1)
    old = generations.open_or_begin(0, None)
    built = generations.build(2, None, fresh=False)
    assert (built.number, built.floor) == ("00000002", 2)
    assert generations.is_current(old)
    assert generations.sweep(None) == []
    assert generations.numbers() == ["00000001", "00000002"]
    built.environment.unclaim()
    assert generations.adopt(built, None) == "00000001"
    assert generations.is_current(built)
    assert not generations.is_current(old)
    built.release()
    old.release()


def test_a_half_built_one_is_continued_unless_a_fresh_one_is_wanted(generations, author):
    author.accepted(1)
    generations.open_or_begin(0, None).release()
    built = generations.build(1, None, fresh=False)
    meta = built.fold(Tail(author.journal, SCOPE).page(0), 1)
    built.environment.unclaim()
    built.release()
    again = generations.build(2, None, fresh=False)
    assert (again.number, again.floor, again.position()) == ("00000002", 1, meta)
    again.environment.unclaim()
    again.release()
    fresh = generations.build(2, None, fresh=True)
    assert (fresh.number, fresh.floor, fresh.position().cursor) == ("00000002", 2, 0)
    fresh.environment.unclaim()
    fresh.release()


def test_a_half_built_one_that_is_broken_is_dropped(generations):
    generations.open_or_begin(0, None).release()
    built = generations.build(0, None, fresh=False)
    built.environment.unclaim()
    built.release()
    (generations.path / built.number / "MARK").unlink()
    again = generations.build(5, None, fresh=False)
    assert again.floor == 5
    again.environment.unclaim()
    again.release()


def test_two_do_not_build_at_once(generations, path):
    generations.open_or_begin(0, None).release()
    with Process(HOLDER, path, "build") as builder:
        assert builder.hear() == "00000002"
        with pytest.raises(BuildingBusy):
            generations.build(0, None, fresh=False)
        with pytest.raises(BuildingBusy):
            generations.build(0, None, fresh=True)
        builder.kill()
        built = generations.build(0, None, fresh=False)
        assert built.number == "00000002"
        built.environment.unclaim()
        built.release()


def test_what_was_overtaken_is_not_adopted(generations):
    generations.open_or_begin(0, None).release()
    built = generations.build(0, None, fresh=False)
    built.environment.unclaim()
    (generations.path / CURRENT).unlink()
    generations.open_or_begin(0, None).release()
    with pytest.raises(Unusable):
        generations.adopt(built, None)
    built.release()


def test_what_was_deleted_is_not_adopted(generations, path):
    generations.open_or_begin(0, None).release()
    built = generations.build(0, None, fresh=False)
    built.environment.unclaim()
    shutil.rmtree(path)
    with pytest.raises(Unusable):
        generations.adopt(built, None)
    built.release()


# --- removing ------------------------------------------------------------------------------------


def test_a_replaced_one_goes_when_nobody_has_it(generations, path):
    with Process(HOLDER, path, "open") as holder:
        assert holder.hear() == "00000001"
        assert replaced(generations) == "00000002"
        assert generations.sweep(None) == ["00000001"]
        assert generations.numbers() == ["00000001", "00000002"]
        holder.tell()
        assert holder.hear() == "released"
        assert generations.sweep(None) == []
        assert generations.numbers() == ["00000002"]


def test_our_own_handle_keeps_it_too(generations):
    old = generations.open_or_begin(0, None)
    replaced(generations)
    assert generations.sweep(None) == ["00000001"]
    old.release()
    assert generations.sweep(None) == []


def test_sweeping_what_is_not_there_makes_nothing(generations, path):
    assert generations.sweep(None) == []
    assert not path.exists()


def test_condemning_takes_out_of_force_and_the_next_begins_anew(generations):
    generation = generations.open_or_begin(0, None)
    generations.condemn(generation, None)
    assert generations.current() is None
    again = generations.open_or_begin(0, None)
    assert again.number == "00000002"
    generations.condemn(generation, None)  # late, by somebody who still had it: the new one stays
    assert generations.is_current(again)
    generations.condemn(None, None)  # and one that can be opened is not condemned unseen
    assert generations.is_current(again)
    generation.release()
    again.release()


def test_the_floor_in_force(generations):
    assert generations.floor_in_force(None) == -1
    generations.open_or_begin(3, None).release()
    assert generations.floor_in_force(None) == 3
    (generations.path / "00000001" / "MARK").unlink()
    assert generations.floor_in_force(None) == -1
