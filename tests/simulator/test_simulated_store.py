"""The simulation, run: a short form from a fixed seed, a long one by ``make simulate``."""

from __future__ import annotations

import os
import time

import pytest

from tests import runs
from tests.simulator.simulating import simulated

STEPS = int(os.environ.get("ENGRAM_SIMULATOR_STEPS", "600"))
SEED = int(runs.seed("1"))
LONG = "ENGRAM_SIMULATOR_STEPS" in os.environ


@pytest.mark.timeout(100_000 if LONG else 600)
def test_every_answer_is_the_models(capsys):
    began = time.monotonic()
    with runs.repeatable("simulate", SEED, STEPS=STEPS), capsys.disabled():
        seen = simulated(SEED, STEPS)
        if LONG:
            told = ", ".join(f"{name} {count}" for name, count in seen.most_common())
            print(f"\nSEED={SEED} STEPS={STEPS}: {time.monotonic() - began:.0f} s; {told}")  # noqa: T201 - its figures
        assert seen["operations"] >= STEPS
        assert seen["deaths"]
        assert seen["faults felt"]
