"""Running simulations of a size, from a seed."""

from __future__ import annotations

import logging
from collections import Counter
from itertools import count

import structlog
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.simulator.machine import Simulation
from tests.simulator.second import SecondProcess

STEPS_A_STORE = 40
COVERED_FROM_STEPS = 2_000
"""So many operations meet both whatever the seed: 2,028 of one met 25 and 44. A shorter run may lack them."""
COVERED = ("deaths", "faults felt")


def simulated(number: int, steps: int, *, shrinks: bool = True) -> Counter[str]:
    """Run a simulation of at least so many operations from a seed; return what was seen.

    Hypothesis ends some stores early; others follow until there were enough.

    Raises:
        AssertionError: an answer or a state was not the model's. With ``shrinks`` the shortest row of operations that
        shows it is looked for, and printed.
    """
    Simulation.seen, Simulation.second = Counter(), SecondProcess()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        for turn in count():
            left = steps - Simulation.seen["operations"]
            if left <= 0:
                break
            shaped = settings(
                max_examples=-(-left // STEPS_A_STORE), stateful_step_count=STEPS_A_STORE, database=None,
                deadline=None, suppress_health_check=list(HealthCheck), print_blob=False,
                phases=(Phase.generate, Phase.shrink) if shrinks else (Phase.generate,),
            )  # fmt: skip
            run_state_machine_as_test(seed(f"{number}:{turn}")(Simulation), settings=shaped)
    finally:
        Simulation.second.close()
    return Simulation.seen


def uncovered(seen: Counter[str]) -> list[str]:
    """Return what a simulation was to meet and did not."""
    return [name for name in COVERED if not seen[name]]


def is_covering(number: int, steps: int, usual: tuple[int, int]) -> bool:
    """Whether a run must meet everything: one that is long, or the usual seed and length, of which it is known."""
    return steps >= COVERED_FROM_STEPS or (number, steps) == usual
