"""The compact map is a dictionary that takes little."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.compact import CompactMap, RepeatFinder


@given(st.lists(st.tuples(st.text(max_size=3), st.integers(1, 255)), max_size=3_000))
def test_it_is_a_dictionary(pairs):
    compact = CompactMap()
    model: dict[str, int] = {}
    for key, value in pairs:
        assert compact.put(key, value) == model.get(key, 0)
        model[key] = value
    assert len(compact) == len(model)
    assert all(compact.get(key) == value for key, value in model.items())
    assert compact.get("never put") == 0


def test_it_grows_and_forgets_nothing():
    compact = CompactMap()
    for number in range(20_000):
        assert compact.put(f"candidate_{number}", number % 255 + 1) == 0
    assert len(compact) == 20_000
    assert all(compact.get(f"candidate_{number}") == number % 255 + 1 for number in range(20_000))
    assert compact.get("candidate_20000") == 0


def test_an_entry_takes_little():
    compact = CompactMap()
    for number in range(100_000):
        compact.put(f"candidate_{number}", 1)
    size_bytes = sys.getsizeof(compact._keys) + sys.getsizeof(compact._values)
    assert size_bytes / 100_000 < 28


@pytest.mark.parametrize("value", [0, 256, -1])
def test_absence_and_more_than_a_byte_cannot_be_put(value):
    with pytest.raises(ValueError, match="1 to 255"):
        CompactMap().put("x", value)


@given(st.lists(st.binary(max_size=2), max_size=2_000))
def test_repeats_are_found(things):
    finder = RepeatFinder()
    for thing in things:
        finder.add(thing)
    assert finder.repeated() == {hash(thing) for thing in things if things.count(thing) > 1}


def test_a_repeat_among_many_is_found():
    finder = RepeatFinder()
    for number in range(50_000):
        finder.add(number.to_bytes(32, "big"))
    assert finder.repeated() == frozenset()
    finder.add((777).to_bytes(32, "big"))
    assert finder.repeated() == {hash((777).to_bytes(32, "big"))}
