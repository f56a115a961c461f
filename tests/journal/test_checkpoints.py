"""Checkpoints: their bytes, who may be believed, and that nothing is signed that contradicts what was."""

from __future__ import annotations

import shutil

import msgspec
import pytest

from journal import checkpoints, limits
from journal.checkpointfiles import Anchor, CheckpointFolder
from journal.checkpointing import PEAKS, Checkpoints, events_after
from journal.errors import CursorGap, InvalidDigest, JournalCorrupt, StoreUnavailable
from journal.frames import leaf_hash
from journal.lifecycle import Operation
from journal.merkle import root_of
from journal.notes import PublicKey, signed
from tests.journal.stores import OTHER, SCOPE, capture, make, move, opened

SEED = bytes(range(32))
ROOT = bytes(range(64, 96))


@pytest.fixture
def path(tmp_path):
    return make(tmp_path / "store")


@pytest.fixture
def anchor(tmp_path):
    return tmp_path / "anchors"


def _fill(journal, first, count):
    for number in range(first, first + count):
        capture(journal, f"key-{number:016}", f"text {number}")


def _root(journal, size):
    return root_of(leaf_hash(event.frame) for event in events_after(journal.store, SCOPE, 0, size))


# --- bytes ------------------------------------------------------------------------------------------


def test_it_verifies_and_says_what_was_signed():
    note = checkpoints.sign(SCOPE, 42, ROOT, SEED)
    key = checkpoints.public_key(SCOPE, SEED)
    found = checkpoints.verified(note, key)
    assert found == checkpoints.Checkpoint(f"engram/{SCOPE.tag.hex()}", 42, ROOT) == checkpoints.unverified(note)
    assert found.tag == SCOPE.tag
    assert note.decode().splitlines()[:2] == [f"engram/{SCOPE.tag.hex()}", "42"]


def test_another_scopes_key_does_not_verify_it():
    note = checkpoints.sign(SCOPE, 42, ROOT, SEED)
    for key in (checkpoints.public_key(OTHER, SEED), checkpoints.public_key(SCOPE, bytes(32))):
        with pytest.raises(InvalidDigest):
            checkpoints.verified(note, key)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("\n42\n", "\n042\n"), ("\n42\n", "\n-1\n"), ("\n42\n", "\n99999999999999999999\n"), ("engram/", "elsewhere/"),
        ("\n42\n", "\n42\nextension\n"), ("Z18=\n", "Z18\n"), ("Z18=\n", "Z19=\n"),
    ],
)  # fmt: skip
def test_what_is_signed_and_yet_no_checkpoint(old, new):
    text = checkpoints.Checkpoint(checkpoints.origin_of(SCOPE), 42, bytes(30) + b"\x67\x5f").text()
    assert old in text
    name = checkpoints.origin_of(SCOPE)
    with pytest.raises(InvalidDigest):
        checkpoints.verified(signed(text.replace(old, new), name, SEED).encode(), PublicKey.of(name, SEED))


# --- writing ----------------------------------------------------------------------------------------


def test_it_is_written_to_both_places_and_grows(path, anchor):
    with opened(path) as journal:
        made = Checkpoints(journal, anchor)
        _fill(journal, 0, 5)
        first = made.write(SCOPE)
        assert first.checkpoint.root == _root(journal, 5)
        _fill(journal, 5, 8)
        second = made.write(SCOPE)
        assert second.checkpoint.root == _root(journal, 13)
        assert made.write(SCOPE) == second
        for folder in (made.folder(SCOPE), Anchor(anchor).folder(made.key(SCOPE))):
            assert folder.sizes() == [5, 13]
            assert folder.key() == made.key(SCOPE)
            assert folder.checkpoint(13, second.key) == second.checkpoint
        assert Anchor(anchor).keys(SCOPE.tag) == [second.key]
        assert Anchor(anchor).keys(OTHER.tag) == []


def test_a_store_open_for_reading_only_writes_one(path, anchor):
    with opened(path) as journal:
        _fill(journal, 0, 3)
    with opened(path, readonly=True) as journal:
        assert Checkpoints(journal, anchor).write(SCOPE).checkpoint.size == 3


def test_one_is_due_every_so_many_events_and_takes_a_bounded_piece(path, anchor, monkeypatch):
    monkeypatch.setattr(limits, "CHECKPOINT_PIECE_EVENTS", 6)
    with opened(path) as journal:
        made = Checkpoints(journal, anchor, every=4)
        _fill(journal, 0, 3)
        assert made.write_due(SCOPE) is None
        _fill(journal, 3, 10)
        sizes = [written.checkpoint.size for _ in range(3) if (written := made.write_due(SCOPE))]
        assert sizes == [6, 12]
        assert made.folder(SCOPE).checkpoint(12, made.key(SCOPE)).root == _root(journal, 12)


