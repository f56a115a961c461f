"""Prepares the steps' stores, or tries some of the faults.

    python -m tests.faults.worker prepare DIRECTORY
    python -m tests.faults.worker try DIRECTORY SEED FAULTS FIRST STEP
    python -m tests.faults.worker one DIRECTORY STEP NUMBER ERROR

Of the first FAULTS (0: all) those numbered FIRST, FIRST + STEP ... are tried. Prints a line of JSON for each that does
not hold, and at the end {"tried": ...} with what was met.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import structlog

from tests.faults.auditing import answered, audited, finished
from tests.faults.rig import Life, Planned, Recorded, apart, copied, lived, planned, prepare, restored, say, window
from tests.faults.supervising import Fault
from tests.faults.workload import STEPS
from tests.workers import end_with_parent

FURTHER_EVERY = 6  # stores that are gone on with


def tried(
    directory: Path, place: Path, recorded: dict[str, Recorded], plan: Planned, *, further: bool = True,
    planted: Callable[[], None] = lambda: None,
) -> tuple[list[str], Life]:  # fmt: skip
    """Try one fault; return what does not hold, and the life of the process that it met."""
    before = recorded[plan.step]
    copied(directory / "before" / str(list(STEPS).index(plan.step)), place)
    first, _ = lived(place, before.known, window(plan.step), fault=plan.fault, planted=planted)
    wrong = list(answered(first, plan))
    known = before.known | {name: value for name, value in first.values().items() if name not in ("open", "close")}
    second, _ = lived(place, known, list(STEPS))
    wrong += finished(first, second, before.known)
    wrong += apart(lambda: audited(place, first, second, further=further))
    if wrong:
        wrong.append(json.dumps([each for each in first.said if "done" not in each])[-1500:])
    shutil.rmtree(place, ignore_errors=True)
    return wrong, first


def _try_all(directory: Path, seed: str, faults: int, first: int, step: int) -> None:
    recorded = restored(directory)
    met, stuck, missed, count = Counter[str](), Counter[str](), list[str](), 0
    chosen = planned(recorded, seed)
    for number, plan in enumerate(chosen[: faults or len(chosen)]):
        if number % step != first:
            continue
        chance = random.Random(f"checks/{seed}/{number}")
        further = chance.randrange(FURTHER_EVERY) == 0
        wrong, life = tried(directory, directory / f"place-{first}", recorded, plan, further=further)
        count += 1
        call = f"{plan.step}: {plan.call.name} {plan.call.file}"
        met[f"{plan.call.name} {plan.fault.error}"] += 1
        if life.met is None or life.met.name != plan.call.name:  # another thread came between
            missed.append(call)
        if not life.status and not set(window(plan.step)) <= set(life.values()):
            stuck[f"{call} {plan.fault.error}"] += 1
        if wrong:
            say({"call": call, "fault": [plan.step, plan.fault.number, plan.fault.error], "wrong": wrong})
    say({"tried": count, "met": met, "stuck": stuck, "missed": missed})


def main(words: list[str]) -> None:
    """Do what the command line says."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    task, directory, *rest = words
    if task == "prepare":
        prepare(Path(directory))
    elif task == "try":
        seed, faults, first, step = rest
        _try_all(Path(directory), seed, int(faults), int(first), int(step))
    else:
        step, number, error = rest
        recorded = restored(Path(directory))
        call = recorded[step].calls[int(number) - recorded[step].before - 1]
        plan = Planned(step, Fault(int(number), error), call)
        say([call.name, call.file, tried(Path(directory), Path(directory) / "one", recorded, plan)[0]])


if __name__ == "__main__":
    end_with_parent()
    main(sys.argv[1:])
