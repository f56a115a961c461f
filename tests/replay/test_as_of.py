"""The past, folded aside: what was served then, and what was erased since."""

from __future__ import annotations

import random

import pytest

from journal.errors import InvalidSchema
from projections.aside import as_of
from projections.catchup import Projections
from tests.projections.histories import NOON, PURPOSE, SCOPE, Author, make, record, scribble


def test_the_past_is_what_was_served_then(author, path):
    seen = {}
    author = Author()
    rng = random.Random(3)
    with Projections(author.journal, SCOPE, path, make) as projections:
        for _ in range(12):
            scribble(author, rng, 4)
            with projections.snapshot() as snapshot:
                live = {row.cursor: row.state for row in snapshot.current.rows(_READABLE)}
                seen[snapshot.cursor] = (snapshot.head_hash, live)
    for cursor, (head_hash, live) in seen.items():
        with as_of(author.journal, SCOPE, make(author.journal, SCOPE), cursor) as snapshot:
            assert (snapshot.cursor, snapshot.head_hash) == (cursor, head_hash)
            assert {row.cursor: row.state for row in snapshot.current.rows(_READABLE)} == live
    assert sorted(path.iterdir()) == [path / SCOPE.tag.hex()]


_READABLE = [4, 5, 6]


def test_the_past_names_what_was_erased_since(store):
    subject, cursor = store.accepted("Zanzibar")
    head = store.journal.store.head(SCOPE).cursor
    store.forget(subject)
    with as_of(store.journal, SCOPE, make(store.journal, SCOPE), head) as snapshot:
        assert [row.record_id for row in snapshot.current.erased()] == [record(cursor)]
        assert snapshot.reader("words").cursors("Zanzibar") == []
        assert len(snapshot.reader("words").cursors("text3")) == 1
        assert snapshot.current.eligible([cursor, 1], NOON, (PURPOSE,)).tolist() == [False, True]


def test_what_the_journal_has_not_reached_is_refused(author):
    with pytest.raises(InvalidSchema), as_of(author.journal, SCOPE, make(author.journal, SCOPE), 10_000):
        pass


def test_the_past_leaves_no_file_behind(author, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "tmp").mkdir()
    with as_of(author.journal, SCOPE, make(author.journal, SCOPE), 10) as snapshot:
        assert snapshot.cursor == 10
        assert list((tmp_path / "tmp").iterdir()) == []
