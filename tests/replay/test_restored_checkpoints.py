"""Checkpoints that travel in a backup, and what a restore does with those that are kept outside."""

from __future__ import annotations

import os

import msgspec
import pytest

from journal import checkpoints, limits
from journal.checkpointfiles import CheckpointFolder
from journal.checkpointing import Checkpoints, folder_of
from journal.errors import BackupInvalid, RestoreRefused
from replay import backup as backups
from replay.archive import Manifest, Writer, opened
from replay.known import Point
from tests.replay.restores import Safe, reopened, told
from tests.tools.memory.world import OTHER, SCOPE


@pytest.fixture
def safe(tmp_path):
    made = Safe(tmp_path)
    told(made)
    made.keys()
    yield made
    made.world.close()


def sign(safe, scope=SCOPE):
    """Sign a checkpoint of the head, in the store and in the anchor; return its size."""
    return Checkpoints(safe.world.journal, safe.place / "anchors").write(scope).checkpoint.size


def seed_of(safe, scope=SCOPE):
    return safe.world.journal.keyring.signing_seed(scope)


def anchored(safe, scope=SCOPE):
    return safe.outside.anchor.folder(checkpoints.public_key(scope, seed_of(safe, scope)))


def written_anew(safe, change):
    """Write the backup again with other members, signed as it must be: by somebody who has the keys."""
    with opened(safe.place / "backup") as archive, (safe.place / "forged").open("wb") as file:
        writer, entries = Writer(file), []
        for entry in archive.manifest.scopes:
            held = {member.name: archive.read(member) for member in entry.members}
            members = [writer.add(name, raw) for name, raw in change(held).items()]
            entries.append(msgspec.structs.replace(entry, members=members))
        manifest: Manifest = msgspec.structs.replace(archive.manifest, scopes=entries)
        writer.finish(manifest.signed(lambda scope: seed_of(safe, scope)))
    return safe.place / "forged"


def test_the_newest_come_back_with_the_store(safe, monkeypatch):
    monkeypatch.setattr(limits, "BACKUP_CHECKPOINTS_MAX", 2)
    sizes = [sign(safe)]
    for number in range(2):
        safe.world.caller().capture(f"More {number}.")
        sizes.append(sign(safe))
    other = sign(safe, OTHER)
    (folder_of(safe.world.path, SCOPE.tag).path / f"{1:020}").write_text("no note", encoding="utf-8")
    safe.backup()
    safe.restore()
    folder = folder_of(safe.place / "restored", SCOPE.tag)
    assert folder.sizes() == sizes[1:]
    assert [folder.note(size) for size in sizes[1:]] == [anchored(safe).note(size) for size in sizes[1:]]
    assert folder.key() == anchored(safe).key()
    assert folder_of(safe.place / "restored", OTHER.tag).sizes() == [other]
    assert anchored(safe).sizes() == sizes


def test_a_ledger_carries_none(safe):
    sign(safe)
    safe.backup(ledger=True)
    with opened(safe.place / "backup") as archive:
        assert not [one for entry in archive.manifest.scopes for one in entry.members if "/checkpoints/" in one.name]


def test_what_is_signed_after_the_head_was_pinned_is_left_out(safe, monkeypatch):
    first = sign(safe)
    before = backups._Scope.write

    def write(self, progress):
        safe.world.caller().capture("While it is written.")
        sign(safe)
        return before(self, progress)

    monkeypatch.setattr(backups._Scope, "write", write)
    safe.backup()
    monkeypatch.undo()
    with opened(safe.place / "backup") as archive:
        names = [one.name for entry in archive.manifest.scopes for one in entry.members if "/checkpoints/" in one.name]
    assert names == [f"scopes/{SCOPE.tag.hex()}/checkpoints/{first:020}"]


def other_root(safe, size):
    return checkpoints.sign(SCOPE, size, bytes(32), seed_of(safe))


@pytest.mark.parametrize(
    ("forge", "message"),
    [
        (lambda safe, size: (size, b"no note"), "no checkpoint of this scope"),
        (lambda safe, size: (size, checkpoints.sign(SCOPE, size, bytes(32), bytes(32))), "no checkpoint of this scope"),
        (lambda safe, size: (size, checkpoints.sign(OTHER, size, bytes(32), seed_of(safe))), "no checkpoint of this"),
        (lambda safe, size: (size - 1, other_root(safe, size)), "of another size"),
        (lambda safe, size: (size + 1, other_root(safe, size + 1)), "of another size"),
        (lambda safe, size: (size - 1, other_root(safe, size - 1)), "another history than its events"),
    ],
)
def test_a_checkpoint_that_is_not_the_backups_own_is_refused(safe, forge, message):
    size = sign(safe)
    safe.backup()
    at, note = forge(safe, size)
    prefix = f"scopes/{SCOPE.tag.hex()}/checkpoints/"

    def change(held):
        ours = any(name.startswith(prefix) for name in held)
        return {**held, f"{prefix}{at:020}": note} if ours else held

    with pytest.raises(BackupInvalid, match=message):
        safe.restore(backup=written_anew(safe, change))
    assert not (safe.place / "restored").exists()


