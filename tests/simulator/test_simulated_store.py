"""The simulation, run: a short form from a fixed seed, a long one by ``make simulate``."""

from __future__ import annotations

import logging
import os
import time
from collections import Counter

import pytest
import structlog
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.simulator.machine import Simulation
from tests.simulator.second import SecondProcess

STEPS = int(os.environ.get("ENGRAM_SIMULATOR_STEPS", "600"))
SEED = int(os.environ.get("ENGRAM_SIMULATOR_SEED", "1"))
STEPS_A_STORE = 50
LONG = "ENGRAM_SIMULATOR_STEPS" in os.environ


def simulated(machine: type[Simulation], number: int, steps: int) -> Counter[str]:
    """Run a simulation of so many steps from a seed; return what was seen.

    Raises:
        AssertionError: an answer or a state was not the model's; the shortest row of operations is printed.
    """
    machine.seen, machine.second = Counter(), SecondProcess()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    shaped = settings(
        max_examples=max(1, steps // STEPS_A_STORE), stateful_step_count=STEPS_A_STORE, database=None, deadline=None,
        suppress_health_check=list(HealthCheck), phases=(Phase.generate, Phase.shrink), print_blob=False,
    )  # fmt: skip
    try:
        run_state_machine_as_test(seed(number)(machine), settings=shaped)
    finally:
        machine.second.close()
    return machine.seen


@pytest.mark.timeout(100_000 if LONG else 600)
def test_every_answer_is_the_models(capsys):
    began = time.monotonic()
    with capsys.disabled():
        if LONG:
            print(f"\nsimulator: SEED={SEED} STEPS={STEPS}")  # noqa: T201 - how it is run again
        try:
            seen = simulated(Simulation, SEED, STEPS)
        except BaseException:
            print(f"\nagain: make simulate SEED={SEED} STEPS={STEPS}")  # noqa: T201 - how it is run again
            raise
        if LONG:
            told = ", ".join(f"{name} {count}" for name, count in seen.most_common())
            print(f"simulator: {time.monotonic() - began:.0f} s; {told}")  # noqa: T201 - what it is run for
    assert seen["steps"] >= STEPS
    assert seen["deaths"]
