"""Tokens stand for terms, under a key."""

from __future__ import annotations

import blake3
import pytest

from projections.lexical.keyed import TokenKey

KEY = bytes(range(32))


def test_a_token_is_the_keyed_hash_of_the_term():
    expected = blake3.blake3("알림".encode(), key=KEY).digest()[:16]
    assert TokenKey(KEY).tokens(["알림", "cache", "알림"]) == [
        expected, blake3.blake3(b"cache", key=KEY).digest()[:16], expected,
    ]  # fmt: skip


def test_a_token_never_changes():
    assert TokenKey(KEY).tokens(["engram"])[0].hex() == "bbc3a3a82bf7a041a8a3ed835b863a00"


def test_another_key_gives_other_tokens():
    assert TokenKey(KEY).tokens(["cache"]) != TokenKey(bytes(32)).tokens(["cache"])


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_key_has_32_bytes(size):
    with pytest.raises(ValueError, match="32"):
        TokenKey(bytes(size))


def test_the_key_is_not_shown():
    key = TokenKey(b"secret-secret-secret-secret-1234")
    assert "secret" not in repr(key)


def test_the_memo_is_bounded_and_changes_nothing(monkeypatch):
    monkeypatch.setattr("journal.limits.LEXICAL_MEMO_WORDS", 5)
    key = TokenKey(KEY)
    terms = [f"term{number}" for number in range(20)] + ["x" * 200]
    assert key.tokens(terms * 2) == TokenKey(KEY).tokens(terms) * 2
    assert len(key._memo) <= 5


def test_a_lone_surrogate_has_a_token():
    assert len(TokenKey(KEY).tokens(["\ud800"])[0]) == 16
