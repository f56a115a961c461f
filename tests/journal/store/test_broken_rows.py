"""An index row that holds no id or no number is JOURNAL_CORRUPT, whatever bytes it holds."""

from __future__ import annotations

import pytest

from journal.errors import JournalCorrupt
from journal.store.lmdb.view import _name, _number


@pytest.mark.parametrize("raw", [b"\xff", b"candidate_\xc3(", b"\xed\xa0\x80"])
def test_no_id(raw):
    with pytest.raises(JournalCorrupt):
        _name(raw)


@pytest.mark.parametrize("raw", [b"", b"\x01", bytes(9), b"\xff" * 8, (2**48 + 1).to_bytes(8, "big")])
def test_no_number(raw):
    with pytest.raises(JournalCorrupt):
        _number(raw)


def test_what_is_written_is_read():
    assert _name(b"candidate_1") == "candidate_1"
    assert _number((2**48).to_bytes(8, "big")) == 2**48
