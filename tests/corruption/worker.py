"""A warm process that damages copies of a store and judges what they answer.

    python -m tests.corruption.worker TEMPLATE PLACE FAMILIES SEED FIRST STEP COUNTS [live]

Families and how much of each, with commas between; 0 is all of a family that has an end. Of what is drawn every STEPth
is done, from FIRST on. Each is one line of JSON on stdout: number, family, file kind, outcome, words, what was done.
With ``live`` it is done to a store that is open, between two rounds of questions.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.corruption import asking
from tests.corruption.asking import ask, copied
from tests.corruption.blindness import take_any_body
from tests.corruption.damage import Drawer
from tests.corruption.live import asked_alive
from tests.corruption.template import Template, bound
from tests.corruption.verdict import Control, judged
from tests.workers import end_with_parent

APART_EVERY = 100  # how seldom the quarantine's own child walks, which takes half of the time
FOLDED_EVERY = 4  # how seldom the audit compares all projections with a replay


def main(words: list[str]) -> None:
    """Judge what is asked for."""
    directory, place = Path(words[0]), Path(words[1])
    families, seed, first, step, counts = (
        words[2].split(","),
        words[3],
        int(words[4]),
        int(words[5]),
        words[6].split(","),
    )
    os.environ["XDG_STATE_HOME"] = str(place.parent / "state")
    template, binding = Template.load(directory), bound(directory / "engram.toml")
    if "CORRUPTION_BLIND" in os.environ:
        take_any_body()
    told = os.dup(1)
    asking.silent()
    copied(template.new, place)
    _load_what_is_needed(lambda: asking.asked(place, template, binding, apart=False))
    found = []
    for source in (template.new, template.old):
        copied(source, place)
        found.append(ask(place, template, binding))
    control, drawer = Control(*found), Drawer(template)
    assert control.new.ended is control.new.opening is control.new.audit is None, control.new
    for family, count in zip(families, counts, strict=True):
        for turn, number in enumerate(_numbers(drawer.count(family), int(count), seed)[first::step]):
            damage = drawer.draw(family, number, seed)
            folded = bool(damage.old) or turn % FOLDED_EVERY == 0
            if words[7:] == ["live"]:
                answered = asked_alive(place, template, binding, damage, control.new.answers)
            else:
                copied(template.new, place)
                damage.do(place)
                answered = ask(
                    place, template, binding, apart=turn % APART_EVERY == 0, folded=folded
                )  # fmt: skip
            outcome, why = judged(answered, control, damage.old)
            line = [number, family, damage.kind, outcome, why, damage.words]
            os.write(told, json.dumps(line, ensure_ascii=False).encode() + b"\n")


def _numbers(end: int | None, count: int, seed: str) -> list[int]:
    """Return which numbers of a family are drawn; ``end`` is how many it has, None where it has no end."""
    if end is None:
        return list(range(count))
    return sorted(random.Random(seed).sample(range(end), min(count, end))) if count else list(range(end))


def _load_what_is_needed(work: Callable[[], object]) -> None:
    """Load what a fork loads that does some work: threads and open files, which no fork may inherit, stay in that."""

    def names() -> bytes:
        work()
        return json.dumps(list(sys.modules)).encode()

    _, raw = asking.in_a_fork(names)
    for name in json.loads(raw):
        with suppress(ImportError):
            importlib.import_module(name)


if __name__ == "__main__":
    end_with_parent()
    main(sys.argv[1:])
