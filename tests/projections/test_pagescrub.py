"""The scrub of projections beside the process that serves them."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import sys
import time
from contextlib import closing

import pytest

from journal import layout
from journal.errors import StoreUnavailable
from journal.lifecycle import Operation
from journal.walks import Ended, Walks, last_of
from projections.current_reader import NAMES
from projections.pagescrub import ProjectionScrub, found
from projections.pagewalk import in_force
from projections.serving import make_projections
from replay.rebuild import compact, rebuild
from tests.projections.processes import Process
from tests.projections.spoiling import changed, row_of
from tests.projections.stores import Store, created
from tests.replay.rebuilds import HOLDER, generation_of, served
from tests.unpaused import unpaused


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    unpaused(monkeypatch)


@pytest.fixture
def store(tmp_path):
    with Store(created(tmp_path / "store")) as opened:
        yield opened


@pytest.fixture
def path(store):
    return store.path / layout.PROJECTIONS


@pytest.fixture
def projections(store):
    with store.projections() as opened:
        yield opened


def scrubbed(path):
    """Let a scrub go on until a walk has ended; return what it took out of force."""
    with closing(ProjectionScrub(path, time.time())) as scrub:
        scrub.step()
        child_of(scrub).wait()
        taken = scrub.step()
    return dict(taken)


def child_of(scrub):
    """Return the process of a walk that is under way."""
    assert scrub.walks.child is not None
    return scrub.walks.child


def test_nothing_is_found_after_whatever_a_generation_lived_through(store, path):
    chance = random.Random(5)
    with store.projections(make_projections) as projections:
        subjects = [store.accepted(f"plum{number} pear apple{number % 7}")[0] for number in range(40)]
        served(projections)
        assert len(list(in_force(path))) == len(projections.names)
        for subject in chance.sample(subjects, 12):
            store.move(subject, chance.choice([Operation.DISPUTE, Operation.MARK_NON_CURRENT, Operation.EXPIRE]))
            served(projections)
        while projections.upkeep():
            pass
        assert scrubbed(path) == {}
        newest = [store.forget(subjects[number]) for number in chance.sample(range(40), 9)][-1]
        served(projections)
        assert compact(projections, floor=newest).complete
        assert scrubbed(path) == {}
        rebuild(projections, "lexical")
        store.accepted("quince")
        served(projections)
        assert scrubbed(path) == {}
    assert scrubbed(path) == {}, "nobody has them open"
    last = last_of(path)
    assert last is not None
    assert last.took_seconds > 0


@pytest.mark.parametrize(
    ("name", "table", "at"), [("words", b"words", -1), ("words", b"words", 0), ("current", b"subjects", -1)]
)
def test_a_changed_row_is_found_and_built_anew(store, path, projections, name, table, at):
    """Another answer, or none of what is there, with nothing to tell it by; after the walk it is right again."""
    for number in range(20):
        store.accepted(f"plum{number}")
    before = served(projections)
    changed(path, name, row_of(projections, name, table), at)
    assert served(projections)[name] != before[name], "nothing looks at a page that is mapped"
    (taken,) = scrubbed(path)
    assert taken.split("/")[1:] == [name, "00000001"]
    assert served(projections) == before
    assert generation_of(projections, name) == "00000002"
    assert scrubbed(path) == {}


def test_a_row_that_no_digest_covers_is_found_too(store, path, projections):
    store.accepted("plum")
    served(projections)
    changed(path, "current", row_of(projections, "current", NAMES), 0)
    assert list(scrubbed(path).values()) == [f"rows are not what was written: {NAMES.decode()}"]


def test_another_process_learns_of_it_too(store, path, projections):
    store.accepted("plum")
    served(projections)
    with Process(HOLDER, store.path) as other:
        assert other.hear() == "00000001 00000001"
        changed(path, "words", row_of(projections, "words", b"words"), 0)
        assert scrubbed(path)
        other.tell("refresh")
        assert other.hear() == "refreshed"
    assert generation_of(projections) == "00000002"


def test_a_file_that_was_cut_is_found(store, path, projections):
    store.accepted("plum")
    before = served(projections)
    projections.close()
    (name, *_) = in_force(path)
    os.truncate(path / name / "data.mdb", 8192)
    assert list(scrubbed(path)) == [name]
    with store.projections() as again:
        assert served(again) == before


def test_what_is_deleted_meanwhile_is_no_finding(store, path, projections):
    store.accepted("plum")
    served(projections)
    with closing(ProjectionScrub(path, time.time())) as scrub:
        scrub.step()
        for each in path.glob("*/*/"):
            shutil.rmtree(each)
        child_of(scrub).wait()
        assert scrub.step() == {}
    assert scrubbed(path) == {}


def test_a_walk_that_somebody_ended_says_nothing(store, path, projections):
    store.accepted("plum")
    served(projections)
    with closing(ProjectionScrub(path, time.time())) as scrub:
        scrub.step()
        child_of(scrub).send_signal(signal.SIGKILL)
        child_of(scrub).wait()
        assert scrub.step() == {}
    assert generation_of(projections) == "00000001"


def test_closing_ends_a_walk(store, path, projections):
    served(projections)
    scrub = ProjectionScrub(path, time.time())
    scrub.step()
    child = child_of(scrub)
    scrub.close()
    assert child.returncode == -signal.SIGKILL
    assert last_of(path) is None


def test_what_a_walk_died_of_is_laid_on_the_generation_that_it_named_last():
    died = Ended(-signal.SIGBUS, b"begun\n" + b"a/words/00000001\n" + b"a/current/00000007\n")
    assert list(found(died)) == ["a/current/00000007"]


@pytest.mark.parametrize(
    "ended",
    [
        Ended(0, b""), Ended(0, b"begun\n"), Ended(-9, b"begun\na/words/00000001\n"), Ended(-7, b""),
        Ended(1, b"begun\n{}\n"), Ended(-11, b"begun\n{}\n"), Ended(0, b"begun\na/words/00000001\n"),
        Ended(-11, b"begun\n"),
    ],
)  # fmt: skip
def test_a_walk_that_could_not_be_made_says_nothing(ended):
    with pytest.raises(StoreUnavailable):
        found(ended)


def test_a_walk_over_more_generations_than_a_pipe_holds_names_of_comes_to_its_end(store, path, projections):
    served(projections)
    says = """
print("begun")
for number in range(5_000):
    print(f"{number:032x}/words/00000001")
print("{}")
"""
    with closing(Walks(path, time.time(), [sys.executable, "-c", says])) as walks:
        walks.step()
        until = time.monotonic() + 20
        while (ended := walks.step()) is None:
            assert time.monotonic() < until
            time.sleep(0.01)
    assert found(ended) == {}
    assert len(ended.output) > 200_000


def test_a_process_that_has_a_thousand_files_open_hears_its_walk_too(store, path, projections):
    served(projections)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4_096, hard), hard))
    held = [os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC) for _ in range(1_100)]
    try:
        assert scrubbed(path) == {}
    finally:
        for fd in held:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
