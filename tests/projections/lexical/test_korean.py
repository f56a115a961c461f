"""Particles, question words and short nouns."""

from __future__ import annotations

import pytest

from projections.lexical.korean import PARTICLES, short_noun, strip_particle


@pytest.mark.parametrize(
    ("word", "stem"),
    [
        ("알림을", "알림"),
        ("알림", "알림"),
        ("서버에서는", "서버"),
        ("서버에서", "서버"),
        ("사용자에게", "사용자"),
        ("대한민국으로부터", "대한민국"),
        ("물을", "물을"),  # one syllable would remain
        ("에서는", "에서"),  # the longest that leaves two
        ("은", "은"),
    ],
)
def test_the_longest_particle_that_leaves_two_syllables_is_stripped(word, stem):
    assert strip_particle(word) == stem


def test_there_are_about_forty_particles():
    assert 35 <= len(PARTICLES) <= 50


@pytest.mark.parametrize(
    ("word", "noun"),
    [("물을", "물"), ("책은", "책"), ("개를", "개"), ("가을", None), ("나이", None), ("물", None), ("알림을", None)],
)
def test_a_noun_of_one_syllable_is_seen_where_the_particle_fits(word, noun):
    assert short_noun(word) == noun
