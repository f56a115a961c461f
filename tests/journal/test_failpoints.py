"""Killed at every step, by name and by chance: what was acknowledged is there once, and nothing is half there."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from pathlib import Path

import pytest

from journal import failpoints
from journal.clock import SystemRandomness
from journal.events import EventType
from journal.keyring import Keyring
from journal.lifecycle import TERMINAL, State
from journal.store.lmdb import opening
from journal.store.lmdb.indexcheck import broken_counts, broken_sums
from journal.store.port import Part
from tests.journal.stores import ROOT as ROOT_KEY
from tests.journal.stores import SCOPE, capture, make, opened, text_of

ROOT = Path(__file__).parents[2]
ELSEWHERE = {
    "erasure.compacted",  # it lies in what follows a forgetting in the projections
    # The replacement of a root key has tests of its own; backups and restores lie beside a store.
    *(name for name in failpoints.NAMES if name.startswith(("root.", "backup.", "restore."))),
}
STRIKES = {
    "slot.written": (1, 3, 70),
    "commit.before": (1, 2, 6, 9, 20),
    "commit.after": (1, 2, 6, 9, 20),
    "destroy.before": (1, 2),
    "destroy.after": (1, 2),
    "rotate.slots_written": (1, 2),
    "rotate.switched": (1, 2),
}


@pytest.fixture
def path(tmp_path):
    return make(tmp_path / "store")


def mortal(path, name, failpoint=None):
    """Start a process that works on the store."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    if failpoint is not None:
        environment["ENGRAM_FAILPOINT"] = failpoint
    return subprocess.Popen(
        [sys.executable, "-m", "tests.journal.mortal", str(path), name],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )


class Told:
    """What the mortals said."""

    def __init__(self) -> None:
        self.captured: dict[str, str] = {}  # idempotency key -> candidate id
        self.moved: dict[str, list[str]] = defaultdict(list)  # candidate id -> operations acknowledged
        self.begun: set[str] = set()  # idempotency keys, acknowledged or not
        self.started: dict[str, list[str]] = defaultdict(list)  # candidate id -> operations begun

    def hear(self, line):
        """Note a line."""
        match line.split():
            case ["captures", key]:
                self.begun.add(key)
            case ["captured", key, candidate_id]:
                self.captured[key] = candidate_id
            case ["moves", operation, candidate_id]:
                self.started[candidate_id].append(operation)
            case ["moved", operation, candidate_id, _]:
                self.moved[candidate_id].append(operation)

    def hear_all(self, process):
        """Note everything that a process says until it ends; return its exit code."""
        for line in process.stdout:
            self.hear(line)
        process.stdout.close()
        return process.wait()


def check(path, told):
    """Open the store as the next process would, and look at everything."""
    with opened(path) as journal:
        journal.admit(SCOPE)
        events = journal.store.read(SCOPE, 0, 100_000)
        assert [event.header.cursor for event in events] == list(range(1, len(events) + 1))
        _check_acknowledged(journal, events, told)
        with journal.store.environment.reading() as (txn, databases):
            assert broken_sums(txn, databases, journal.store.sum_key) == []
            assert broken_counts(txn, databases) == []
        assert journal.store.check_indexes(SCOPE, journal.keyring.located(SCOPE)) == []
        _check_keys(journal, events)
        assert len(list((path / "keys").glob("*.slots"))) == 1
        assert not list((path / "keys").glob(".*"))


def _check_acknowledged(journal, events, told):
    captures = [event.header.subject for event in events if event.header.type == EventType.CAPTURE]
    assert len(captures) == len(set(captures))
    assert set(told.captured.values()) <= set(captures)
    moves = defaultdict(list)
    for event in events:
        if event.header.subject is not None and event.header.type != EventType.CAPTURE:
            moves[event.header.subject].append(event.header.kind.label)
    for candidate_id, operations in told.moved.items():
        assert moves[candidate_id][: len(operations)] == operations
    for candidate_id, operations in moves.items():
        assert operations == told.started[candidate_id][: len(operations)], "nothing that nobody asked for"
    head = journal.store.head(SCOPE).cursor
    for key in told.begun:  # a retry, also of what was never answered, is a replay or the first; never a second
        candidate_id, made = capture(journal, key, f"text of {key}")
        assert told.captured.get(key, candidate_id) == candidate_id
        assert made == (candidate_id not in captures)
    assert journal.store.head(SCOPE).cursor == head + len(told.begun) - len(captures)


