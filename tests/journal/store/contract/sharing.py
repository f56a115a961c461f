"""Several processes on one journal, and ``watch``."""

from __future__ import annotations

import threading
import time

import pytest

from tests.journal.peers import Peer
from tests.journal.store.contract.engine import SOON_SECONDS, Contract
from tests.journal.store.history import HERE, THERE, History, named

PEER = """
from journal.events import EventType
from journal.errors import EngramError
from journal.testing import ManualClock
from tests.journal.store.history import HERE, THERE, History, named
clock = ManualClock()
{opening}
history = History()
say("ready")
while True:
    verb, *words = hear().split()
    if verb == "append":
        for number in range(int(words[1])):
            name = f"{{words[0]}} {{number}}"
            store.commit(HERE, lambda _: [history.capture(named(words[0], number))])
        say("done")
    elif verb == "race":
        identity = named("race", 0)
        made = store.commit(HERE, lambda view: [] if view.outcome(identity) else [history.capture(identity)])
        say(len(made))
    elif verb == "head":
        say(store.head(HERE).cursor)
    elif verb == "close":
        store.close()
        say("closed")
"""


class Sharing(Contract):
    """Several processes on one journal."""

    @pytest.fixture
    def peer(self, engine, store):
        with Peer(PEER.format(opening=engine.opening)) as peer:
            assert peer.hear() == "ready"
            yield peer

    def test_two_processes_make_one_dense_chain(self, store, history, peer):
        peer.say("append peer 200")
        for number in range(200):
            store.commit(HERE, lambda _, number=number: [history.capture(named("here", number))])
        assert peer.hear() == "done"
        events = store.read(HERE, 0, 1_000)
        assert [event.header.cursor for event in events] == list(range(1, 401))
        mine = [event.header.event_id in {named("here", number) for number in range(200)} for event in events]
        assert sum(mine) == 200
        assert not all(mine[:200]), "neither waits until the other is done"
        with store.view(HERE) as view:
            assert len(view.pending_candidates()) == 400

    def test_one_identity_raced_for_by_two_processes_makes_one_event(self, store, history, peer):
        identity = named("race", 0)
        peer.say("race")
        made = store.commit(HERE, lambda view: [] if view.outcome(identity) else [history.capture(identity)])
        assert len(made) + int(peer.hear()) == 1
        assert store.head(HERE).cursor == 1

    def test_what_one_process_wrote_the_other_sees_at_once(self, store, history, peer):
        for number in range(1, 6):
            history.write(store, history.capture())
            peer.say("head")
            assert int(peer.hear()) == number

    def test_a_killed_process_holds_up_nobody(self, store, history, peer):
        peer.say("append peer 100000")
        while store.head(HERE).cursor < 20:
            time.sleep(0.001)
        peer.kill()
        history.write(store, history.capture(named("here", 1)))
        head = store.head(HERE)
        assert [event.header.cursor for event in store.read(HERE, head.cursor - 5, 10)] == list(
            range(head.cursor - 4, head.cursor + 1)
        )

    def test_another_processs_commit_wakes_a_watcher(self, store, peer):
        peer.say("append peer 1")
        assert store.watch(HERE, 0, 30) == 1
        assert peer.hear() == "done"


class Watching(Contract):
    """``watch``."""

    def test_it_returns_at_once_where_there_is_news(self, store, history):
        history.write(store, history.capture(), history.capture())
        assert store.watch(HERE, 0, 0) == 2
        assert store.watch(HERE, 1, 30) == 2

    def test_it_gives_up_when_the_time_is_up(self, store, history):
        history.write(store, history.capture())
        started = time.monotonic()
        assert store.watch(HERE, 1, SOON_SECONDS) == 1
        assert time.monotonic() - started >= SOON_SECONDS

    def test_a_commit_wakes_it(self, store, history):
        seen = []
        watcher = threading.Thread(target=lambda: seen.append(store.watch(HERE, 0, 30)))
        watcher.start()
        history.write(store, history.capture())
        watcher.join()
        assert seen == [1]

    def test_another_scopes_commit_does_not(self, store):
        there = History(THERE)
        seen = []
        watcher = threading.Thread(target=lambda: seen.append(store.watch(HERE, 0, SOON_SECONDS)))
        watcher.start()
        there.write(store, there.capture())
        watcher.join()
        assert seen == [0]
