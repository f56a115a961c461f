"""What checkpoints say of a scope that is restored: those that the backup carries, and those of the anchor outside.

The backup's own must be of its tree, and come back with it. The anchor's must be too, as far as they are of the same
line; what they say beyond the backup binds a history that is given up with the restore. So the folder that holds them
is set aside under another name, and those that are still true are kept anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from journal import checkpoints
from journal.checkpointing import folder_of
from journal.errors import BackupInvalid, EngramError, RestoreRefused, StoreUnavailable
from journal.frames import leaf_hash
from journal.merkle import Tree
from replay.backup import checked_notes

if TYPE_CHECKING:
    from journal.checkpointfiles import Anchor
    from journal.scope import Scope
    from replay.archive import Archive, ScopeEntry
    from replay.backup import Row
    from replay.known import Outside


class Witness:
    """The checkpoints of one scope in a restore."""

    def __init__(self, archive: Archive, entry: ScopeEntry, seed: bytes, outside: Outside) -> None:
        """Read them; ``seed`` is the scope's signing seed.

        Raises:
            BackupInvalid: the backup carries what is no checkpoint of this scope.
            StoreUnavailable: the anchor is there and cannot be read.
        """
        self.key = checkpoints.public_key(entry.scope, seed)
        self._entry = entry
        self._notes = dict(checked_notes(archive, entry, self.key))
        self._kept = outside.checkpoints(self.key)
        self._wanted = {one.size for one in self._kept} | set(self._notes)
        self._tree = Tree()
        self._roots: dict[int, bytes] = {}

    def meet(self, rows: Sequence[Row]) -> None:
        """Take in the next events of the backup."""
        if not self._wanted:
            return
        for frame, _, _ in rows:
            self._tree.append(leaf_hash(frame))
            if self._tree.size in self._wanted:
                self._roots[self._tree.size] = self._tree.root()

    def check(self, *, is_succeeded: bool) -> None:
        """Check what was met; ``is_succeeded``: whether another store stands in this one's place already.

        Raises:
            BackupInvalid: a checkpoint in the backup is of another tree.
            RestoreRefused: one in the anchor is, and no restore since explains it.
        """
        for size, note in self._notes.items():
            if checkpoints.verified(note, self.key).root != self._roots.get(size):
                raise BackupInvalid(f"the backup's checkpoint of {size} is of another history than its events")
        for one in self._kept:
            if one.size <= self._entry.head_cursor and self._roots.get(one.size) != one.root and not is_succeeded:
                raise RestoreRefused(f"the backup is of another history than the anchor knows: cursor {one.size}")

    @property
    def scope(self) -> Scope:
        """The scope."""
        return self._entry.scope

    @property
    def gives_up(self) -> bool:
        """Whether the anchor says what the restored journal will not bear out."""
        return any(self._roots.get(one.size) != one.root for one in self._kept)

    def put_back(self, store: Path) -> None:
        """Put the backup's checkpoints into the new store; raises as ``CheckpointFolder.keep``."""
        for size, note in self._notes.items():
            folder_of(store, self._entry.scope.tag).keep(self.key, size, note)

    def keep_outside(self, anchor: Anchor, seed: bytes) -> None:
        """Keep in the anchor what is true of the restored journal; raises as ``CheckpointFolder.keep``."""
        for size, root in self._roots.items():
            anchor.folder(self.key).keep(self.key, size, checkpoints.sign(self._entry.scope, size, root, seed))


@dataclass(slots=True)
class SetAside:
    """Folders of an anchor that bind a history which a restore gives up."""

    renamed: list[tuple[Path, Path]] = field(default_factory=list)  # (before, now)
    stayed: list[Path] = field(default_factory=list)  # could not be renamed: a person must


@contextmanager
def set_aside(witnesses: Sequence[Witness], anchor: Anchor | None, when: str) -> Iterator[SetAside]:
    """Set aside what is given up, and put it back where the block fails."""
    done = SetAside()
    for witness in witnesses:
        if anchor is None or not witness.gives_up:
            continue
        folder = anchor.folder(witness.key).path
        try:
            done.renamed.append((folder, anchor.set_aside(witness.key, when)))
        except StoreUnavailable:
            done.stayed.append(folder)
    try:
        yield done
    except BaseException:
        for before, now in done.renamed:
            with suppress(OSError):
                now.rename(before)
        raise


def keep_outside(witnesses: Sequence[tuple[Witness, bytes]], anchor: Anchor | None) -> None:
    """Keep in the anchor what is true of the restored journals, where it can be written; with their signing seeds."""
    for witness, seed in witnesses:
        if anchor is not None:
            with suppress(EngramError):
                witness.keep_outside(anchor, seed)
