"""From text to terms: what finds what, in any script, and that nothing is refused."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.lexical import tokens
from projections.lexical.identifiers import STOP_MARK
from projections.lexical.times import time_in
from projections.lexical.tokens import Tokenizer, document_terms, query_terms


def finds(query, text):
    """Whether every term of the query is in the text."""
    return set(query_terms(query)) <= set(document_terms(text))


def meets(query, text):
    """Whether some term of the query is in the text."""
    return bool(set(query_terms(query)) & set(document_terms(text)))


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("알림", "알림을 보냈다"),
        ("알림을", "새 알림이 있다"),
        ("물", "물을 마셨다"),
        ("물", "물"),
        ("서버", "API서버를 고쳤다"),
        ("API", "API를 고쳤다"),
        ("2018년", "2018년에 지었다"),
        ("2018", "2018년에 지었다"),
        ("running", "It runs every day"),
        ("John", "that is John’s book"),
        ("café", "Un CAFÉ noir"),
        ("ＡＰＩ", "the api"),
        ("黒猫", "黒猫が好き"),
        ("猫", "猫"),
        ("мир", "Привет, МИР!"),
        ("ไทย", "ภาษาไทย"),
        ("مرحبا", "قال مرحبا"),
        ("नमस्ते", "उसने नमस्ते कहा"),
        ("😀", "good 😀 day"),
        ("👍", "👍🏽"),
        ("straße", "STRASSE"),
    ],
)
def test_is_found(query, text):
    assert finds(query, text)


def test_every_bigram_is_found_in_a_text_that_is_spaced_otherwise():
    assert set(query_terms("데이터베이스")) - {"데이터베이스"} <= set(document_terms("데이터 베이스를 옮겼다"))
    assert set(query_terms("데이터 베이스")) - {"데이터", "베이스"} <= set(document_terms("데이터베이스"))


@pytest.mark.parametrize(
    "written",
    [
        "getUserName", "HTTPServer", "foo_bar", "foo-bar", "src/main.py", "a\\b\\c", "ENOENT", "v1.2.3", "#4797",
        "2026-11-29", "user@example.com", "std::vector", "C++", "C#", "1,234,567.89", "2026-11-29T12:34:56.789Z",
        "__init__", "projections/lexical/tokens.py", "sha256:abc", "mem_y5lyhrr2w42rak7rz6h3gypy", "x86-64",
    ],
)  # fmt: skip
def test_an_identifier_is_found_as_written(written):
    whole = query_terms(written)[0]
    assert whole in document_terms(f"before ({written}), after.")
    assert finds(written, f"한글{written}를")


@pytest.mark.parametrize(
    ("written", "parts"),
    [
        ("getUserName", "get user name"),
        ("HTTPServer", "http server"),
        ("foo_bar", "foo bar"),
        ("src/main.py", "main.py"),
        ("src/main.py", "src main py"),
        ("v1.2.3", "v1 2 3"),
        ("#4797", "4797"),
        ("2026-11-29", "2026"),
        ("2026-11-29T12:34:56.789Z", "2026-11-29"),
        ("user@example.com", "example.com"),
        ("foo_barBaz-qux", "barBaz"),
        ("1,234", "1234"),
    ],
)
def test_an_identifier_is_found_by_its_parts(written, parts):
    assert finds(parts, f"see {written}.")


def test_other_identifiers_are_not_found():
    assert "v1.2.4" not in document_terms("v1.2.3")
    assert "getusernam" not in document_terms("get user name")


def test_syntax_is_text():
    for query in ('"foo bar"', "foo AND NOT bar", "foo:bar*", "(foo", "-foo", "'", "foo^2~", "/x/", "a:*"):
        query_terms(query)
    assert finds('"foo" -bar', "foo bar")


def test_stop_words_are_no_terms_of_a_query():
    assert query_terms("What is the name of the server?") == query_terms("name server")
    assert query_terms("수도는 어디인가?") == query_terms("수도")


def test_stop_words_are_terms_where_there_is_nothing_else():
    assert query_terms("The Who")
    assert finds("The Who", "The Who played here")
    assert finds("to be or not to be", "the question is to be or not to be")
    assert finds("누구", "그는 누구인가, 누구")


def test_stop_words_in_documents_carry_the_mark():
    assert document_terms("the server") == [STOP_MARK + "the", "server"]


def test_a_particle_of_a_latin_word_is_nothing_by_itself():
    assert document_terms("API에서는") == ["api"]


def test_what_is_glued_to_a_latin_word_is_told_from_what_follows_it():
    assert "2018년" in document_terms("2018년에")
    assert "2018년" not in document_terms("2018 년에")
    assert document_terms("API에서는 (에서는)") == ["api", "에서", "에서"]


def test_bigrams_join_across_spaces_and_not_across_other_things():
    assert "국수" in document_terms("대한민국 수도")
    assert "국수" not in document_terms("대한민국, 수도")
    assert "국수" not in document_terms("대한민국 A 수도")


def test_invisible_characters_are_not_there():
    assert document_terms("se\u200bcr\u00adet\ufeff") == document_terms("secret")
    assert document_terms("알\u200b림") == document_terms("알림")


def test_a_mark_extends_a_word_of_its_own_script():
    assert document_terms("дру\u0301гом") == ["дру\u0301гом"]


@given(st.text())
def test_every_text_works(text):
    document_terms(text)
    query_terms(text)


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_composed_and_decomposed_are_alike(text):
    composed = unicodedata.normalize("NFC", text)
    assert document_terms(unicodedata.normalize("NFD", text)) == document_terms(composed)


@given(st.text(alphabet="가나다 이는을 ab.A_1#을é猫"))
def test_a_document_is_found_by_its_own_text(text):
    assert set(query_terms(text)) <= set(document_terms(text))


@given(st.lists(st.text(alphabet="가나는 aB.1", max_size=12), max_size=30))
def test_the_memo_changes_nothing(texts):
    tokenizer = Tokenizer()
    for text in (*texts, *texts):
        assert tokenizer.document_terms(text) == document_terms(text)


def test_the_memo_is_bounded(monkeypatch):
    monkeypatch.setattr("journal.limits.LEXICAL_MEMO_WORDS", 10)
    tokenizer = Tokenizer()
    for number in range(100):
        tokenizer.document_terms(f"word{number}")
    tokenizer.document_terms("x" * 1_000)
    assert len(tokenizer._memo) <= 10
    assert "x" * 1_000 not in tokenizer._memo


def test_a_long_run_takes_time_in_proportion():
    terms = document_terms("a/" * 20_000 + "b")
    assert len(terms) < 60_000
    assert sum(map(len, terms)) < 400_000


# What identifiers, contractions and numbers are made of: a run that is nothing else must still be a term.
_SCRAPS = st.text(alphabet="nN'\u2019tsrvedlmTt1,.#+/\\:@-_ \u0301\uac00", max_size=12)


@pytest.mark.parametrize("text", ["n't", "N\u2019T", "n't care", "1n't", "x,000's", "#1", "c++'s", "n't#"])
def test_a_contraction_alone_is_a_term(text):
    assert document_terms(text)


@given(_SCRAPS)
def test_no_scrap_of_text_is_too_odd(text):
    assert all(document_terms(text))
    assert all(query_terms(text))


@pytest.mark.parametrize("space", ["\x85", "\u1680", "\u2028", "\u2029"])
def test_a_space_of_no_single_line_joins_no_hangul(space):
    assert "전화" not in document_terms(f"이전{space}화면")
    assert "전화" in document_terms("이전 \t화면")


@pytest.mark.parametrize(
    ("text", "pair"),
    [("이전 화면.", "전화"), ("(이전 화면", "전화"), ("v1이전 화면", "전화"), ("이전 화면v1", "전화")],
)
def test_hangul_is_joined_across_a_space_whatever_stands_on_its_other_sides(text, pair):
    assert pair in document_terms(text)


@pytest.mark.parametrize("text", ["이전. 화면", "이전 (화면", "이전 v1 화면", "이전v1 화면", "이전 - 화면"])
def test_hangul_is_not_joined_across_anything_else(text):
    assert "전화" not in document_terms(text)


def test_a_reading_counts_the_terms_that_are_no_stop_words():
    reading = Tokenizer().read("the cache (of the server), 언제 알림을")
    assert reading.length == sum(term[0] != STOP_MARK for term in reading.terms) < len(reading.terms)


def test_what_is_taken_for_stable_is_its_own_normal_form_beside_anything():
    stable = [character for character in map(chr, range(0x110000)) if tokens._STABLE.fullmatch(character)]
    decomposed = [unicodedata.decomposition(character).split() for character in map(chr, range(0x110000))]
    seconds = {chr(int(parts[1], 16)) for parts in decomposed if parts[1:] and parts[0][0] != "<"}
    assert unicodedata.is_normalized("NFKC", "".join(stable))
    assert not any(map(unicodedata.combining, stable))
    assert not seconds & set(stable)
    assert not any(tokens._INVISIBLE.search(character) for character in stable)


PIECES = [
    "cache", "The", "today", "Mar", "2019", "12345", "getUser", "C", "#", "++", "(", ")", ".", ",", "'", "_", "/",
    '"', "-", "알림을", "누구", "오늘", "해", "가", "일", "東京", "\u0301", "\u2019", "é",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=5).map("".join))
def test_a_plain_word_gives_what_its_runs_give(word):
    assert tokens._known(word)[:4] == tokens._acting(word)
    assert tokens._known(word)[5] == time_in(word)


def test_long_numbers_are_not_remembered():
    tokenizer = Tokenizer()
    assert tokenizer.document_terms("(20261129) in 2026") == ["20261129", "\x00in", "2026"]
    assert list(tokenizer._memo) == ["in", "2026"]
