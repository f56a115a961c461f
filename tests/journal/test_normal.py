"""NFKC in linear time: ordinary text is untouched, hostile runs are bounded."""

from __future__ import annotations

import sys
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from journal import normal
from journal.normal import nfkc


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
