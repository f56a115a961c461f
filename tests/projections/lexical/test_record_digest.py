"""A record's digest, taken out of its id."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.digests import record_id_of
from journal.errors import JournalCorrupt
from projections.lexical.delta import digest_of_record


@given(st.binary(min_size=32, max_size=32))
def test_it_is_what_the_id_was_made_of(digest):
    encoded = base64.b32encode(digest).decode().rstrip("=")
    assert digest_of_record("mem_" + encoded.lower()) == digest_of_record("mem_" + encoded) == digest


def test_the_id_of_a_record_is_taken():
    assert len(digest_of_record(record_id_of("00" * 32))) == 32


@pytest.mark.parametrize(
    "record_id", ["", "mem_", "mem_" + "a" * 51, "mem_" + "a" * 53, "rec_" + "a" * 52, "mem_" + "a" * 51 + "1"]
)
def test_anything_else_is_no_record_id(record_id):
    with pytest.raises(JournalCorrupt):
        digest_of_record(record_id)
