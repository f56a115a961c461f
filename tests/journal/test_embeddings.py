"""An embedding opens under its own subject's key and nowhere else, and not at all once that is destroyed."""

from __future__ import annotations

import pytest

from journal.embeddings import open_embedding, seal_embedding
from journal.errors import JournalCorrupt
from journal.lifecycle import Operation
from journal.log import Journal
from tests.journal.stores import ROOT, SCOPE, capture, make, move, opened


@pytest.fixture
def journal(tmp_path):
    with opened(make(tmp_path / "store")) as journal:
        yield journal


def sealed(journal, view, header):
    part = seal_embedding(journal, view, header, b"numbers")
    assert part is not None
    return part


def born(view, candidate_id):
    return view.event(view.subject(candidate_id).born).header


def test_an_embedding_opens_where_it_was_sealed(journal):
    candidate_id, _ = capture(journal, "a" * 16)
    with journal.store.view(SCOPE) as view:
        header = born(view, candidate_id)
        part = sealed(journal, view, header)
        assert b"numbers" not in part
        assert open_embedding(journal, view, header, part) == b"numbers"


def test_each_sealing_has_a_nonce_of_its_own(journal):
    candidate_id, _ = capture(journal, "a" * 16)
    with journal.store.view(SCOPE) as view:
        header = born(view, candidate_id)
        parts = {sealed(journal, view, header) for _ in range(8)}
        assert len({part[:12] for part in parts}) == 8


def test_an_embedding_does_not_open_for_another_subject(journal):
    first, _ = capture(journal, "a" * 16, "one")
    second, _ = capture(journal, "b" * 16, "two")
    with journal.store.view(SCOPE) as view:
        part = sealed(journal, view, born(view, first))
        with pytest.raises(JournalCorrupt):
            open_embedding(journal, view, born(view, second), part)


def test_a_content_part_is_no_embedding(journal):
    candidate_id, _ = capture(journal, "a" * 16)
    with journal.store.view(SCOPE) as view:
        header = born(view, candidate_id)
        for changed in (b"", b"\0" * 40, sealed(journal, view, header)[:-1]):
            with pytest.raises(JournalCorrupt):
                open_embedding(journal, view, header, changed)


@pytest.mark.parametrize("destroyed", [False, True])
def test_nothing_opens_or_is_sealed_once_the_subject_has_ended(journal, destroyed):
    candidate_id, _ = capture(journal, "a" * 16)
    with journal.store.view(SCOPE) as view:
        header = born(view, candidate_id)
        part = sealed(journal, view, header)
    move(journal, Operation.WITHDRAW, candidate_id)
    if destroyed:
        assert journal.finish_destructions(SCOPE)
    with journal.store.view(SCOPE) as view:
        assert open_embedding(journal, view, header, part) is None
        assert seal_embedding(journal, view, header, b"numbers") is None


def test_no_key_of_the_store_opens_it_once_the_subjects_is_destroyed(journal):
    candidate_id, _ = capture(journal, "a" * 16)
    with journal.store.view(SCOPE) as view:
        header = born(view, candidate_id)
        part = sealed(journal, view, header)
        move(journal, Operation.WITHDRAW, candidate_id)
        journal.finish_destructions(SCOPE)
        # In the view from before, the subject still stands: only its key is gone.
        assert open_embedding(journal, view, header, part) is None


def test_another_journal_of_the_same_store_opens_it(journal):
    candidate_id, _ = capture(journal, "a" * 16)
    with journal.store.view(SCOPE) as view:
        header = born(view, candidate_id)
        part = sealed(journal, view, header)
    path = journal.path
    journal.close()
    again = Journal.open(path, ROOT)
    try:
        with again.store.view(SCOPE) as view:
            assert open_embedding(again, view, header, part) == b"numbers"
    finally:
        again.close()
