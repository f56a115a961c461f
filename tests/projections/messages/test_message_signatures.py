"""Signatures: what they must say, how full they are, and the blocks that hold them."""

from __future__ import annotations

import random

import numpy as np
import pytest

from journal import limits
from projections.lexical.keyed import TokenKey
from projections.messages import signatures
from projections.messages.owners import Owners

KEY = TokenKey(bytes(range(32)))


def text_of(length, seed=1):
    generator = random.Random(seed)
    return "".join(generator.choice("가나다라마바사아자차카타파하 abcdefgh東京大学") for _ in range(length))


@pytest.mark.parametrize("length", [1, 7, 40, 90, 200, 800])
def test_a_twelfth_of_the_bits_is_set_at_most(length):
    hashes = signatures.text_hashes(KEY, text_of(length))
    size = signatures.size_class(hashes.size)
    made = np.unpackbits(np.frombuffer(signatures.signature(size, hashes), np.uint8))
    assert 0 < made.sum() <= made.size / 12
    assert size == 0 or hashes.size * 12 > made.size / 2  # nor is it larger than it must be


def test_the_greatest_class_takes_what_is_left():
    assert signatures.class_bytes(signatures.size_class(10**7)) == limits.MESSAGES_SIGNATURE_MAX_BYTES


def test_grams_are_characters_and_pairs():
    assert signatures.grams("aba") == {"a", "b", "ab", "ba"}
    assert signatures.grams("") == set()


def test_a_query_takes_the_pairs_first_and_never_too_many():
    text = "abcdefghijklmnopqrstuvwxyz0123456789"
    expected = sorted(text[at : at + 2] for at in range(35))[: limits.MESSAGES_QUERY_GRAMS]
    tokens = KEY.tokens(expected)
    assert signatures.query_hashes(KEY, text).tolist() == [int.from_bytes(token[:8], "little") for token in tokens]
    assert signatures.query_hashes(KEY, "a").size == 1


@pytest.mark.parametrize("rows", [64, 128, 1_024])
def test_a_block_gives_back_what_it_holds(rows):
    made = np.random.default_rng(5).integers(0, 256, (rows, 16), np.uint8)
    block = signatures.block_of(made)
    assert np.array_equal(signatures.signatures_of(block, rows), made)
    bits = np.unpackbits(made, axis=1, bitorder="little")
    wanted = np.array([3, 77, 120])
    assert np.array_equal(signatures.rows_with(block, rows, wanted), np.flatnonzero(bits[:, wanted].all(axis=1)))


def test_bits_are_known_by_the_key_alone():
    owners = Owners(bytes(range(32)))
    first, second = (owners.keys(owners.tag(name)).grams for name in ("principal:a", "principal:b"))
    assert not np.array_equal(signatures.text_hashes(first, "알림"), signatures.text_hashes(second, "알림"))
    words = owners.keys(owners.tag("principal:a")).words
    assert words.tokens(["알림"]) != first.tokens(["알림"])


def test_the_keys_of_a_few_owners_are_kept(monkeypatch):
    monkeypatch.setattr(limits, "MESSAGES_OWNERS_KEPT", 3)
    owners = Owners(bytes(range(32)))
    tokens = [owners.keys(owners.tag(f"principal:{number}")).words.tokens(["a"]) for number in range(9)]
    assert len(owners._kept) == 3
    assert [owners.keys(owners.tag(f"principal:{number}")).words.tokens(["a"]) for number in range(9)] == tokens
    assert len({token for (token,) in tokens}) == 9


def test_a_key_has_32_bytes_and_is_not_shown():
    with pytest.raises(ValueError, match="32"):
        Owners(bytes(31))
    assert "secret" not in repr(Owners(b"secret-secret-secret-secret-1234"))
