"""Writing checkpoints: the tree grows from where the last one left it, and nothing is signed that contradicts one.

``<store>/checkpoints/<scope tag>/peaks`` holds the tree at a size, as JSON: {size, peaks: [hex], hash: hex}, ``hash``
being that of the frame at that size. It is believed only where its peaks give the root of the signed checkpoint of that
size; otherwise the tree is grown anew from the first event.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from journal import checkpoints, layout, limits
from journal.checkpointfiles import Anchor, CheckpointFolder, place_file, read_file
from journal.errors import CursorGap, EngramError, InvalidDigest, JournalCorrupt, StoreUnavailable
from journal.foreign import UNREADABLE
from journal.frames import frame_hash, leaf_hash
from journal.merkle import Tree

if TYPE_CHECKING:
    from journal.log import Journal
    from journal.notes import PublicKey
    from journal.scope import Scope
    from journal.store.port import Committed, Store

PEAKS = "peaks"


class _Peaks(msgspec.Struct, forbid_unknown_fields=True):
    """A tree put away."""

    size: int
    peaks: tuple[str, ...]
    hash: str


@dataclass(frozen=True, slots=True)
class Written:
    """A checkpoint that stands in the store, and outside it where there is an anchor."""

    checkpoint: checkpoints.Checkpoint
    note: bytes
    key: PublicKey
    anchor: Path | None


class Checkpoints:
    """The checkpoints of one store, and the anchor that holds them too."""

    def __init__(
        self, journal: Journal, anchor: Path | None = None, every: int = limits.CHECKPOINT_EVERY_EVENTS
    ) -> None:
        """Look after a store's checkpoints.

        Args:
            journal: the store, which may be open for reading only: a checkpoint is no event.
            anchor: the folder outside the store that holds each checkpoint too; None: nowhere.
            every: how many events after a checkpoint the next one is due.
        """
        self._journal = journal
        self._anchor = None if anchor is None else Anchor(anchor)
        self._every = every

    def folder(self, scope: Scope) -> CheckpointFolder:
        """Return where the store keeps a scope's checkpoints."""
        return folder_of(self._journal.path, scope.tag)

    def key(self, scope: Scope) -> PublicKey:
        """Return the public key of a scope's checkpoints."""
        return checkpoints.public_key(scope, self._journal.keyring.signing_seed(scope))

    def outside(self, key: PublicKey) -> CheckpointFolder | None:
        """Return where a key's checkpoints are kept outside the store, None where there is no anchor."""
        return None if self._anchor is None else self._anchor.folder(key)

    def write_due(self, scope: Scope) -> Written | None:
        """Write a checkpoint where one is due, over a bounded piece of the events; return it, or None.

        Raises:
            as ``write``.
        """
        newest = max(self.folder(scope).sizes(), default=0)
        if self._journal.store.head(scope).cursor - newest < self._every:
            return None
        return self.write(scope, limits.CHECKPOINT_PIECE_EVENTS)

    def write(self, scope: Scope, piece_events: int | None = None) -> Written:
        """Write a checkpoint of the head, or of at most so many events after the tree that was put away.

        Raises:
            CursorGap: the journal is shorter than a checkpoint that was signed before.
            JournalCorrupt: it is another history than one that was signed before, or is broken.
            StoreUnavailable: the store's folder or the anchor cannot be written.
        """
        key, own = self.key(scope), self.folder(scope)
        outside = self.outside(key)
        signed = self._signed(key, own, outside)
        head = self._journal.store.head(scope).cursor
        if max(signed, default=0) > head:
            raise CursorGap(
                f"the journal ends at cursor {head}, and a checkpoint of {max(signed)} events was signed: "
                "the store was rolled back, or its tail is cut"
            )
        tree, last = self._resumed(scope, own, signed)
        upto = head if piece_events is None else min(head, tree.size + piece_events)
        last = self._grown(scope, tree, last, upto, signed)
        note = checkpoints.sign(scope, tree.size, tree.root(), self._journal.keyring.signing_seed(scope))
        own.keep(key, tree.size, note)
        if outside is not None:
            outside.keep(key, tree.size, note)
            outside.sign_in(layout.store_id(self._journal.path))
        self._put_away(own, tree, last)
        made = checkpoints.Checkpoint(key.name, tree.size, tree.root())
        return Written(made, note, key, None if outside is None else outside.path)

    @staticmethod
    def _signed(key: PublicKey, *folders: CheckpointFolder | None) -> dict[int, bytes]:
        """Return size -> root of all that was signed; what does not verify was not."""
        signed: dict[int, bytes] = {}
        for folder in folders:
            for size in [] if folder is None else folder.sizes():
                try:
                    root = folder.checkpoint(size, key).root if folder is not None else b""
                except InvalidDigest:
                    continue  # the audit names it
                if signed.setdefault(size, root) != root:
                    raise JournalCorrupt(f"two checkpoints of size {size} were signed: there are two histories")
        return signed

    def _resumed(self, scope: Scope, own: CheckpointFolder, signed: dict[int, bytes]) -> tuple[Tree, bytes | None]:
        """Return the tree that was put away and the hash of its last frame; an empty one where it cannot be trusted."""
        anew = Tree(), None
        try:
            kept = msgspec.json.decode(read_file(own.path / PEAKS), type=_Peaks)
            tree = Tree(kept.size, [bytes.fromhex(peak) for peak in kept.peaks])
            last = bytes.fromhex(kept.hash)
        except (*UNREADABLE, InvalidDigest, StoreUnavailable, ValueError):
            return anew
        seen = set(own.sizes())
        if signed.get(tree.size) != tree.root() or any(size < tree.size and size not in seen for size in signed):
            return anew  # nobody signed it, or a checkpoint was never compared with it
        try:
            with self._journal.store.view(scope) as view:
                event = view.event(tree.size)
        except EngramError:
            return anew
        return (tree, last) if event is not None and frame_hash(event.frame) == last else anew

    def _grown(self, scope: Scope, tree: Tree, last: bytes | None, upto: int, signed: dict[int, bytes]) -> bytes | None:
        """Grow the tree, and compare it with all that was signed on the way; return its last frame's hash."""
        for event in events_after(self._journal.store, scope, tree.size, upto):
            tree.append(leaf_hash(event.frame))
            if tree.size in signed and signed[tree.size] != tree.root():
                raise JournalCorrupt(
                    f"a checkpoint of {tree.size} events was signed with another root: "
                    "an event before was rewritten, or this is a forked copy"
                )
            if tree.size == upto:
                last = frame_hash(event.frame)
        return last

    @staticmethod
    def _put_away(own: CheckpointFolder, tree: Tree, last: bytes | None) -> None:
        if last is None:
            return
        kept = _Peaks(tree.size, tuple(peak.hex() for peak in tree.peaks), last.hex())
        try:
            place_file(own.path / PEAKS, msgspec.json.encode(kept), replace=True)
        except OSError as error:
            raise StoreUnavailable(f"{own.path} cannot be written: {error.strerror}") from error


def folder_of(store: Path, tag: bytes) -> CheckpointFolder:
    """Return where a store keeps the checkpoints of the scope with this tag."""
    return CheckpointFolder(store / layout.CHECKPOINTS / tag.hex())


def events_after(store: Store, scope: Scope, after: int, upto: int) -> Iterator[Committed]:
    """Yield the events after a cursor up to another one, page by page, each verified against the chain."""
    while after < upto:
        page = store.read(scope, after, min(limits.READ_PAGE_EVENTS, upto - after))
        if not page:
            raise CursorGap(f"the event at cursor {after + 1} is missing")
        yield from page
        after = page[-1].header.cursor
