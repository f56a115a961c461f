"""Several processes on one real store: found at once, killed, stopped, deleted under their feet."""

from __future__ import annotations

import random
import shutil
from contextlib import ExitStack

import pytest

from journal import layout
from journal.lifecycle import Operation
from projections.serving import make_projections
from replay.rebuild import verify
from tests.projections.histories import SCOPE
from tests.projections.processes import Process
from tests.projections.stores import Store, created

SERVER = """
from pathlib import Path
from tests.projections.stores import Store
store = Store(Path(sys.argv[1]))
projections = store.projections()
say("ready")
while True:
    verb, word = wait().split()
    if verb == "accept":
        say(store.accepted(word)[1])
    elif verb == "forget":
        say(store.forget(word))
    elif verb == "search":
        with projections.snapshot() as snapshot:
            say(snapshot.cursor, *snapshot.reader("words").cursors(word))
    elif verb == "claim":
        say(projections.generations(word).open(None).environment.claim(None))
    elif verb == "close":
        projections.close(); store.close()
        say("closed")
"""

WORKER = """
import random
from pathlib import Path
from tests.projections.stores import Store
store = Store(Path(sys.argv[1]))
projections = store.projections()
rng = random.Random(int(sys.argv[2]))
say("ready")
for number in range(int(sys.argv[3])):
    word = f"w{sys.argv[2]}x{number}"
    subject, cursor = store.accepted(word)
    with projections.snapshot() as snapshot:
        found = snapshot.reader("words").cursors(word)
        row = snapshot.current.at(cursor)
    if found != [cursor] or row is None or row.state != 4:
        say("lost", word, cursor, found)
    if rng.random() < 0.2:
        store.forget(subject)
        with projections.snapshot() as snapshot:
            if snapshot.reader("words").cursors(word):
                say("kept", word)
    say("did", word)
projections.close()
store.close()
say("end")
"""


@pytest.fixture
def path(tmp_path):
    return created(tmp_path / "store")


def ask(process, verb, word="-"):
    process.tell(f"{verb} {word}")
    return process.hear().split()


def digests(store):
    """The digests of what is served, which a fresh replay must equal."""
    with store.projections() as projections:
        found = verify(projections)
        assert [one.name for one in found if not one.ok] == []
        return [one.live_digest for one in found]


def test_what_one_process_accepts_another_finds_at_once(path):
    with ExitStack() as stack:
        servers = [stack.enter_context(Process(SERVER, path)) for _ in range(3)]
        assert {server.hear() for server in servers} == {"ready"}
        for number in range(9):
            cursor = int(ask(servers[number % 3], "accept", f"word{number}")[0])
            for server in servers:
                seen, *found = ask(server, "search", f"word{number}")
                assert int(seen) >= cursor + 1
                assert found == [str(cursor)]


def test_a_process_that_is_stopped_while_it_folds_holds_up_nobody(path):
    with Process(SERVER, path) as stopped, Process(SERVER, path) as serving:
        assert (stopped.hear(), serving.hear()) == ("ready", "ready")
        first = ask(serving, "accept", "word")[0]
        assert ask(stopped, "search", "word")[1:] == [first]
        for name in ("current", "words"):
            assert ask(stopped, "claim", name) == ["True"]
        stopped.stop()
        found = [first]
        for _ in range(5):
            found += ask(serving, "accept", "word")
            assert ask(serving, "search", "word")[1:] == found
        stopped.resume()


def test_workers_are_killed_and_started_again_and_nothing_is_lost(path):
    rng = random.Random(5)
    with ExitStack() as stack:
        workers = [stack.enter_context(Process(WORKER, path, seed, 25)) for seed in range(3)]
        said: list[list[str]] = [[], []]
        for at in (0, 1):  # killed in the midst of it, and followed by another
            for line in workers[at].hear_all():
                said[at].append(line)
                if len(said[at]) == rng.randrange(3, 12):
                    break
            workers[at].kill()
        workers += [stack.enter_context(Process(WORKER, path, seed, 25)) for seed in (3, 4)]
        for worker in workers[2:]:
            lines = list(worker.hear_all())
            assert [line for line in lines if line.split()[0] not in ("ready", "did", "end")] == []
            assert lines[-1] == "end"
    assert [line for lines in said for line in lines if line.split()[0] not in ("ready", "did")] == []
    with Store(path) as store:
        assert len(digests(store)) == 2


def test_projections_are_deleted_again_and_again_while_processes_serve(path):
    with ExitStack() as stack:
        workers = [stack.enter_context(Process(WORKER, path, seed, 15)) for seed in range(2)]
        for worker in workers:
            assert worker.hear() == "ready"
        ended = 0
        while ended < len(workers):
            for worker in workers:
                line = next(worker.hear_all(), "")  # nothing, once it has ended
                assert line.split()[:1] in ([], ["did"], ["end"]), line
                ended += line == "end"
            shutil.rmtree(path / layout.PROJECTIONS, ignore_errors=True)
    with Store(path) as store:
        digests(store)


def test_a_replay_of_the_real_projections_equals_what_was_served(path):
    with Store(path) as store, store.projections(make_projections) as projections:
        subjects = []
        for text in ("알림을 껐다", "the journal refused", "사용자 설정", "a cursor is dense", "겨울에 껐던 알림"):
            subject, cursor = store.accepted(text)
            subjects.append((subject, cursor))
            with projections.snapshot() as snapshot:
                assert snapshot.current.at(cursor).candidate_id == subject
        store.forget(subjects[1][0])
        store.move(subjects[3][0], Operation.DISPUTE)
        assert [(one.name, one.ok) for one in verify(projections)] == [(name, True) for name in projections.names]
        with projections.snapshot() as snapshot:
            assert snapshot.cursor == store.journal.store.head(SCOPE).cursor
            assert snapshot.current.accepted_current == 3
