"""A new model is filled beside the one that serves, and takes its place when nothing would be lost by it."""

from __future__ import annotations

import pytest

from journal import limits
from projections.vector.folders import Folders, folder_name
from tests.projections.histories import SCOPE
from tests.projections.vector.wordly import Wordly, down, refusing


def in_force(space, wanted):
    """Return the folder in force, or that of the model that is wanted where none is."""
    return space.folders.current() or folder_name(wanted)


def test_a_new_model_is_filled_beside_the_old_one_and_switched_to_when_complete(space, monkeypatch):
    monkeypatch.setattr(limits, "VECTOR_BATCH_TEXTS", 1)
    cursors = [space.accepted(text)[1] for text in ("one", "two")]
    old, new = space.provider, Wordly("wordly-2", 32)
    assert in_force(space, old.digest) == old.digest.hex()[:16], "with nothing in force, the one that is wanted"
    space.embed(old)
    embedder = space.embedder(new)
    assert embedder.step() == 1
    assert in_force(space, new.digest) == old.digest.hex()[:16]
    assert space.embedded(old) == cursors
    assert embedder.step() == 0
    assert in_force(space, new.digest) == new.digest.hex()[:16]
    assert space.folders.names() == [new.digest.hex()[:16]]
    assert space.embedded(new) == cursors


@pytest.mark.parametrize("failing", [down, refusing("text")])
def test_a_new_model_that_fails_replaces_nothing(space, failing):
    cursors = [space.accepted(f"text {number}")[1] for number in range(3)]
    space.embed()
    new = Wordly("wordly-2")
    new.failing = failing
    embedder = space.embedder(new)
    for _ in range(20):
        embedder.step()
        space.clock.ahead += 1_000_000
        embedder._paused_until = 0.0
    assert embedder.progress().failed == 3
    assert in_force(space, new.digest) == space.provider.digest.hex()[:16]
    assert space.embedded() == cursors


def test_one_text_that_a_new_model_refuses_does_not_hold_it_back(space):
    cursors = [space.accepted(text)[1] for text in ("good", "bad", "fine")]
    space.embed()
    new = Wordly("wordly-2")
    new.failing = refusing("bad")
    embedder = space.embedder(new)
    for _ in range(8):
        embedder.step()
        space.clock.ahead += 1_000_000
    assert in_force(space, new.digest) == new.digest.hex()[:16]
    assert space.embedded(new) == [cursors[0], cursors[2]]


def test_a_forgetting_reaches_the_folder_of_the_other_model(space):
    subject, gone = space.accepted("goes")
    space.accepted("stays")
    old = space.embed()
    new = Wordly("wordly-2")
    new.failing = down
    space.forget(subject)
    space.embedder(new).step()
    assert gone not in old.embeddings.cache.cursors().tolist()


def test_two_models_do_not_take_turns(space):
    space.accepted("one")
    old, new = space.embed(), Wordly("wordly-2")
    old.step()
    space.embed(new)
    space.accepted("two")
    asked = len(space.provider.asked)
    assert old.step() == 0
    assert len(space.provider.asked) == asked
    assert space.folders.names() == [new.digest.hex()[:16]]


def test_what_is_in_force_must_be_there(space):
    space.accepted("one")
    embedder = space.embed()
    name = embedder.embeddings.cache.name
    assert space.folders.current() == name
    space.folders.remove(name)
    assert space.folders.current() is None
    (space.folders.path / "CURRENT").write_text("../../nowhere\n")
    assert space.folders.current() is None


def test_folders_without_a_store_are_empty(tmp_path):
    folders = Folders(tmp_path / "projections", SCOPE)
    assert folders.names() == []
    assert folders.current() is None
    assert folders.open("0" * 16, make=False) is None
    assert not (tmp_path / "projections").exists(), "a look makes nothing"
