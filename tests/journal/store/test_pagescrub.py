"""The scrub of a journal's pages beside the process that serves it."""

from __future__ import annotations

import errno
import signal
import time

import pytest

from journal import limits, walks
from journal.errors import JournalCorrupt, StoreUnavailable
from journal.indexes import Table
from journal.store.lmdb import pagescrub
from journal.store.lmdb.markers import DIRECTORY, Markers
from journal.store.lmdb.pagescrub import PageScrub
from journal.walks import NAME, Scrubbed, last_of
from tests.journal.peers import Peer
from tests.journal.store.history import HERE, History
from tests.journal.store.places import content, open_store
from tests.journal.store.test_rest import flipped, place_of
from tests.unpaused import unpaused


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    unpaused(monkeypatch)


@pytest.fixture
def subject(directory):
    """The key of a subject's row."""
    return next(key for key in content(directory)[Table.SUBJECT.value] if key.startswith(HERE.tag))


def walked(scrub):
    """Take steps until a walk has ended; return how."""
    before = last_of(scrub._directory)
    while last_of(scrub._directory) == before:
        scrub.step()
        time.sleep(0.01)
    return last_of(scrub._directory)


def scrubbed(store):
    """Let a store's scrub go on until a walk has ended."""
    before = last_of(store._directory)
    while last_of(store._directory) == before:
        store.scrub_pages()
        time.sleep(0.01)


def test_a_walk_over_what_is_whole_finds_nothing(directory):
    store = open_store(directory)
    scrubbed(store)
    last = last_of(directory)
    assert last is not None
    assert last.code == ""
    assert last.took_seconds > 0
    assert store.head(HERE).cursor
    store.close()


def test_a_row_that_a_changed_page_hides_is_found_and_mended_by_the_next_opening(directory, subject):
    """NOT_FOUND of what is there, until the walk; then a code, and after a restart the right answer."""
    before = content(directory)
    name = subject[16:].decode()
    at = place_of(directory, subject) + len(subject) - 1
    store = open_store(directory)
    with store.view(HERE) as view:
        assert view.subject(name) is not None
    flipped(directory, at)
    with store.view(HERE) as view:
        assert view.subject(name) is None, "nothing looks at a page that is mapped"
    with pytest.raises(StoreUnavailable, match="not what was written"):
        scrubbed(store)
    for call in (lambda: store.head(HERE), lambda: History().write(store, History().capture(bytes(32)))):
        with pytest.raises(StoreUnavailable):
            call()
    store.scrub_pages()  # it has been said
    store.close()
    assert Markers(directory).crashed(), "the next one takes nothing on trust"
    open_store(directory).close()
    assert content(directory) == before
    last = last_of(directory)
    assert last is not None
    assert last.code == "", "what was found is mended"


def test_damaged_events_are_corruption_and_stay_so(directory):
    frame = next(iter(content(directory)[b"events"].values()))
    at = place_of(directory, frame) + 40
    store = open_store(directory)
    flipped(directory, at)
    with pytest.raises(JournalCorrupt):
        scrubbed(store)
    with pytest.raises(JournalCorrupt):
        store.head(HERE)
    store.close()
    with pytest.raises(JournalCorrupt):
        open_store(directory)


def test_one_of_all_processes_walks_and_all_learn_what_was_found(directory, subject):
    at = place_of(directory, subject) + len(subject) - 1
    code = """
import time
from pathlib import Path
from journal import limits, walks
from journal.errors import StoreUnavailable
from tests.journal.store.places import open_store
limits.PAGE_SCRUB_PAUSE_SECONDS = limits.PAGE_SCRUB_SHARE = 1_000_000
store = open_store(Path(sys.argv[1]))
say("open")
hear()
try:
    store.scrub_pages()
    say("nothing")
except StoreUnavailable:
    say("told")
"""
    with Peer(code, directory) as peer:
        assert peer.hear() == "open"
        store = open_store(directory)
        flipped(directory, at)
        with pytest.raises(StoreUnavailable):
            scrubbed(store)
        peer.say("go on")
        assert peer.hear() == "told"
        store.close()


def test_who_does_not_have_the_lock_does_not_walk(directory):
    one, two = PageScrub(directory, time.time()), PageScrub(directory, time.time())
    one.step()
    two.step()
    assert one.walks.child is not None
    assert two.walks.child is None
    for each in (one, two):
        each.close()


def test_a_walk_that_somebody_ended_says_nothing(directory):
    scrub = PageScrub(directory, time.time())
    scrub.step()
    assert scrub.walks.child is not None
    scrub.walks.child.send_signal(signal.SIGKILL)
    assert walked(scrub).code == ""
    assert walked(scrub).code == ""
    scrub.close()


def test_what_was_found_once_is_looked_at_again(directory, monkeypatch):
    """A store is not taken from its users over what another look does not find."""
    answers = [(1, b'begun\n{"corrupt":"for once"}'), (0, b"begun\n{}")]
    found = pagescrub._found
    monkeypatch.setattr(pagescrub, "_found", lambda *_: found(*answers.pop(0)))
    scrub = PageScrub(directory, time.time())
    assert walked(scrub).code == ""
    assert answers == []
    scrub.close()


def test_it_rests_for_a_hundred_times_as_long_as_a_walk_takes(directory, monkeypatch):
    monkeypatch.setattr(limits, "PAGE_SCRUB_SHARE", 100)
    scrub, now = PageScrub(directory, time.time()), time.time()
    for ended, took, due in ((now - 99, 1, False), (now - 101, 1, True), (now + 50, 1, True), (now - 101, 2, False)):
        assert scrub.walks.is_due(Scrubbed(ended, took)) is due
    scrub.close()


@pytest.mark.parametrize("answer", [(1, b""), (-7, b""), (0, b""), (-9, b"begun\n"), (0, b"begun\n")])
def test_a_walk_that_could_not_be_made_says_nothing(directory, monkeypatch, answer):
    """Of a package that is just replaced, of no memory, of a child that somebody ended: the store is served on."""
    found = pagescrub._found
    monkeypatch.setattr(pagescrub, "_found", lambda *_: found(*answer))
    scrub = PageScrub(directory, time.time())
    for _ in range(3):
        assert walked(scrub).code == ""
    scrub.close()


def test_it_rests_on_a_full_disk_too(directory, monkeypatch):
    monkeypatch.setattr(limits, "PAGE_SCRUB_PAUSE_SECONDS", 60)

    def full(*_):
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(walks, "_replace", full)
    (directory / NAME).unlink()
    scrub = PageScrub(directory, time.time() - 61)
    scrub.step()
    assert scrub.walks.child is not None
    scrub.walks.child.wait()
    scrub.step()
    scrub.step()
    assert scrub.walks.child is None
    scrub.close()


def test_closing_ends_a_walk(directory):
    store = open_store(directory)
    before = last_of(directory)
    store.scrub_pages()
    child = store._scrub.walks.child
    store.close()
    assert child.returncode == -signal.SIGKILL
    assert list((directory / DIRECTORY).iterdir()) == []
    assert last_of(directory) == before
