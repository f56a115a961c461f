"""Expressions of time, and the words by which a text without any is told at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.lexical.times import MAYBE, MAYBE_COUNTED, TOLD, tells_time, time_in, told_by
from projections.lexical.tokens import Tokenizer, normalised
from projections.lexical.traits import traits_of, traits_read

PARTS = (
    "yesterday", "3", "days", "a", "few", "couple of", "weeks", "last", "Mon", "monday", "night", "3rd", "of", "may",
    "march", "mar", "sept.", "9", "2023", "12/11/2023", "3년", "10", "월", "어제", "지난", "주", "주말", "이번달",
    "요일", "昨日", "10時", "ago", "agora", "(2", "day)", "\u0131", "s\u0130nce", "\u2028", "\u0085", "K", "٣", "year",
)  # fmt: skip


@given(st.lists(st.sampled_from(PARTS), max_size=6), st.sampled_from((" ", "", "\n", "  ", "\u3000", ". ")))
def test_what_the_words_say_of_a_text_is_what_the_text_says(parts, between):
    text = between.join(parts)
    said = 0
    for word in normalised(text).split():
        said |= time_in(word)
    assert told_by(normalised(text), said) is tells_time(normalised(text))


@given(st.lists(st.sampled_from(PARTS) | st.text(max_size=4), max_size=6).map(" ".join))
def test_a_text_that_was_read_has_the_traits_of_the_text(text):
    assert traits_read(Tokenizer().read(text)) == traits_of(text)


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("yesterday,", TOLD), ("2023.", TOLD), ("3년에", TOLD), ("days", MAYBE), ("Mar.", MAYBE),
        ("주말", MAYBE_COUNTED), ("house", 0), ("(12345)", 0), ("agora", 0), ("서버를", 0),
    ],
)  # fmt: skip
def test_a_word_by_itself(word, says):
    assert time_in(word) == says


@pytest.mark.parametrize("digit", ["1", "٣", "１"])
def test_a_long_number_is_looked_at_once(digit):
    long = digit * 400_000  # the square of its length would take hours
    assert not tells_time(long)
    assert tells_time(f"{long} 년")
    assert tells_time(f"a{long}년")
