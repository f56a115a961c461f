"""An older slot file put back: what was destroyed is destroyed again, and what it lacks is told as lost."""

from __future__ import annotations

import pytest

from journal import limits
from journal.errors import BlobMissing
from journal.lifecycle import Operation
from tests.journal.stores import SCOPE, capture, key_of, make, move, opened, text_of

SECRET = "a sentence that no file may hold"


@pytest.fixture
def path(tmp_path):
    return make(tmp_path / "store")


def slot_file(path, scope=SCOPE):
    (found,) = (path / "keys").glob(f"{scope.tag.hex()}.*.slots")
    return found


@pytest.fixture
def put_back(path):
    """A store whose slot file is from before a forgetting, and from before a later capture; return what it held."""
    with opened(path) as journal:
        forgotten, _ = capture(journal, "key-0000000000000001", SECRET)
        kept, _ = capture(journal, "key-0000000000000002", SECRET)
        older = slot_file(path).read_bytes()
        move(journal, Operation.WITHDRAW, forgotten)
        journal.finish_destructions(SCOPE)
        for _ in range(limits.SLOTS_AHEAD):
            journal.take_key(SCOPE)
        later, _ = capture(journal, "key-0000000000000003", SECRET)
        doomed = key_of(journal, forgotten)
    slot_file(path).write_bytes(older)
    return forgotten, kept, later, doomed


def test_an_older_slot_file_put_back_destroys_again_before_anything_is_served(path, put_back):
    forgotten, kept, later, doomed = put_back
    with opened(path, readonly=True) as journal:
        assert journal.keyring.open(SCOPE, *doomed) is not None, "that is what the older file brings back"
        assert text_of(journal, forgotten) is None, "and even so it is not served"
    with opened(path) as journal:
        assert text_of(journal, kept) == SECRET
        assert journal.keyring.open(SCOPE, *doomed) is None
        assert journal.key_is_destroyed(SCOPE, forgotten)
        with pytest.raises(BlobMissing):
            text_of(journal, later)


def test_an_older_slot_file_is_undone_once(path, put_back):
    with opened(path) as journal:
        journal.admit(SCOPE)
        generation = journal.keyring.generation(SCOPE)
        assert generation > journal.store.head(SCOPE).slot_generation
    with opened(path) as journal:
        journal.admit(SCOPE)
        assert journal.keyring.generation(SCOPE) == generation


def test_new_keys_in_an_older_slot_file_are_nobody_elses(path, put_back):
    """Their numbers were given before: destroying the lost candidate must not hit them; nothing opens as another's."""
    _, kept, later, _ = put_back
    with opened(path) as journal:
        fresh = [capture(journal, f"key-{number:016}", f"{SECRET} {number}")[0] for number in range(10, 20)]
        with pytest.raises(BlobMissing):
            text_of(journal, later)
        move(journal, Operation.WITHDRAW, later)
        journal.finish_destructions(SCOPE)
        assert journal.key_is_destroyed(SCOPE, later)
        assert [text_of(journal, candidate_id) for candidate_id in fresh] == [
            f"{SECRET} {number}" for number in range(10, 20)
        ]
        assert text_of(journal, kept) == SECRET


def test_a_copy_of_the_keys_after_the_last_forgetting_is_not_older(path):
    with opened(path) as journal:
        gone, _ = capture(journal, "key-0000000000000001")
        kept, _ = capture(journal, "key-0000000000000002", SECRET)
        move(journal, Operation.WITHDRAW, gone)
        journal.finish_destructions(SCOPE)
        copy = slot_file(path).read_bytes()
    slot_file(path).write_bytes(copy)
    with opened(path) as journal:
        journal.admit(SCOPE)
        assert slot_file(path).read_bytes() == copy
        assert text_of(journal, kept) == SECRET
