"""Text for a terminal: nothing in it is obeyed, and columns line up in any script."""

from __future__ import annotations

import json
import os
import sys
import time
import unicodedata
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.cli import terminal
from tools.cli.output import as_json

UNSEEN = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"}


@given(st.text())
def test_a_line_is_one_line_without_anything_that_a_terminal_obeys(text):
    shown = terminal.one_line(text)
    assert shown.splitlines() in ([shown], [])
    assert all(unicodedata.category(each) not in UNSEEN for each in shown if each not in "\u200c\u200d")


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), max_size=40))
def test_what_can_be_seen_stays_as_it_is(text):
    assert terminal.one_line(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("한국어 텍스트", "한국어 텍스트"),
        ("a\nb", "a<U+000A>b"),
        ("a\tb", "a<U+0009>b"),
        ("\x1b[31mred", "<U+001B>[31mred"),
        ("\x9b31m", "<U+009B>31m"),
        ("\u202eabc", "<U+202E>abc"),
        ("\u2066abc\u2069", "<U+2066>abc<U+2069>"),
        ("a\u200bb", "a<U+200B>b"),
        ("\ufeffx", "<U+FEFF>x"),
        ("x\U000e0041\U000e007f", "x<U+E0041><U+E007F>"),
        ("x\U000e0101", "x<U+E0101>"),
        ("a\u200db", "a<U+200D>b"),
        ("\U0001f468\u200d\U0001f469", "\U0001f468\u200d\U0001f469"),
        ("\u200d\U0001f469", "<U+200D>\U0001f469"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("\u2028", "<U+2028>"),
        ("\x00\x7f", "<U+0000><U+007F>"),
        ("\ud800", "<U+D800>"),
    ],
)
def test_shown(text, shown):
    assert terminal.one_line(text) == shown


def test_line_breaks_stay_where_lines_are_wanted():
    assert terminal.lines("a\r\nb\nc\rd") == "a\nb\nc<U+000D>d"


@pytest.mark.parametrize(
    ("text", "columns"), [("abc", 3), ("한글", 4), ("漢字", 4), ("ｱ", 1), ("Ａ", 2), ("e\u0301", 1), ("", 0)]
)
def test_width(text, columns):
    assert terminal.width(text) == columns


def test_columns_line_up_beside_wide_letters():
    drawn = terminal.table(("name", "n"), [("한글", "1"), ("abcdef", "2"), ("x\ny", "3")]).split("\n")
    assert drawn == ["name        n", "한글        1", "abcdef      2", "x<U+000A>y  3"]
    assert len({terminal.width(line) for line in drawn}) == 1


def test_a_table_without_rows_is_its_headings():
    assert terminal.table(("a", "b"), []) == "a  b"


@pytest.fixture
def columns(monkeypatch):
    """Make stdout a terminal of so many columns."""

    def make(count):
        monkeypatch.setattr(os, "get_terminal_size", lambda fd: os.terminal_size((count, 24)))
        monkeypatch.setattr(sys, "stdout", SimpleNamespace(fileno=lambda: 1))

    return make


FIRST, ALIKE, OTHER = (f"candidate_{start:0<64}" for start in ("aaaaaaaaaab", "aaaaaaaaaac", "b"))


def test_ids_are_whole_where_there_is_room_and_where_there_is_no_terminal(columns):
    rows = [("한글", FIRST)]
    assert FIRST in terminal.table(("says", "candidate"), rows)
    columns(len(FIRST) + 6)
    assert FIRST in terminal.table(("says", "candidate"), rows)
    columns(len(FIRST) + 5)
    assert terminal.table(("says", "candidate"), rows).split("\n")[1] == "한글  candidate_aaaaaaaaaa…"


def test_ids_that_would_look_alike_stay_whole(columns):
    columns(20)
    drawn = terminal.table(("candidate",), [(FIRST,), (ALIKE,), (OTHER,), ("candidate_words of a text that is no id",)])
    assert [line.rstrip() for line in drawn.split("\n")[1:]] == [
        FIRST, ALIKE, "candidate_b000000000…", "candidate_words of a text that is no id",
    ]  # fmt: skip


def test_a_row_that_does_not_fit_goes_on_set_in_and_keeps_its_columns(columns):
    headings, rows = ("one", "two", "three"), [("a" * 8, "b" * 8, "한글"), ("c", "d", "e")]
    assert len(terminal.table(headings, rows).split("\n")) == 3
    columns(18)
    assert terminal.table(headings, rows).split("\n") == [
        "one       two", "  three", "aaaaaaaa  bbbbbbbb", "  한글", "c         d", "  e",
    ]  # fmt: skip
    columns(17)
    assert terminal.table(headings, rows).split("\n")[:2] == ["one", "  two       three"]
    columns(3)  # too narrow for anything: every column has a line, and nothing is lost
    assert terminal.table(("one",), [("a" * 8,)]) == "one\naaaaaaaa"


def test_fields_and_sentences_are_broken_at_blanks_on_a_narrow_terminal_alone(columns):
    pairs = [("name", "one two 한글 four")]
    assert terminal.fields(pairs) == "name  one two 한글 four"
    assert terminal.wrapped("one two three") == "one two three"
    columns(13)
    assert terminal.fields(pairs) == "name  one two\n      한글\n      four"
    assert terminal.wrapped("one two three") == "one two three"
    assert terminal.fields([("id", "a" * 20)]) == "id  " + "a" * 20
    columns(12)
    assert terminal.wrapped("one two three\nx", 2) == "one two\n  three\nx"
    assert terminal.wrapped("a" * 20) == "a" * 20
    assert terminal.wrapped("  " + "a" * 20) == "  " + "a" * 20
    assert terminal.row(["cell one", "cell two\n"]) == "cell one\n  cell two<U+000A>"


def test_fields_line_up():
    assert terminal.fields([("a", "1"), ("longer", "x\u202e")]) == "a       1\nlonger  x<U+202E>"


def test_times_are_local_and_name_their_zone(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Seoul")
    time.tzset()
    try:
        assert terminal.local_time("2026-11-29T15:30:00.999Z") == "2026-11-30 00:30:00 KST"
    finally:
        monkeypatch.undo()
        time.tzset()


@given(
    st.recursive(
        st.text() | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_json_means_the_same_and_is_safe(value):
    text = as_json(value)
    assert json.loads(text) == value
    forbidden = [
        *range(0x20),
        *range(0x7F, 0xA0),
        0x200B,
        0x200E,
        *range(0x202A, 0x202F),
        *range(0x2066, 0x206A),
        0xFEFF,
    ]
    assert not {each for each in map(chr, forbidden) if each != "\n"} & set(text)


def test_json_keeps_every_script_readable():
    assert "야간 빌드" in as_json({"text": "야간 빌드"})
    assert "\U000e0041" not in as_json("\U000e0041")
    assert json.loads(as_json("\U000e0041")) == "\U000e0041"