def _check_keys(journal, events):
    """Slots and events agree: each part is there, each live key opens, each ended one is destroyed."""
    located = journal.keyring.located(SCOPE)
    with journal.store.view(SCOPE) as view:
        assert view.pending_destructions() == []
        for event in events:
            header = event.header
            for part, digest in ((Part.CONTENT, header.content_digest), (Part.LEDGER, header.ledger_digest)):
                assert (view.body(header.cursor, part) is None) == (digest is None)
            if header.type != EventType.CAPTURE:
                continue
            assert located[header.key_id] == view.slot(header.key_id)
            ended = State(view.subject(header.subject).state) in TERMINAL
            assert journal.key_is_destroyed(SCOPE, header.subject) == ended
            assert (text_of(journal, header.subject) is None) == ended


def test_every_name_has_its_place():
    assert set(STRIKES) | ELSEWHERE == set(failpoints.NAMES)


@pytest.mark.parametrize(("name", "count"), [(name, count) for name, counts in STRIKES.items() for count in counts])
def test_killed_at_a_named_step(path, name, count, monkeypatch):
    told = Told()
    assert told.hear_all(mortal(path, "first", f"{name}:{count}")) == -signal.SIGKILL
    assert told.begun
    # Again on what the first left behind, so that each strikes a store that has been struck before.
    assert told.hear_all(mortal(path, "second", f"{name}:{count}")) == -signal.SIGKILL
    monkeypatch.setattr(opening, "inspect", None)  # a killed process needs no walk
    check(path, told)
    check(path, told)


def test_a_step_that_is_not_named_kills_nobody(path, monkeypatch):
    monkeypatch.setenv("ENGRAM_FAILPOINT", "commit.before:1000000")
    with opened(path) as journal:
        assert capture(journal, "key-0000000000000001")[1]
    with pytest.raises(KeyError):
        failpoints.reach("no.such.step")


def test_killed_at_any_moment_again_and_again(path):
    """Two processes at once, killed one after the other, many times over."""
    source = random.Random(5)
    told = Told()
    for number in range(8):
        processes = [mortal(path, f"{name}-{number}") for name in ("one", "two")]
        listeners = [threading.Thread(target=told.hear_all, args=(process,)) for process in processes]
        for listener in listeners:
            listener.start()
        for process in processes:
            threading.Event().wait(source.uniform(0.25, 0.6))
            process.kill()
        for listener in listeners:
            listener.join()
    assert len(told.captured) > 20
    check(path, told)


@pytest.mark.parametrize("name", ["rotate.slots_written", "rotate.switched"])
def test_a_rotation_that_dies_beside_a_process_that_holds_the_old_epoch(path, name):
    with opened(path) as journal:
        mine, _ = capture(journal, "key-0000000000000001", "mine")
        told = Told()
        assert told.hear_all(mortal(path, "first", f"{name}:1")) == -signal.SIGKILL
        assert text_of(journal, mine) == "mine"
        assert all(
            text_of(journal, candidate_id) for candidate_id in told.captured.values() if not told.moved[candidate_id]
        )
        told.captured["key-0000000000000002"], _ = capture(
            journal, "key-0000000000000002", "text of key-0000000000000002"
        )
        assert text_of(journal, told.captured["key-0000000000000002"]) is not None
        told.begun.add("key-0000000000000002")
        told.captured["key-0000000000000001"] = mine
        told.begun.add("key-0000000000000001")
    check(path, told)


def test_keys_that_dead_processes_wrote_ahead_serve_the_next_ones(path):
    told = Told()
    for number in range(4):
        assert told.hear_all(mortal(path, f"n{number}", "slot.written:2")) == -signal.SIGKILL
    check(path, told)
    ring = Keyring(path / "keys", ROOT_KEY, SystemRandomness())
    assert len(ring.located(SCOPE)) == 64
    ring.close()
