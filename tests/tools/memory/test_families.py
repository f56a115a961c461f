"""The family of binary states: what is an assertion, and every way in which two can stand to each other."""

from __future__ import annotations

import itertools

import pytest

from tests.tools.memory.world import component, payload
from tools.memory.families import BINARY_STATUS, Assertion, Matter, Relating, assertion_of, related

MATTER = Matter("build", "state", "asserted")


def content(text: str, *, kind: str = "decision", refs: tuple[str, ...] = (BINARY_STATUS,), at: int = 7) -> dict:
    made = payload(components=[component("component:1", text, kind)], valid_time={"t": at})
    return {"payload": {**made, "reconciliation": {"family_refs": list(refs)}}, "trust": {"class": "asserted"}}


@pytest.mark.parametrize("value", ["active", "inactive", "unknown"])
def test_what_asserts(value):
    assert assertion_of(content(f"build|state|{value}")) == Assertion(MATTER, value, 7)


@pytest.mark.parametrize("text", ["Build | State |ACTIVE", "ｂｕｉｌｄ|state|active", " build|  state |active\n"])
def test_texts_are_compared_as_everywhere(text):
    assert assertion_of(content(text)) == Assertion(MATTER, "active", 7)


@pytest.mark.parametrize(
    "text", ["build|state", "build|state|active|x", "build||active", "|state|active", "build|state|on", "build|state|"]
)
def test_what_does_not_assert(text):
    assert assertion_of(content(text)) is None


def test_another_kind_and_one_that_did_not_opt_in_do_not_assert():
    assert assertion_of(content("build|state|active", kind="context")) is None
    assert assertion_of(content("build|state|active", refs=())) is None


EARLY, LATE = 1, 2
RULE = {  # (value, at) of the first, of the second -> how they stand
    (("active", EARLY), ("inactive", LATE)): Relating("contradicts"),
    (("active", LATE), ("inactive", LATE)): Relating("contradicts"),
    (("active", LATE), ("unknown", EARLY)): Relating("supersedes", first_supersedes=True),
    (("inactive", LATE), ("unknown", EARLY)): Relating("supersedes", first_supersedes=True),
    (("active", EARLY), ("unknown", EARLY)): Relating("needs_adjudication"),
    (("active", EARLY), ("unknown", LATE)): Relating("needs_adjudication"),
}


@pytest.mark.parametrize(("pair", "expected"), RULE.items())
def test_how_two_stand(pair, expected):
    first, second = (Assertion(MATTER, value, at) for value, at in pair)
    assert related(first, second) == expected
    turned = {True: False, None: None}[expected.first_supersedes]
    assert related(second, first) == Relating(expected.relation, turned)


def test_equal_values_say_nothing_whenever():
    for value, first, second in itertools.product(("active", "inactive", "unknown"), (EARLY, LATE), (EARLY, LATE)):
        assert related(Assertion(MATTER, value, first), Assertion(MATTER, value, second)) is None
