"""Frames: the bytes, the hashes, and what is refused."""

from __future__ import annotations

import hashlib

import msgspec
import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from journal import frames
from journal.errors import EngramError, JournalCorrupt, RegistryVersionUnavailable
from journal.events import WRITTEN, Actor, EventType, Header
from journal.scope import Scope

RESERVED = sorted(set(EventType) - WRITTEN)
FIELDS = [
    1,  # format
    1,  # type
    ["acme", "docs"],
    7,  # cursor
    1_755_350_096_789,  # recorded_at
    b"\x11" * 32,  # event_id
    ["person:kim", "agent:one", b"\x22" * 16],
    "candidate_x",
    None,  # record_id
    None,  # related
    0,  # from_state
    1,  # to_state
    b"\x33" * 16,  # key_id
    b"\x44" * 32,  # intent
    [b"\x55" * 32, b"\x66" * 32],  # guards
    b"\x77" * 32,  # content_digest
    b"\x88" * 32,  # ledger_digest
    b"\x00" * 32,  # prev
]
HEADER = Header(
    format=1,
    type=1,
    scope=Scope("acme", "docs"),
    cursor=7,
    recorded_at=1_755_350_096_789,
    event_id=b"\x11" * 32,
    actor=Actor("person:kim", "agent:one", b"\x22" * 16),
    subject="candidate_x",
    record_id=None,
    related=None,
    from_state=0,
    to_state=1,
    key_id=b"\x33" * 16,
    intent=b"\x44" * 32,
    guards=(b"\x55" * 32, b"\x66" * 32),
    content_digest=b"\x77" * 32,
    ledger_digest=b"\x88" * 32,
    prev=frames.GENESIS,
)

HASHES = st.binary(min_size=32, max_size=32)
HEADERS = st.builds(
    Header,
    format=st.just(1),
    type=st.sampled_from(sorted(map(int, WRITTEN))),
    scope=st.builds(Scope, st.text(min_size=1), st.text(min_size=1)),
    cursor=st.integers(1, 2**64 - 1),
    recorded_at=st.integers(0, 2**53 - 1),
    event_id=HASHES,
    actor=st.builds(Actor, st.text(), st.none() | st.text(), st.none() | st.binary(min_size=16, max_size=16)),
    subject=st.none() | st.text(),
    record_id=st.none() | st.text(),
    related=st.none() | st.text(),
    from_state=st.integers(0, 9),
    to_state=st.integers(0, 9),
    key_id=st.none() | st.binary(min_size=16, max_size=16),
    intent=st.none() | HASHES,
    guards=st.lists(HASHES, max_size=3).map(tuple),
    content_digest=st.none() | HASHES,
    ledger_digest=st.none() | HASHES,
    prev=HASHES,
)


def _frame(**changed) -> bytes:
    """Return the frame of FIELDS with some of them changed, by position."""
    fields = [changed.get(f"at_{index}", value) for index, value in enumerate(FIELDS)]
    return msgspec.msgpack.encode(fields)


def test_a_frame_is_the_array_of_the_fields_in_their_order():
    assert frames.encode_frame(HEADER) == msgspec.msgpack.encode(FIELDS)
    assert frames.decode_frame(msgspec.msgpack.encode(FIELDS)) == HEADER


def test_the_first_bytes_of_a_frame():
    # array of 18, format 1, type 1, array of 2, "acme", "docs", cursor 7, uint64 of recorded_at
    assert frames.encode_frame(HEADER)[:26].hex() == "dc0012010192a461636d65a4646f637307cf00000198b304db95"


@given(HEADERS)
def test_decoding_undoes_encoding(header):
    frame = frames.encode_frame(header)
    assert frames.decode_frame(frame) == header
    assert frames.encode_frame(frames.decode_frame(frame)) == frame


def test_hashes():
    frame = frames.encode_frame(HEADER)
    leaf = hashlib.sha256(b"\x00" + frame).digest()
    assert frames.frame_hash(frame) == blake3(frame).digest()
    assert frames.leaf_hash(frame) == leaf
    assert frames.event_digest(frame) == "sha256:" + leaf.hex()
    assert frames.part_digest(b"sealed") == blake3(b"sealed").digest()
    assert frames.GENESIS == b"\x00" * 32


def test_leaf_hash_of_nothing_is_rfc_6962s():
    # the published hash of the empty leaf
    assert frames.leaf_hash(b"").hex() == "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"


@pytest.mark.parametrize("number", [0, 2, 3, 255, 2**40])
def test_a_foreign_format_is_refused_by_name(number):
    for frame in (_frame(at_0=number), msgspec.msgpack.encode([number, "another", {"shape": 1}])):
        with pytest.raises(RegistryVersionUnavailable) as caught:
            frames.decode_frame(frame)
        assert f"format {number} " in caught.value.detail


@pytest.mark.parametrize("number", [0, 13, 31, 63, 96, 1000])
def test_an_unknown_type_is_refused_by_its_number(number):
    with pytest.raises(RegistryVersionUnavailable) as caught:
        frames.decode_frame(_frame(at_1=number))
    assert f"type {number} " in caught.value.detail


def test_a_reserved_type_is_refused_by_its_name():
    for kind in RESERVED:
        with pytest.raises(RegistryVersionUnavailable) as caught:
            frames.decode_frame(_frame(at_1=int(kind)))
        assert kind.label in caught.value.detail


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\xc1",
        b"\x90",
        b"\xc0",
        msgspec.msgpack.encode({"format": 1}),
        msgspec.msgpack.encode(FIELDS[:-1]),
        msgspec.msgpack.encode(FIELDS) + b"\x00",
        msgspec.msgpack.encode(FIELDS)[:-1],
        _frame(at_0="1"),
        _frame(at_0=True),
        _frame(at_1=None),
        _frame(at_2=["acme"]),
        _frame(at_3=7.5),
        _frame(at_5="no bytes"),
        _frame(at_6=None),
        _frame(at_14=None),
        _frame(at_17=None),
    ],
    ids=lambda frame: frame.hex()[:24] or "empty",
)
def test_what_is_no_frame_is_corrupt(frame):
    with pytest.raises(JournalCorrupt):
        frames.decode_frame(frame)


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_refused_by_a_code(noise):
    with pytest.raises(EngramError):
        frames.decode_frame(noise)


@given(HEADERS, st.data())
def test_a_changed_byte_never_passes_for_the_same_event(header, data):
    frame = bytearray(frames.encode_frame(header))
    index = data.draw(st.integers(0, len(frame) - 1))
    frame[index] ^= data.draw(st.integers(1, 255))
    assert frames.frame_hash(bytes(frame)) != frames.frame_hash(frames.encode_frame(header))
    try:
        decoded = frames.decode_frame(bytes(frame))
    except EngramError:
        return
    assert decoded != header


@pytest.mark.parametrize(
    "frame",
    [
        msgspec.msgpack.encode([*FIELDS, None]),
        _frame(at_2=["acme", "docs", "more"]),
        _frame(at_6=["person:kim", "agent:one", b"\x22" * 16, "more"]),
    ],
    ids=["header", "scope", "actor"],
)
def test_nothing_may_follow_the_last_field(frame):
    with pytest.raises(JournalCorrupt):
        frames.decode_frame(frame)


def test_a_deep_frame_is_refused_by_a_code():
    with pytest.raises(JournalCorrupt):
        frames.decode_frame(b"\x91" * 100_000)
