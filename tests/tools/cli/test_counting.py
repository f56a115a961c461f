"""Numbers of things in words, and where they are told."""

from __future__ import annotations

import pytest

from tests.tools.memory.world import forgetting
from tools.cli.counting import counted
from tools.host.capabilities import FORGET


@pytest.mark.parametrize(
    ("number", "words", "told"),
    [
        (0, ("records",), "0 records"),
        (1, ("records",), "1 record"),
        (2, ("records",), "2 records"),
        (1, ("processes",), "1 process"),
        (1, ("aliases",), "1 alias"),
        (1, ("candidates wait", "candidate waits"), "1 candidate waits"),
        (2, ("candidates wait", "candidate waits"), "2 candidates wait"),
        (1, ("pending",), "1 pending"),
    ],
)
def test_one_is_told_otherwise_than_several(number, words, told):
    assert counted(number, *words) == told


def test_the_doctor_counts_in_words(open_desk):
    with open_desk.agent() as agent:
        agent.capture("One that waits.")
        agent.code(FORGET, forgetting(agent.remember("One more.")))
    told = open_desk.ok("doctor").out
    assert "1 candidate waits for a person" in told
    assert "1 confirmation request is open" in told
    *_, sums = told.strip().splitlines()
    for part in sums.split(", "):
        number, word = part.split(" ")
        assert word in ({"warning", "note"} if number == "1" else {"warnings", "notes"})
    with open_desk.agent() as agent:
        agent.capture("Another that waits.")
    assert "2 candidates wait for a person" in open_desk.ok("doctor").out


def test_one_event_of_an_audit_and_one_figure_are_told_as_one(desk):
    (candidate,) = desk.captured("One that waits.")
    assert ": 1 event, " in desk.ok("audit").out
    assert "1 candidate" in desk.ok("stats").out
    assert "1 candidates" not in desk.ok("stats").out
    shown = desk.ok("candidates", "show", candidate).out.partition("\n\n")[0].splitlines()
    assert len({len(line) - len(line.partition("  ")[2].lstrip()) for line in shown}) == 1, "one column of values"
