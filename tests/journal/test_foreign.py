"""Bytes that nest deeper than a decoder goes are broken bytes, wherever they stand."""

from __future__ import annotations

import pytest

from journal import frames
from journal.errors import JournalCorrupt
from journal.store.lmdb import view
from projections import marks

DEEP = b"\x91" * 100_000


def test_a_frame():
    with pytest.raises(JournalCorrupt):
        frames.decode_frame(DEEP)


def test_a_commit_record():
    with pytest.raises(JournalCorrupt):
        view.read_record(DEEP)


def test_a_subject_row():
    with pytest.raises(JournalCorrupt):
        view._decode_subject(DEEP)


def test_a_mark(tmp_path):
    (tmp_path / marks.NAME).write_bytes(b"[" * 100_000)
    assert not marks.trusted(tmp_path)
