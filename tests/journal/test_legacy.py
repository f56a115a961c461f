"""Frames of another format: upcast where this release knows how, else refused by their number."""

from __future__ import annotations

import msgspec
import pytest

from journal import legacy
from journal.errors import JournalCorrupt, RegistryVersionUnavailable
from journal.events import FORMAT, Actor, EventType, Header
from journal.frames import GENESIS, decode_frame, encode_frame
from journal.scope import Scope

HEADER = Header(
    format=FORMAT, type=EventType.CAPTURE, scope=Scope.of("tenant", "work"), cursor=1, recorded_at=1,
    event_id=bytes(32), actor=Actor("principal:one"), subject="candidate_1", record_id=None, related=None,
    from_state=0, to_state=1,
    key_id=bytes(16), intent=None, guards=(), content_digest=bytes(32), ledger_digest=None, prev=GENESIS,
)  # fmt: skip


def fields_of_zero() -> list:
    """Return the fields of a made-up older format: it had no guards."""
    fields = msgspec.msgpack.decode(encode_frame(HEADER))
    fields[0] = 0
    del fields[14]
    return fields


def zero_to_one(fields: list) -> list:
    return [1, *fields[1:14], [], *fields[14:]]


def test_nothing_is_upcast_yet():
    assert legacy.UPCASTERS == {}
    assert decode_frame(encode_frame(HEADER)) == HEADER
    fields = msgspec.msgpack.decode(encode_frame(HEADER))
    assert legacy.upcast(fields, FORMAT) is fields


def test_an_older_format_is_read_as_this_release_would_have_written_it(monkeypatch):
    monkeypatch.setitem(legacy.UPCASTERS, 0, zero_to_one)
    frame = msgspec.msgpack.encode(fields_of_zero())
    assert decode_frame(frame) == HEADER


def test_upcasters_follow_each_other(monkeypatch):
    monkeypatch.setitem(legacy.UPCASTERS, 0, zero_to_one)
    monkeypatch.setitem(legacy.UPCASTERS, -1, lambda fields: [0, *fields[2:]])
    older = [-1, "what format 0 dropped", *fields_of_zero()[1:]]
    assert decode_frame(msgspec.msgpack.encode(older)) == HEADER


@pytest.mark.parametrize("number", [0, 2, 99, -1])
def test_a_format_that_nothing_leads_on_from_is_named(number):
    fields = [number, *msgspec.msgpack.decode(encode_frame(HEADER))[1:]]
    for frame in (fields, [*fields, "more"], fields[:3]):
        with pytest.raises(RegistryVersionUnavailable, match=f"format {number} "):
            decode_frame(msgspec.msgpack.encode(frame))


def test_a_later_format_is_refused_whatever_is_registered(monkeypatch):
    monkeypatch.setitem(legacy.UPCASTERS, 2, lambda fields: [1, *fields[1:]])
    with pytest.raises(RegistryVersionUnavailable):
        decode_frame(encode_frame(msgspec.structs.replace(HEADER, format=2)))


def test_an_upcaster_that_leads_to_no_frame_is_corruption(monkeypatch):
    monkeypatch.setitem(legacy.UPCASTERS, 0, lambda fields: [1, "nonsense"])
    with pytest.raises(JournalCorrupt):
        decode_frame(msgspec.msgpack.encode(fields_of_zero()))