# --- outside ----------------------------------------------------------------------------------------


@pytest.fixture
def older(safe):
    """A backup with a checkpoint, two later ones in the anchor, and a ledger; the sizes."""
    first = sign(safe)
    sign(safe, OTHER)
    safe.backup()
    sizes = [first]
    for number in range(2):
        safe.world.caller().capture(f"More {number}.")
        sizes.append(sign(safe))
    safe.backup("ledger", ledger=True)
    return sizes


def replacing(safe, **changes):
    return safe.restore(replaces=True, ledgers=[safe.place / "ledger"], **changes)


def test_what_binds_a_given_up_history_is_set_aside(safe, older):
    with pytest.raises(RestoreRefused, match=f"cursor {older[-1]}"):
        safe.restore(replaces=True)
    assert anchored(safe).sizes() == older
    restored = replacing(safe)
    (aside,) = restored.set_aside
    assert restored.not_set_aside == []
    assert aside.parent == anchored(safe).path.parent
    assert aside.name.startswith(f"{anchored(safe).path.name}.until-20")
    assert CheckpointFolder(aside).sizes() == older
    assert anchored(safe).sizes() == older[:1], "what is still true is kept"
    assert len(safe.outside.anchor.keys(SCOPE.tag)) == 1, "the other folder is nobody's any more"
    assert safe.outside.anchored(SCOPE, seed_of(safe)) == older[0]


def test_a_copy_to_look_at_sets_nothing_aside(safe, older):
    restored = safe.restore(ledgers=[safe.place / "ledger"])
    assert restored.set_aside == []
    assert anchored(safe).sizes() == older


def test_twice_in_one_instant(safe, older):
    first = replacing(safe)
    key = anchored(safe).key()
    again = safe.outside.anchor.set_aside(key, first.set_aside[0].name.partition(".until-")[2])
    assert again.name == f"{first.set_aside[0].name}.2"


def test_a_restore_that_fails_at_its_name_puts_it_back(safe, older):
    def in_the_way(_):
        (safe.place / "restored").mkdir()
        (safe.place / "restored" / "file").touch()

    with pytest.raises(OSError, match="not empty"):
        replacing(safe, before_naming=in_the_way)
    assert anchored(safe).sizes() == older
    assert [each.name for each in anchored(safe).path.parent.iterdir()] == [anchored(safe).path.name]


def test_an_anchor_of_another_history_is_no_line_to_follow(safe):
    safe.backup()
    size = safe.world.journal.store.head(SCOPE).cursor - 1
    key = checkpoints.public_key(SCOPE, seed_of(safe))
    anchored(safe).keep(key, size, other_root(safe, size))
    with pytest.raises(RestoreRefused, match=f"than the anchor knows: cursor {size}"):
        safe.restore()


def test_a_new_machine_learns_the_backups_checkpoints(safe, older):
    safe.outside.anchor.path.rename(safe.place / "far")
    restored = replacing(safe)
    assert restored.set_aside == []
    assert anchored(safe).sizes() == older[:1]


def test_a_line_that_a_restore_gave_up_can_be_taken_up_again(safe, older):
    """What the anchor knows by then is of the restored store's line, and no reason to refuse."""
    safe.backup("later")
    replacing(safe)
    with reopened(safe.place / "restored", safe.world.clock) as world:
        world.caller().capture("It goes another way.")
        other = Checkpoints(world.journal, safe.place / "anchors").write(SCOPE).checkpoint.size
        assert older[0] < other <= older[-1]
        manifest = backups.write(world.journal, safe.place / "its ledger", ledger_only=True)
        safe.outside.note(manifest.store, {SCOPE.tag.hex(): Point(world.journal.store.head(SCOPE).cursor)})
    again = {"backup": safe.place / "later", "target": safe.place / "third", "replaces": True}
    with pytest.raises(RestoreRefused):
        safe.restore(**again)
    restored = safe.restore(**again, ledgers=[safe.place / "its ledger"])
    (aside,) = restored.set_aside
    assert CheckpointFolder(aside).sizes() == [older[0], other]
    assert anchored(safe).sizes() == older


def test_no_folder_of_checkpoints_is_open_to_others(safe, tmp_path):
    """Whatever the umask is: a restore makes them before a journal is open, which sets it."""
    seed, before = seed_of(safe), os.umask(0o022)
    try:
        folder = CheckpointFolder(tmp_path / "one" / "two")
        folder.keep(checkpoints.public_key(SCOPE, seed), 1, checkpoints.sign(SCOPE, 1, bytes(32), seed))
    finally:
        os.umask(before)
    assert {each.stat().st_mode & 0o777 for each in (tmp_path / "one", tmp_path / "one" / "two")} == {0o700}
