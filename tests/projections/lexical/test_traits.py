"""What a text is besides its words."""

from __future__ import annotations

import pytest

from projections.lexical.traits import ASKS, SHORT, TELLS_TIME, asks_when, traits_of


@pytest.mark.parametrize(
    "text", ["Is it?", 'He asked "why?"', "정말요?", "本当ですか？", "¿Por qué? ", "Really?!", "(is it so?)"]
)
def test_a_text_that_ends_in_a_question_mark_asks(text):
    assert traits_of(text) & ASKS


@pytest.mark.parametrize("text", ["", "?" + " a" * 40, "What? No.", "a?b", "https://example.org/?q=1"])
def test_one_that_does_not_asks_nothing(text):
    assert not traits_of(text) & ASKS


@pytest.mark.parametrize(
    "text",
    [
        "I went there yesterday.", "last week", "Two years ago", "on Friday", "in May 4", "the 7th of May", "2023",
        "2026-11-29", "a few months", "어제 갔다", "지난주에", "3월에", "2023년", "작년", "昨日", "去年",
        "三年前 2020年",
    ],
)  # fmt: skip
def test_a_text_that_tells_a_time(text):
    assert traits_of(text) & TELLS_TIME


@pytest.mark.parametrize(
    "text", ["", "it may be", "march on!", "monitor", "agony", "12 eggs", "v1.2.3", "오래", "시간"]
)
def test_one_that_tells_none(text):
    assert not traits_of(text) & TELLS_TIME


@pytest.mark.parametrize(
    "query",
    [
        "When did she go?", "  when?", "What year was it", "in which month did he", "How long ago", "how many days",
        "그녀는 언제 갔어?", "며칠이었지", "몇 월", "いつ行った", "什么时候",
    ],
)  # fmt: skip
def test_a_question_for_a_time(query):
    assert asks_when(query)


@pytest.mark.parametrize(
    "query", ["", "Who did it?", "what time-out is set", "whenever", "the time when", "how many eggs"]
)
def test_a_question_for_something_else(query):
    assert not asks_when(query)


def test_a_text_is_short_by_its_bytes():
    assert traits_of("a" * 512) & SHORT
    assert not traits_of("a" * 513) & SHORT
    assert not traits_of("가" * 171) & SHORT
