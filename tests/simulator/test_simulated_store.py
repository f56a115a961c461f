"""The simulation, run: a short form from a fixed seed, a long one by ``make simulate``."""

from __future__ import annotations

import os
import time
from collections import Counter

import pytest

from tests import runs
from tests.simulator.simulating import COVERED_FROM_STEPS, is_covering, simulated, uncovered

USUAL = (1, 600)
STEPS = int(os.environ.get("ENGRAM_SIMULATOR_STEPS", str(USUAL[1])))
SEED = runs.seed(str(USUAL[0]))
LONG = "ENGRAM_SIMULATOR_STEPS" in os.environ


@pytest.mark.timeout(100_000 if LONG else 600)
def test_every_answer_is_the_models(tell):
    began, number = time.monotonic(), runs.number_of(SEED)
    with runs.repeatable("simulate", SEED, STEPS=STEPS):
        seen = simulated(number, STEPS)
        counts = ", ".join(f"{name} {count:,}" for name, count in seen.most_common())
        tell(f"simulated in {time.monotonic() - began:.0f} s: {counts}\n{runs.again('simulate', SEED, STEPS=STEPS)}")
        assert seen["operations"] >= STEPS
        lacking = uncovered(seen)
        if is_covering(number, STEPS, USUAL):
            assert not lacking
        elif lacking:
            tell(f"too short to show {' and '.join(lacking)}; from STEPS={COVERED_FROM_STEPS} on there must be some")


def test_a_run_that_is_too_short_to_meet_everything_need_not():
    assert uncovered(Counter(operations=200)) == ["deaths", "faults felt"]
    assert uncovered(Counter({"deaths": 1, "faults felt": 1})) == []
    assert [is_covering(seed, steps, USUAL) for seed, steps in ((7, 200), (7, 1_999), (7, 2_000), USUAL)] == [
        False, False, True, True,
    ]  # fmt: skip
