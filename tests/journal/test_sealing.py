"""Sealed parts and wrapped keys: what opens them, and everything that does not."""

from __future__ import annotations

import itertools

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from journal.errors import JournalCorrupt
from journal.scope import Scope
from journal.sealing import Purpose, associated_data, seal, subkey, unseal, unwrap, wrap

KEY, NONCE = bytes(range(32)), bytes(range(12))
SCOPE = Scope.of("tenant:one", "workspace:one")
EVENT_ID = bytes(32)
TENANT = Scope.of("tenant:two", "workspace:one")
WORKSPACE = Scope.of("tenant:one", "workspace:two")
PLACES = {
    "here": associated_data(Purpose.BODY, SCOPE, EVENT_ID, "candidate_a"),
    "another purpose": associated_data(Purpose.LEDGER, SCOPE, EVENT_ID, "candidate_a"),
    "another tenant": associated_data(Purpose.BODY, TENANT, EVENT_ID, "candidate_a"),
    "another workspace": associated_data(Purpose.BODY, WORKSPACE, EVENT_ID, "candidate_a"),
    "another event": associated_data(Purpose.BODY, SCOPE, bytes([1]) * 32, "candidate_a"),
    "another subject": associated_data(Purpose.BODY, SCOPE, EVENT_ID, "candidate_b"),
    "no subject": associated_data(Purpose.BODY, SCOPE, EVENT_ID, None),
    "names moved over": associated_data(Purpose.BODY, Scope.of("tenant:onew", "orkspace:one"), EVENT_ID, "candidate_a"),
}


def test_a_subkey_is_one_block_of_hkdf_expand():
    for use in ("body", "ledger", "event-id", "projection/lexical/1"):
        assert subkey(KEY, use) == HKDFExpand(SHA256(), 32, b"engram/" + use.encode()).derive(KEY)


def test_every_purpose_has_a_key_of_its_own():
    assert len({subkey(KEY, purpose.value) for purpose in Purpose} | {KEY}) == len(Purpose) + 1


@pytest.mark.parametrize("size", [0, 1, 1_000_000])
def test_a_part_opens_where_it_was_sealed(size):
    plain = bytes(size)
    part = seal(KEY, Purpose.BODY, PLACES["here"], plain, NONCE)
    assert len(part) == 12 + size + 16
    assert unseal(KEY, Purpose.BODY, PLACES["here"], part) == plain


def test_no_place_is_like_another():
    assert len(set(PLACES.values())) == len(PLACES)


@pytest.mark.parametrize("place", [name for name in PLACES if name != "here"])
def test_a_part_does_not_open_elsewhere(place):
    part = seal(KEY, Purpose.BODY, PLACES["here"], b"plain", NONCE)
    with pytest.raises(JournalCorrupt):
        unseal(KEY, Purpose.BODY, PLACES[place], part)


def test_a_part_does_not_open_for_another_purpose_or_under_another_key():
    part = seal(KEY, Purpose.BODY, PLACES["here"], b"plain", NONCE)
    for key, purpose in itertools.product((KEY, bytes(32)), Purpose):
        if (key, purpose) != (KEY, Purpose.BODY):
            with pytest.raises(JournalCorrupt):
                unseal(key, purpose, PLACES["here"], part)


def test_a_part_with_any_byte_changed_does_not_open():
    part = seal(KEY, Purpose.BODY, PLACES["here"], b"plain", NONCE)
    for position in range(len(part)):
        changed = bytearray(part)
        changed[position] ^= 1
        with pytest.raises(JournalCorrupt):
            unseal(KEY, Purpose.BODY, PLACES["here"], bytes(changed))


@pytest.mark.parametrize("size", [0, 5, 12, 27])
def test_a_part_that_is_cut_does_not_open(size):
    with pytest.raises(JournalCorrupt) as refused:
        unseal(KEY, Purpose.BODY, PLACES["here"], seal(KEY, Purpose.BODY, PLACES["here"], b"", NONCE)[:size])
    assert "plain" not in refused.value.detail


def test_a_wrapped_key_opens_under_its_key_and_place_alone():
    wrapped = wrap(KEY, bytes([7]) * 32, b"place", NONCE)
    assert len(wrapped) == 60
    assert unwrap(KEY, wrapped, b"place") == bytes([7]) * 32
    assert unwrap(KEY, wrapped, b"elsewhere") is None
    assert unwrap(bytes(32), wrapped, b"place") is None
    assert unwrap(KEY, bytes(60), b"place") is None
    assert unwrap(KEY, b"", b"place") is None
