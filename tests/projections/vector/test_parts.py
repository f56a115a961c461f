"""Parts: nothing is lost between them, none is longer than it should be, and they are cut where something ends."""

from __future__ import annotations

import random

import pytest

from journal import limits
from projections.vector.parts import PARTS_MAX, parts_of

SENTENCES = (
    "The nightly build moved to the second machine. It had been slow for weeks! Nobody knew why?\n"
    "우리는 배포를 금요일로 옮겼다. 회의는 다음 주에 다시 한다.\n"
    "毎朝六時に起きます。\n"
)


@pytest.mark.parametrize("length", [0, 1, 10, limits.VECTOR_PART_CHARACTERS - 1, limits.VECTOR_PART_CHARACTERS])
def test_a_short_text_is_one_part(length):
    assert parts_of("x" * length) == ["x" * length]


@pytest.mark.parametrize("seed", range(20))
def test_parts_are_the_text_and_about_alike(seed):
    rng = random.Random(seed)
    text = "".join(rng.choices([*SENTENCES, " ", "\n"], k=rng.randrange(600, limits.VECTOR_TEXT_MAX_CHARACTERS)))
    parts = parts_of(text)
    assert "".join(parts) == text
    assert 1 < len(parts) <= PARTS_MAX
    assert max(map(len, parts)) <= 1.5 * limits.VECTOR_PART_CHARACTERS
    assert min(map(len, parts)) >= len(text) / len(parts) / 2


def test_no_text_that_is_embedded_has_more_parts_than_a_row_holds():
    assert len(parts_of("x" * limits.VECTOR_TEXT_MAX_CHARACTERS)) <= PARTS_MAX


@pytest.mark.parametrize(
    ("unit", "mark"), [("a line of words\n", "\n"), ("A sentence. ", "."), ("가나다라마바사 ", " ")]
)
def test_they_are_cut_where_something_ends(unit, mark):
    parts = parts_of(unit * (3_000 // len(unit)))
    assert len(parts) > 1
    assert all(part.endswith(mark) for part in parts[:-1])


def test_a_text_without_a_break_is_cut_all_the_same():
    size = limits.VECTOR_PART_CHARACTERS
    assert [len(part) for part in parts_of("가" * (3 * size))] == [size, size, size]
