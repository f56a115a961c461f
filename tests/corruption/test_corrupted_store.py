"""Whatever is done to the files of a store: no wrong answer, nothing twice, no crash of who serves, nothing that hangs.

What is wrong is told by a code or by the audit, or made anew, or does no harm. make corruption SEED=... repeats a run
over another store of the same kind; each line that is told names what was done.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import replace

import pytest

from tests import runs
from tests.corruption.asking import ask, copied
from tests.corruption.rig import Line, damaged, table, wrong
from tests.corruption.template import bound
from tests.corruption.verdict import DETECTED, HARMLESS, MENDED, OUTCOMES, WRONG, Control, judged

LONG = os.environ.get("ENGRAM_CORRUPTION") == "long"
SEED = runs.seed()
AGAIN = runs.again("corruption" if LONG else "test TESTS=tests/corruption", SEED)
CLOSED = {
    "flip": 10_000, "truncate": 200, "extend": 100, "zero": 200, "pages": 200, "bodies": 60, "slots": 100, "older": 0,
    "missing": 0, "empty": 0,
}  # fmt: skip
CLOSED_BRIEFLY = {
    "flip": 24, "truncate": 3, "extend": 2, "zero": 3, "pages": 3, "bodies": 2, "slots": 2, "older": 3, "missing": 3,
    "empty": 3,
}  # fmt: skip
OPEN = {"flip": 600, "truncate": 60, "zero": 60}
OPEN_BRIEFLY = {"flip": 8, "truncate": 2, "zero": 2}


def figures(lines: list[Line], began: float) -> str:
    """Return the counts: at length by what was damaged and by family, briefly those of the outcomes."""
    outcomes = Counter(line.outcome for line in lines)
    counts = ", ".join(f"{name} {outcomes[name]:,}" for name in OUTCOMES)
    words = [f"{len(lines):,} changes in {time.monotonic() - began:.0f} s: {counts}"]
    if LONG:
        families = sorted(Counter((line.family, line.outcome) for line in lines).items())
        words += [table(lines), ", ".join(f"{family} {outcome} {n:,}" for (family, outcome), n in families)]
    return "\n".join([*words, AGAIN])


@pytest.mark.timeout(10_800)
def test_a_closed_store_that_was_damaged_gives_no_wrong_answer(template, tell):
    began = time.monotonic()
    lines = damaged(template.directory, CLOSED if LONG else CLOSED_BRIEFLY, SEED)
    tell(figures(lines, began))
    assert not wrong(lines), f"{AGAIN}\n{wrong(lines)}"
    assert len(lines) >= sum((CLOSED if LONG else CLOSED_BRIEFLY).values())
    assert {line.outcome for line in lines} >= {DETECTED, MENDED, HARMLESS}


@pytest.mark.timeout(10_800)
def test_files_that_are_damaged_while_they_are_served_from_give_no_wrong_answer(template, tell):
    """Pages are not checked while they are mapped: some answers are wrong until the pages are walked, and none then."""
    began = time.monotonic()
    lines = damaged(template.directory, OPEN if LONG else OPEN_BRIEFLY, SEED, live=True)
    tell(figures(lines, began))
    assert not wrong(lines), f"{AGAIN}\n{wrong(lines)}"
    assert len(lines) == sum((OPEN if LONG else OPEN_BRIEFLY).values())


def test_a_planted_wrong_answer_is_found(template, tmp_path):
    """The control: each answer in turn with other content, missing, or there where it should not be."""
    binding = bound(template.directory / "engram.toml")
    copied(template.new, tmp_path / "store")
    right = ask(tmp_path / "store", template, binding)
    control = Control(right, right)
    assert judged(right, control)[0] == HARMLESS
    for number, answer in enumerate(right.answers):
        for planted in ({"code": "NOT_FOUND"}, {**answer, "record": "another"}, None):
            if planted != answer:
                answers = [*right.answers[:number], planted, *right.answers[number + 1 :]]
                assert judged(replace(right, answers=answers), control)[0] == WRONG, (number, planted)
    assert judged(replace(right, captures=[right.captures[0], {}, "made twice"]), control)[0] == WRONG
    assert judged(replace(right, doubled="an event"), control)[0] == WRONG
    assert judged(replace(right, ended="it ended with -7"), control)[0] == WRONG
    assert judged(replace(right, opening="INTERNAL"), control)[0] == WRONG


def test_a_product_that_takes_any_body_is_found(template, monkeypatch):
    """The control: without a look at what opens a body, exchanged bodies are answered."""
    monkeypatch.setenv("CORRUPTION_BLIND", "bodies")
    assert wrong(damaged(template.directory, {"bodies": 8}, "control"))
