"""A power cut at any moment: what was acknowledged is there, what was destroyed is not, and the store goes on.

make crash SEED=... repeats a run: the seed and an image's number draw what the cut left of it. Where the system calls
come in another order, by the threads' leave, another cut meets the same number; the seed is still of the same kind.
"""

from __future__ import annotations

import os
import time

import pytest

from tests import runs
from tests.crash.rig import checked
from tests.crash.trace import restored
from tests.crash.tracedisk import TracedDisk, differences

IMAGES = int(os.environ.get("ENGRAM_CRASH_IMAGES", "500"))
SEED = runs.seed()
CONTROL_IMAGES = 24
CONTROLS = ("all", "journal", "slots", "folders", "files")


def test_the_record_lacks_no_write(recording):
    """Carried out again, the recorded calls make every file of the store, byte by byte."""
    disk = TracedDisk(recording.root)
    kinds = [step.kind for step in disk.steps(restored(recording.calls))]
    assert differences(disk.disk.root, recording.root) == []
    assert kinds.count("change") > 1_000
    assert kinds.count("ack") > 30


def test_a_recorder_that_forgets_a_kind_of_write_is_found(recording):
    recorded = restored(recording.calls)
    for forgotten in ("writev", "pwrite64", "write", "lseek"):
        disk = TracedDisk(recording.root)
        for _ in disk.steps(call for call in recorded if call.name != forgotten or call.strings[:1] == (b"",)):
            pass
        assert differences(disk.disk.root, recording.root), forgotten


@pytest.mark.timeout(7_200)
def test_what_is_acknowledged_outlives_a_power_cut_at_any_moment(recording, tell):
    began = time.monotonic()
    with runs.repeatable("crash", SEED, CRASH_IMAGES=IMAGES):
        (outcome,) = checked(recording, "drawn", seed=SEED, images=IMAGES)
        assert outcome.checked >= IMAGES or outcome.wrong
        tell(
            f"{outcome.checked:,} images over {outcome.steps:,} changes and flushes, {len(outcome.wrong)} do not hold, "
            f"in {time.monotonic() - began:.0f} s\n{runs.again('crash', SEED, CRASH_IMAGES=IMAGES)}"
        )
        assert not outcome.wrong, outcome.told()


def test_an_acknowledgement_rests_on_nothing_that_was_not_flushed(recording):
    """Found by it: names never flushed, of the journal's file, of the folder of its marks and of the checkpoints'."""
    (outcome,) = checked(recording, "nothing")
    assert not outcome.wrong, outcome.told()
    assert outcome.checked > 30


def test_what_was_removed_before_an_acknowledgement_does_no_harm_when_it_is_back(recording):
    """Found by it: generations from before an erasure that was told complete."""
    (outcome,) = checked(recording, "back")
    assert not outcome.wrong, outcome.told()
    assert outcome.checked > 30


def test_a_rename_that_overtakes_all_that_was_written_before_it_harms_nothing(recording):
    """Found by it: a keyring in force whose slot file had no name yet."""
    (outcome,) = checked(recording, "switch")
    assert not outcome.wrong, outcome.told()
    assert outcome.checked > 8


def test_flushes_that_do_nothing_are_found(recording):
    """The control that must fail: a store without flushes, or without those of one kind."""
    outcomes = checked(recording, "drawn", seed="control", images=CONTROL_IMAGES, deaf_to=",".join(CONTROLS))
    for left_out, outcome in zip(CONTROLS, outcomes, strict=True):
        assert outcome.checked == CONTROL_IMAGES, left_out
        assert len(outcome.wrong) > CONTROL_IMAGES // 8, left_out
