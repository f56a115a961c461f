"""A fault into any call about the store's files: what was acknowledged is there, and the next process finishes.

make faults SEED=... repeats a run. FAULTS=0 tries every fault there is, which takes hours.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

import lmdb
import pytest

from journal.commit import GroupCommit
from journal.store.lmdb.batch import Batch
from journal.store.lmdb.engine import LmdbStore
from tests import runs
from tests.faults.rig import Planned, restored
from tests.faults.running import prepared, tried
from tests.faults.supervising import KILLED, Fault
from tests.faults.worker import tried as tried_one

FAULTS = int(os.environ.get("ENGRAM_FAULTS", "10"))
SERVED = int(os.environ.get("ENGRAM_FAULTS_SERVED", "2"))
SEED = runs.seed()

FOUND = (
    ("open", "mkdir", "store/keys", "EIO"),
    ("open", "fsync", "store/.store.toml", KILLED),
    ("capture a", "openat", "store/keys/*.keyring", "EIO"),
    ("rebuild lexical", "flock", "store/projections/*/lexical/00000003", "EIO"),
    ("erase n", "fdatasync", "store/projections/*/timeline/00000003/data.mdb", "EIO"),
    ("forget a", "flock", "store/projections/*/current/00000001", "EIO"),
    ("forget a", "pread64", "store/keys/*.1.slots", "EIO"),
    ("close", "fdatasync", "store/projections/*/lexical/00000004/data.mdb", "EINTR"),
    ("close", "close", "store/keys/*.3.slots", "EIO"),
    ("close", "unlink", "store/journal/open/*", "EIO"),
)
"""What was found, each by its step, call, file and error."""


def _held(tell, name, began, outcome, least):
    seconds = time.monotonic() - began
    again = runs.again("faults", SEED, FAULTS=FAULTS, SERVED=SERVED)
    tell(f"{name}, in {seconds:.0f} s: {outcome.figures()}\n{again}")
    assert not outcome.wrong, outcome.told()
    assert outcome.tried >= least


@pytest.mark.timeout(28_800)
def test_a_fault_into_any_call_costs_nothing_that_was_acknowledged(steps, tell):
    began = time.monotonic()
    with runs.repeatable("faults", SEED, FAULTS=FAULTS, SERVED=SERVED):
        _held(tell, "by the Python API", began, tried(steps, SEED, FAULTS), FAULTS)


@pytest.mark.timeout(28_800)
@pytest.mark.usefixtures("injectable")
def test_a_fault_into_any_call_of_a_server_is_answered_or_ends_it(memory, tell):
    began = time.monotonic()
    with runs.repeatable("faults", SEED, FAULTS=FAULTS, SERVED=SERVED):
        directory = prepared(memory / "served", "tests.faults.served")
        _held(tell, "engram serve", began, tried(directory, SEED, SERVED, "tests.faults.served"), SERVED)


@pytest.mark.parametrize(("step", "name", "file", "error"), FOUND)
def test_what_was_found_holds(steps, tmp_path, step, name, file, error):
    recorded = restored(steps)
    plan = _planned(recorded, step, name, file, error)
    wrong, life = tried_one(steps, tmp_path / "place", recorded, plan)
    assert life.met is not None
    assert (life.met.name, life.met.file) == (name, file)
    assert not wrong


def _planned(recorded, step, name, file, error, turn=0):
    calls = recorded[step].calls
    numbers = [at for at, call in enumerate(calls) if (call.name, call.file) == (name, file)]
    return Planned(step, Fault(recorded[step].before + numbers[turn] + 1, error), calls[numbers[turn]])


@pytest.mark.parametrize("error", ["EIO", KILLED])
def test_an_answer_that_does_not_wait_for_the_flush_is_found(steps, tmp_path, error):
    """The control that must fail: who captures is answered before the commit, and whatever becomes of it."""
    recorded = restored(steps)
    plan = _planned(recorded, "capture b", "fdatasync", "store/journal/data.mdb", error)
    if error == KILLED:  # before anything of the transaction is written
        first = next(at for at, call in enumerate(recorded["capture b"].calls) if _writes_the_journal(call))
        number = recorded["capture b"].before + first + 1
        plan = Planned("capture b", Fault(number, error), recorded["capture b"].calls[first])
    wrong, _ = tried_one(steps, tmp_path / "place", recorded, plan, planted=_answer_before_the_flush)
    assert wrong
    wrong, _ = tried_one(steps, tmp_path / "place", recorded, plan)
    assert not wrong


def _writes_the_journal(call):
    return call.file == "store/journal/data.mdb" and call.name in ("pwrite64", "writev", "pwritev")


def _answer_before_the_flush():
    def run(self, commands):
        txn = self._environment.begin(write=True)
        batch = Batch(txn, self._environment, self._sum_key, self._clock)
        for command in commands:
            answer = self._run_one(batch, command)
            command.refuse(answer) if isinstance(answer, Exception) else command.answer(answer)
        batch.write_heads()
        time.sleep(0.2)  # the one who captures goes on meanwhile
        with suppress(lmdb.Error):
            txn.commit()

    setattr(LmdbStore, "run", run)  # noqa: B010 - mypy knows a method
    setattr(GroupCommit, "_lead", lambda *_: False)  # noqa: B010 - mypy knows a method
