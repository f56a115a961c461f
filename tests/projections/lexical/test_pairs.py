"""Tokens of pairs of syllables: those of the pairs as strings, whatever was met before."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.lexical.keyed import TokenKey
from projections.lexical.pairs import PairTokens
from projections.lexical.postings import token_rows

KEY = bytes(range(32))
runs = st.lists(st.text("가각갂힣한국어서버", min_size=1, max_size=9), max_size=6)


def found(pairs, given_runs):
    return [bytes(row) for row in token_rows(*pairs.of(given_runs))]


def expected(given_runs):
    return TokenKey(KEY).tokens([left + right for run in given_runs for left, right in pairwise(run)])


@pytest.mark.parametrize("size", [1, 2, 7, 131_072])
@given(pages=st.lists(runs, max_size=4))
def test_they_are_the_tokens_of_the_pairs_however_many_share_a_place(size, pages):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("journal.limits.LEXICAL_PAIRS", size)
        pairs = PairTokens(TokenKey(KEY))
        for page in pages:
            assert found(pairs, page) == expected(page)


def test_what_was_met_is_not_hashed_again(monkeypatch):
    pairs = PairTokens(TokenKey(KEY))
    assert found(pairs, ["대한민국"]) == expected(["대한민국"])
    monkeypatch.setattr(TokenKey, "tokens", None)
    assert len(found(pairs, ["민국", "대한민"])) == 3
