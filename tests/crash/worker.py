"""Makes images of a recorded store, and checks each.

    python -m tests.crash.worker RECORD ROOT PLACE KIND SEED IMAGES FIRST STEP DEAF_TO

``RECORD`` is what was recorded of a workload under the directory ROOT; images are made in the directory PLACE, one
after another. KIND:

    drawn     IMAGES of them, spread evenly over every change and flush; the seed and its number draw an image's fate
    nothing   one at each acknowledgement: nothing that was not flushed is there
    back      one at each acknowledgement: every name is back whose removal was not flushed
    switch    one at each rename outside the projections: it alone is there, of what was not flushed

Only FIRST, FIRST + STEP ... are checked. DEAF_TO names flushes that are left out, separated by commas ("none": none);
for each the images are made anew. Prints a line "at N" before each image, a line of JSON for each that does not hold,
and after each round "checked N of M": how many images, over M changes and flushes.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import structlog

from tests.crash.checking import Depth, Promised, after_another_boot, check
from tests.crash.disk import NEWEST_NAME, NO_REMOVAL, NOTHING, Fate, drawn
from tests.crash.trace import Call, restored
from tests.crash.tracedisk import Step, TracedDisk
from tests.workers import end_with_parent

APART_EVERY = 40  # images that a real child of the quarantine walks: it takes most of the time
FURTHER_EVERY = 8  # images that are gone on with
FOLDED_EVERY = 3  # images of which each projection is compared with a replay, where there are few
MANY = 5_000  # of so many all are
_OF_PROJECTIONS = (b"MARK", b"CURRENT")


@dataclass(frozen=True, slots=True)
class Asked:
    """Which images are made, and where."""

    root: Path
    place: Path
    kind: str
    seed: str
    images: int
    first: int
    step: int

    def fates(self, step: Step, reached: int, steps: int) -> Iterator[tuple[int, Fate]]:
        """Yield the number and fate of each image that is cut after this step, the ``reached``-th change or flush."""
        if self.kind == "drawn":
            for number in range(-(-reached * self.images // steps), -(-(reached + 1) * self.images // steps)):
                yield number, drawn(random.Random(f"{self.seed}/{number}"))
        elif self.kind == "nothing" and step.kind == "ack":
            yield reached, NOTHING
        elif self.kind == "back" and step.kind == "ack":
            yield reached, NO_REMOVAL
        elif self.kind == "switch" and step.kind == "rename" and step.said not in _OF_PROJECTIONS:
            yield reached, NEWEST_NAME


def run(recorded: list[Call], asked: Asked, deaf_to: str | None) -> tuple[int, int]:
    """Check what is asked for; return how many images were checked, and how many changes and flushes there are."""
    steps = sum(step.kind != "ack" for step in TracedDisk(asked.root).steps(recorded))
    disk, promised = TracedDisk(asked.root, deaf_to=deaf_to), Promised()
    reached, checked = 0, 0
    for step in disk.steps(recorded):
        if step.kind == "ack":
            promised.hear(step.said)
            if asked.kind == "drawn":
                continue
        for number, fate in asked.fates(step, reached, steps):
            if number % asked.step == asked.first:
                _check(disk, promised, asked, number, fate, reached)
                checked += 1
        reached += step.kind != "ack"
    return checked, steps


def _check(disk: TracedDisk, promised: Promised, asked: Asked, number: int, fate: Fate, cut: int) -> None:
    _say(f"at {number}")
    chance = random.Random(f"checks/{asked.seed}/{number}")
    shutil.rmtree(asked.place, ignore_errors=True)
    asked.place.mkdir()
    disk.disk.image(asked.place, fate)
    after_another_boot(apart=chance.randrange(APART_EVERY) == 0)
    depth = Depth(
        folded=asked.images >= MANY or chance.randrange(FOLDED_EVERY) == 0,
        further=chance.randrange(FURTHER_EVERY) == 0,
    )
    try:
        wrong = check(asked.place, asked.root, promised, depth)
    except Exception as error:  # noqa: BLE001 - whatever it is, an image must not end in it
        wrong = [f"{type(error).__name__}: {error}"]
    if wrong:
        _say(json.dumps({"image": number, "cut": cut, "wrong": wrong}))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(words: list[str]) -> None:
    """Check what the command line says."""
    record, root, place, kind, seed, images, first, step, deaf_to = words
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    recorded = restored(Path(record))
    asked = Asked(Path(root), Path(place), kind, seed, int(images), int(first), int(step))
    for each in deaf_to.split(","):
        checked, steps = run(recorded, asked, None if each == "none" else each)
        _say(f"checked {checked} of {steps}")


if __name__ == "__main__":
    end_with_parent()
    main(sys.argv[1:])
