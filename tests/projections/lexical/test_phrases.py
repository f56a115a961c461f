"""Phrases: what counts as one, and that it narrows nothing it should not."""

from __future__ import annotations

import numpy as np
import pytest

from journal import limits
from projections.lexical.phrases import Phrases, phrase_terms, phrases_of
from projections.lexical.question import Question


@pytest.mark.parametrize(
    ("query", "phrases"),
    [
        ('the "nightly build" moved', ("nightly build",)),
        ('"one two" and "three four"', ("one two", "three four")),
        ('"One  TWO" and "one two"', ("one two",)),
        ("\u201cnightly build\u201d", ("nightly build",)),
        ("\u201enachts gebaut\u201c", ("nachts gebaut",)),
        ("\u00abla nuit\u00bb", ("la nuit",)),
        ("\u300c야간 빌드\u300d 는", ("야간 빌드",)),
        ("\u300e夜間ビルド\u300f", ("夜間ビルド",)),
        ('"to be or not to be"', ("to be or not to be",)),
        ('"v1.2.3"', ("v1.2.3",)),
        ('an open "quote', ()),
        ('"" and " "', ()),
        ('"/ \' - : *"', ()),
        ("it's the 'build'", ()),
        ('5" and 7" screws', ()),
        ('"야간 빌드"를 옮긴 날', ("야간 빌드",)),
        ("nothing", ()),
    ],
)
def test_what_stands_between_double_quotes_is_a_phrase(query, phrases):
    assert phrases_of(query) == phrases
    assert Question.of(query).phrases == phrases


def test_there_are_never_too_many():
    query = " ".join(f'"word {number}"' for number in range(limits.PHRASES_MAX + 10))
    assert len(phrases_of(query)) == limits.PHRASES_MAX


def test_quotes_take_no_word_from_a_query():
    assert Question.of('the "nightly build" moved').terms == Question.of("the nightly build moved").terms


def test_a_phrase_of_stop_words_is_asked_for_beside_other_words():
    assert set(Question.of('"is the" billing').terms) > set(Question.of("is the billing").terms)
    assert Question.of('"is the"').terms == Question.of("is the").terms


@pytest.mark.parametrize(
    ("phrase", "text"),
    [
        ("세 살", "나비이고 세 살이다"),
        ("치과 예", "치과 예약을 했다"),
        ("빌드를 야", "빌드를 야간에"),
        ("터의 데이터", "서울 데이터센터의 데이터베이스"),
        ("으로 판단되었다", "일어난 것으로 판단되었다"),
        ("는 구국적 결단이라", "그는 구국적 결단이라고 했다"),
        ("서 개인적 생", "정치에서 개인적 생활로"),
    ],
)
def test_a_phrase_may_begin_and_end_inside_a_hangul_word(phrase, text):
    assert set(phrase_terms((phrase,))) <= set(Question.of(text).terms)


@pytest.mark.parametrize(
    "phrase", ["journal/store", "store/log_reader.py", "at v1.2", "2026-11", "omit-frame", "e_lock", "11-29 with -fno"]
)
def test_a_phrase_may_begin_and_end_between_the_parts_of_an_identifier(phrase):
    text = "src/journal/store/log_reader.py at v1.2.3 on 2026-11-29 with -fno-omit-frame-pointer: E_LOCK_TIMEOUT"
    assert set(phrase_terms((phrase,))) <= set(Question.of(text).terms)


def test_a_syllable_by_itself_is_a_word():
    assert phrase_terms(("살",)) == ["살"]


def test_the_words_of_phrases_come_once():
    assert phrase_terms(("nightly build", "build moved")) == list(
        dict.fromkeys(Question.of("nightly build moved").terms)
    )


def test_each_text_is_looked_at_once_and_only_where_it_may_hold_them():
    texts = {1: ["A nightly\nBUILD."], 2: ["build nightly"], 3: ["the nightly build", "moved"], 4: ["nightly build"]}
    looked = []

    def text_of(cursor):
        looked.append(cursor)
        return texts[cursor]

    phrases = Phrases(("nightly build",), np.array([1, 2, 3], np.uint64), text_of)
    asked = np.array([4, 3, 2, 1], np.uint64)
    assert phrases(asked).tolist() == [False, True, False, True]
    assert phrases(asked[:2]).tolist() == [False, True]
    assert sorted(looked) == [1, 2, 3]


def test_all_phrases_are_wanted_but_not_of_one_text():
    texts = {1: ["one two", "three"], 2: ["one two"]}
    phrases = Phrases(("one two", "three"), np.array([1, 2], np.uint64), lambda cursor: texts[cursor])
    assert phrases(np.array([1, 2])).tolist() == [True, False]
