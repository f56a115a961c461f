"""When segments are merged: bounded in number, and never the large ones for the sake of a small one."""

from __future__ import annotations

import random

import pytest

from journal import limits
from projections.lexical.merging import Size, next_merge

LEVEL = limits.LEXICAL_LEVEL_POSTINGS


def sizes(*postings):
    return [Size(size, 10, 0) for size in postings]


def settled(postings, *, inline=False):
    """Merge until nothing is due; return the sizes and how many postings were written."""
    written = 0
    while (due := next_merge(sizes(*postings), inline=inline)) is not None:
        first, last = due
        total = sum(postings[first:last])
        written += total
        postings[first:last] = [total]
    return written


@pytest.mark.parametrize(
    ("postings", "due"),
    [
        ([], None),
        ([100], None),
        ([100, 100, 100], None),
        ([100, 100, 100, 100], (0, 4)),
        ([20 * LEVEL, 100, 100, 100], None),  # the large one is no neighbour of their level
        ([20 * LEVEL, 100, 100, 100, 100], (1, 5)),
        ([2 * LEVEL, 100, 2 * LEVEL, 50], (0, 3)),  # small ones between go along, those after do not
        ([2 * LEVEL, 2 * LEVEL, 20 * LEVEL, 2 * LEVEL, 50], (0, 2)),
        ([20 * LEVEL, 50, 2 * LEVEL, 2 * LEVEL], (1, 4)),  # small ones before too: nothing else would take them up
    ],
)
def test_which_merge_is_due(postings, due):
    assert next_merge(sizes(*postings), inline=False) == due


def test_a_segment_of_which_a_quarter_is_dead_is_written_again():
    assert next_merge([Size(100, 8, 1), Size(100, 8, 2)], inline=True) == (1, 2)
    assert next_merge([Size(100, 8, 1)], inline=True) is None
    assert next_merge([Size(0, 1, 1)], inline=True) == (0, 1)


def test_large_merges_are_left_to_upkeep():
    large = [limits.LEXICAL_INLINE_POSTINGS * 3 // 4] * 4
    assert next_merge(sizes(*large), inline=True) is None
    assert next_merge(sizes(*large), inline=False) == (0, 4)
    part = [limits.LEXICAL_INLINE_POSTINGS * 2 // 5] * 4
    assert next_merge(sizes(*part), inline=True) == (0, 2)
    dead = [Size(2 * limits.LEXICAL_INLINE_POSTINGS, 10, 5)]
    assert next_merge(dead, inline=True) is None
    assert next_merge(dead, inline=False) == (0, 1)


def test_a_fold_merges_by_itself_before_there_are_too_many():
    large = sizes(*[limits.LEXICAL_INLINE_POSTINGS * 3 // 4] * (limits.LEXICAL_SEGMENTS_MAX + 1))
    assert next_merge(large, inline=True) is not None


def test_full_segments_are_left_alone_and_do_not_count_as_too_many():
    full = [limits.LEXICAL_SEGMENT_POSTINGS] * (limits.LEXICAL_SEGMENTS_MAX + 10)
    assert next_merge(sizes(*full), inline=False) is None
    assert next_merge(sizes(*full, *[limits.LEXICAL_INLINE_POSTINGS * 3 // 4] * 4), inline=True) is None


def test_what_was_left_behind_a_large_segment_is_merged_by_upkeep():
    left = [limits.LEXICAL_INLINE_POSTINGS // 2] * 9
    postings = [*left, limits.LEXICAL_SEGMENT_POSTINGS, 10]
    settled(postings)
    assert len(postings) <= 4


def test_no_merge_is_over_the_full_size():
    half = limits.LEXICAL_SEGMENT_POSTINGS // 2
    assert next_merge(sizes(*[half] * 4), inline=False) == (0, 2)


@pytest.mark.parametrize("seed", range(3))
def test_segments_stay_few_and_postings_are_seldom_written_again(seed):
    generator = random.Random(seed)
    postings, written, total = [], 0, 0
    for _ in range(4_000):
        size = generator.choice([1, 100, 300, 3_000, 20_000])
        postings.append(size)
        total += size
        written += settled(postings)
        assert len(postings) < 16
    assert sum(postings) == total
    assert written < 12 * total
