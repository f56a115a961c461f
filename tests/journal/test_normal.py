"""NFKC in linear time: ordinary text is untouched, hostile runs are bounded."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal import identity, normal
from journal.normal import beginning, nfkc


@given(st.text(max_size=60))
def test_ordinary_text_is_nfkc(text):
    broken = normal._long_run().search(text)
    assert broken or nfkc(text) == unicodedata.normalize("NFKC", text)


@given(st.text(alphabet="\u0300\u0315\u0316\u1ab0e\uac00", max_size=400))
def test_no_run_stays_over_thirty(text):
    run = 0
    for character in unicodedata.normalize("NFKD", nfkc(text)):
        run = run + 1 if unicodedata.combining(character) else 0
        assert run <= 30 + 1  # a composed starter may bring one mark of its own before the run


def test_every_combining_mark_is_known():
    last = max(code for code in range(sys.maxunicode + 1) if unicodedata.combining(chr(code)))
    assert last < normal._MARKS_END


def test_a_hostile_run_does_not_hold_a_core():
    # A square of its length would be minutes, and end at the time limit of a test.
    text = "\u0315\u0300" * 400_000
    assert len(nfkc(text)) == len(text) + len(text) // 30


def test_a_word_in_any_form_is_one_word():
    for word in ("알림을", "café", "ｆｕｌｌ", "Ⅳ"):
        assert nfkc(unicodedata.normalize("NFD", word)) == nfkc(word)


UNSEEN = "\u200b\u200c\u200d\u00ad\ufeff\ufe0f\u034f\u200f\u180e\u3164\u2800\U000e0041\x00\x07"


def test_what_nobody_sees_is_gone():
    for character in UNSEEN:
        assert normal.visible(f"a{character}b") == "ab"


@given(st.text(alphabet="ab 알림을\n\té\u3000", max_size=30))
def test_what_is_seen_stays(text):
    assert normal.visible(text) == text


def test_two_texts_that_look_the_same_have_one_guard():
    key = bytes(32)

    def guards(text):
        component = {"component_id": "component:1", "text": text}
        return identity.guards(key, {"components": [component], "primary_component_id": "component:1"})

    for character in UNSEEN:
        assert guards(f"the nightly{character} build") == guards("the nightly build")
    assert guards("the nightly build.") != guards("the nightly build")


@pytest.mark.parametrize("text", ["", "abc", "가" * 1_000, "e\u0301" * 500])
def test_the_beginning_of_an_ordinary_text_is_all_of_it(text):
    assert beginning(text, 2_000) == text


@pytest.mark.parametrize(
    ("text", "most"), [("\ufdfa" * 10_000, 18_000), ("x\ufdfa" * 10_000, 19_000), ("a" * 500, 100)]
)
def test_the_beginning_is_about_as_long_as_it_may_be_in_nfkc(text, most):
    begun = beginning(text, most)
    assert text.startswith(begun)
    assert 0.9 * most <= len(unicodedata.normalize("NFKC", begun)) <= 1.1 * most