def _grown_from(journal, anchor, monkeypatch):
    """Write a checkpoint; return the cursor from which the events were read for it, and its root."""
    began = []

    def watched(store, scope, after, upto):
        began.append(after)
        return events_after(store, scope, after, upto)

    monkeypatch.setattr("journal.checkpointing.events_after", watched)
    written = Checkpoints(journal, anchor).write(SCOPE)
    return began, written.checkpoint.root


@pytest.mark.parametrize("damage", ["none", "root", "junk", "gone", "hash"])
def test_a_tree_put_away_is_used_only_where_it_was_signed(path, anchor, monkeypatch, damage):
    with opened(path) as journal:
        _fill(journal, 0, 5)
        made = Checkpoints(journal, anchor)
        made.write(SCOPE)
        file = made.folder(SCOPE).path / PEAKS
        kept = msgspec.json.decode(file.read_bytes())
        if damage == "root":
            kept["peaks"][0] = "00" * 32
        if damage == "hash":
            kept["hash"] = "00" * 32
        file.write_bytes(b"{" if damage == "junk" else msgspec.json.encode(kept))
        if damage == "gone":
            file.unlink()
        _fill(journal, 5, 1)
        began, root = _grown_from(journal, anchor, monkeypatch)
        assert began == [5 if damage == "none" else 0]
        assert root == _root(journal, 6)


# --- what is not signed ----------------------------------------------------------------------------


def _rolled_back(path, anchor, more):
    """Put a store back to three events, where five had been signed, and go on by so many others."""
    with opened(path) as journal:
        _fill(journal, 0, 3)
    shutil.copytree(path, path.with_name("old"))
    with opened(path) as journal:
        _fill(journal, 3, 2)
        Checkpoints(journal, anchor).write(SCOPE)
    shutil.rmtree(path)
    path.with_name("old").rename(path)
    with opened(path) as journal:
        _fill(journal, 90, more)


def test_a_store_that_was_rolled_back_signs_nothing(path, anchor):
    _rolled_back(path, anchor, 0)
    with opened(path) as journal, pytest.raises(CursorGap, match="rolled back"):
        Checkpoints(journal, anchor).write(SCOPE)
    with opened(path) as journal:
        assert Checkpoints(journal, None).write(SCOPE).checkpoint.size == 3, "without an anchor nobody can tell"


def test_a_store_that_went_another_way_signs_nothing(path, anchor):
    _rolled_back(path, anchor, 4)
    with opened(path) as journal:
        made = Checkpoints(journal, anchor)
        with pytest.raises(JournalCorrupt, match="another root"):
            made.write(SCOPE)
        assert made.folder(SCOPE).sizes() == []
        elsewhere = Checkpoints(journal, None)
        elsewhere.write(SCOPE)
        with pytest.raises(JournalCorrupt):
            made.write(SCOPE)


def test_two_histories_of_one_size_are_told(path, anchor):
    _rolled_back(path, anchor, 2)
    with opened(path) as journal:
        Checkpoints(journal, None).write(SCOPE)
        with pytest.raises(JournalCorrupt, match="two checkpoints of size 5"):
            Checkpoints(journal, anchor).write(SCOPE)


def test_what_nobody_signed_binds_nobody(path, anchor):
    with opened(path) as journal:
        _fill(journal, 0, 3)
        key = Checkpoints(journal, anchor).key(SCOPE)
        folder = Anchor(anchor).folder(key)
        folder.keep(key, 99, checkpoints.sign(SCOPE, 99, ROOT, bytes(32)))
        assert Checkpoints(journal, anchor).write(SCOPE).checkpoint.size == 3


def test_a_note_is_never_replaced(tmp_path):
    folder = CheckpointFolder(tmp_path / "one")
    key = checkpoints.public_key(SCOPE, SEED)
    note = checkpoints.sign(SCOPE, 7, ROOT, SEED)
    folder.keep(key, 7, note)
    folder.keep(key, 7, note)
    with pytest.raises(JournalCorrupt, match="two histories"):
        folder.keep(key, 7, checkpoints.sign(SCOPE, 7, bytes(32), SEED))
    assert folder.note(7) == note
    assert sorted(each.name for each in folder.path.iterdir()) == [f"{7:020}", "key.pub"]
    assert {each.stat().st_mode & 0o777 for each in folder.path.iterdir()} == {0o600}


def test_an_anchor_that_cannot_be_written_is_said(path, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with opened(path) as journal:
        _fill(journal, 0, 1)
        with pytest.raises(StoreUnavailable):
            Checkpoints(journal, tmp_path / "file" / "anchors").write(SCOPE)


def test_a_broken_journal_is_not_signed(path, anchor):
    from tests.replay.tampering import tampered

    with opened(path) as journal:
        _fill(journal, 0, 3)
        candidate, _ = capture(journal, "key-of-the-last-one")
        move(journal, Operation.WITHDRAW, candidate)
    with tampered(path, SCOPE) as tables:
        tables.delete(b"events", 2)
    with opened(path, readonly=True) as journal, pytest.raises(CursorGap):
        Checkpoints(journal, anchor).write(SCOPE)
