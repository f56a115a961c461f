"""What LMDB alone can do to a journal: a full map, a failed flush, a stopped or forked process, dead readers."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from contextlib import ExitStack
from itertools import groupby

import pytest

from journal import limits
from journal.errors import DeadlineExceeded, JournalCorrupt, StoreUnavailable
from journal.store.lmdb import tables
from journal.store.lmdb.markers import DIRECTORY, DISTRUSTED
from tests.journal.peers import Peer
from tests.journal.store.history import HERE, THERE, History, named
from tests.journal.store.places import open_store, raw


@pytest.fixture
def place(tmp_path):
    place = tmp_path / "journal"
    place.mkdir()
    return place


def _fill(store, history):
    for _ in range(100):
        history.write(store, history.capture(content=bytes(100_000)))


def test_a_full_map_aborts_and_loses_nothing(place, monkeypatch):
    monkeypatch.setattr(tables, "MAP_SIZE_BYTES", 2 * 1024 * 1024)
    store, history = open_store(place), History()
    with pytest.raises(StoreUnavailable, match="map is full"):
        _fill(store, history)
    written = store.head(HERE).cursor
    assert written > 5
    assert len(store.read(HERE, 0, 100)) == written
    with pytest.raises(StoreUnavailable):
        history.write(store, history.capture(content=bytes(100_000)))
    store.close()
    monkeypatch.undo()
    store = open_store(place)
    assert history.write(store, history.capture(content=bytes(100_000)))[0].header.cursor == written + 1
    store.close()


def test_one_that_does_not_fit_the_map_keeps_nobody_out(place, monkeypatch):
    monkeypatch.setattr(tables, "MAP_SIZE_BYTES", 2 * 1024 * 1024)
    monkeypatch.setattr(limits, "BATCH_MAX_MILLISECONDS", 60_000)
    store, history = open_store(place), History()
    begun, goes_on = threading.Event(), threading.Event()
    answers = {}

    def slow(_view):
        begun.set()
        assert goes_on.wait(30)
        return [history.capture()]

    def run(name, decide):
        try:
            answers[name] = store.commit(HERE, decide)
        except StoreUnavailable as error:
            answers[name] = error

    threads = [threading.Thread(target=run, args=("first", slow))]
    threads[0].start()
    assert begun.wait(30)
    for name, size in (("large", 3_000_000), ("second", 100), ("third", 100)):
        draft = history.capture(content=bytes(size))
        threads.append(threading.Thread(target=run, args=(name, lambda _, draft=draft: [draft])))
        threads[-1].start()
        while len(store._group._queue) < len(threads) - 1:
            time.sleep(0.001)
    goes_on.set()
    for thread in threads:
        thread.join()
    assert "map is full" in str(answers.pop("large"))
    assert sorted(each[0].header.cursor for each in answers.values()) == [1, 2, 3]
    assert len(store.read(HERE, 0, 10)) == 3
    store.close()
    store = open_store(place)
    assert store.head(HERE).cursor == 3
    store.close()


FAILING_FLUSH = """
import resource
from pathlib import Path
from journal.errors import MutationOutcomeUnknown
from tests.journal.store.history import HERE, History, named
from tests.journal.store.places import open_store
place = Path(sys.argv[1])
store, history = open_store(place), History()
history.write(store, history.capture())
size = (place / "data.mdb").stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
identity = named("failed", 1)
decide = lambda view: [] if view.outcome(identity) else [history.capture(identity, content=bytes(200_000))]
try:
    store.commit(HERE, decide)
    say("committed")
except MutationOutcomeUnknown:
    say("unknown")
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
say(store.head(HERE).cursor)
store.commit(HERE, decide)
say(store.head(HERE).cursor, len(store.read(HERE, 0, 10)))
store.close()
"""


def test_a_flush_that_really_fails(place):
    """The file may not grow: the system call that writes the pages fails, in the middle of LMDB's commit."""
    with Peer(FAILING_FLUSH, place) as peer:
        assert peer.lines() == ["unknown", "1", "2 2"]
        assert peer.process.wait() == 0
    (mark,) = (place / DIRECTORY).iterdir()
    assert mark.read_text() == DISTRUSTED + "\n"
    store = open_store(place)
    assert store.head(HERE).cursor == 2
    store.close()
    assert list((place / DIRECTORY).iterdir()) == []


STOPPING = """
import os, signal
from pathlib import Path
from tests.journal.store.history import HERE, History
from tests.journal.store.places import open_store
store, history = open_store(Path(sys.argv[1])), History()
def decide(view):
    say("inside")
    os.kill(os.getpid(), signal.SIGSTOP)
    return [history.capture()]
hear()
say(store.commit(HERE, decide)[0].header.cursor)
store.close()
"""


def test_a_process_stopped_inside_a_commit_costs_others_their_deadline_and_no_more(place):
    store, history = open_store(place), History()
    with Peer(STOPPING, place) as peer:
        peer.say("go")
        assert peer.hear() == "inside"
        for _ in range(2):
            with pytest.raises(DeadlineExceeded):
                store.commit(HERE, lambda _: [history.capture()], deadline=time.monotonic() + 0.05)
        assert store.head(HERE).cursor == 0
        peer.process.send_signal(signal.SIGCONT)
        assert peer.hear() == "1"
        assert history.write(store, history.capture(named("after", 1)))[0].header.cursor == 2
    store.close()


def test_one_scopes_broken_journal_is_not_told_to_who_shares_its_batch(place, monkeypatch):
    monkeypatch.setattr(limits, "BATCH_MAX_MILLISECONDS", 60_000)
    here, there = History(HERE), History(THERE)
    store = open_store(place)
    here.write(store, here.capture())
    store.close()
    with raw(place) as (txn, databases):
        txn.put(tables.event_key(HERE.tag, 2), b"a row where the next event belongs", db=databases[tables.EVENTS])
    store = open_store(place)
    begun, goes_on = threading.Event(), threading.Event()
    answers = {}

    def slow(_view):
        begun.set()
        assert goes_on.wait(30)
        return [there.capture()]

    def run(name, scope, decide):
        try:
            answers[name] = store.commit(scope, decide)
        except (StoreUnavailable, JournalCorrupt) as error:
            answers[name] = error

    threads = [
        threading.Thread(target=run, args=("there", THERE, slow)),
        threading.Thread(target=run, args=("here", HERE, lambda _: [here.capture()])),
    ]
    threads[0].start()
    assert begun.wait(30)
    threads[1].start()
    while not store._group._queue:
        time.sleep(0.001)
    goes_on.set()
    for thread in threads:
        thread.join()
    assert type(answers["here"]) is JournalCorrupt
    assert isinstance(answers["there"], list)
    assert there.write(store, there.capture())[0].header.cursor == 2
    store.close()


def test_dead_readers_are_cleared(place, monkeypatch):
    monkeypatch.setattr(limits, "READER_CHECK_SECONDS", 0)
    code = """
from pathlib import Path
from tests.journal.store.history import HERE
from tests.journal.store.places import open_store
store = open_store(Path(sys.argv[1]), readonly=True)
with store.view(HERE) as view:
    view.head
    say("reading")
    hear()
"""
    store, history = open_store(place), History()
    history.write(store, history.capture())
    with Peer(code, place) as peer:
        assert peer.hear() == "reading"
        before = store.environment.figures()["num_readers"]
        peer.kill()
        history.write(store, history.capture())
        assert store.environment.reader_check() == 0, "the commit before cleared it"
        assert store.environment.figures()["num_readers"] <= before
    store.close()


def test_the_map_grown_by_another_process_is_taken_over(place, monkeypatch):
    monkeypatch.setattr(tables, "MAP_SIZE_BYTES", 1024 * 1024)
    store, history = open_store(place), History()
    history.write(store, history.capture())
    code = """
from pathlib import Path
from journal.store.lmdb import tables
tables.MAP_SIZE_BYTES = 64 * 1024 * 1024
from tests.journal.store.history import HERE, History, named
from tests.journal.store.places import open_store
store, history = open_store(Path(sys.argv[1])), History()
for number in range(4):
    history.write(store, history.capture(named("peer", number), content=bytes(1_000_000)))
say("grown")
hear()
"""
    with Peer(code, place) as peer:
        assert peer.hear() == "grown"
        assert store.head(HERE).cursor == 5
        assert history.write(store, history.capture())[0].header.cursor == 6
        assert len(store.read(HERE, 0, 10)) == 6
    assert store.environment.figures()["map_size"] > 1024 * 1024
    store.close()


WRITING = """
from pathlib import Path
from tests.journal.store.history import HERE, History, named
from tests.journal.store.places import open_store
store, history = open_store(Path(sys.argv[1])), History()
name = sys.argv[2]
say("ready")
hear()
for number in range(100):
    store.commit(HERE, lambda _: [history.capture(named(name, number))])
say("done")
hear()
"""


def test_four_busy_processes_are_served_in_turn(place):
    names = ["one", "two", "three", "four"]
    with ExitStack() as stack:
        peers = [stack.enter_context(Peer(WRITING, place, name)) for name in names]
        assert [peer.hear() for peer in peers] == ["ready"] * 4
        for peer in peers:
            peer.say("go")
        assert [peer.hear() for peer in peers] == ["done"] * 4
        store = open_store(place, readonly=True)
        events = store.read(HERE, 0, 1_000)
        store.close()
    writer_of = {named(name, number): name for name in names for number in range(100)}
    writers = [writer_of[event.header.event_id] for event in events]
    assert len(writers) == 400
    turns = Counter(name for name, _ in groupby(writers))  # a process that keeps the lock has few, and so have the rest
    assert min(turns[name] for name in names) > 20
