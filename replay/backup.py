"""Writing a backup, or an erasure ledger alone, while others read and write the store.

Heads are pinned first. What stands up to a head never changes, so pages read one after another are one moment's copy
without a transaction that is held: a held one would keep LMDB from using its free pages again. Content of subjects that
have ended is left out: an older key backup could still open it. When the file is written, it is read again and checked
before it takes its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from journal import checkpoints, failpoints, layout, limits
from journal.chain import has_ended, verify_next
from journal.checkpointing import folder_of
from journal.clock import instant
from journal.errors import BackupInvalid, CursorGap, InvalidDigest, JournalCorrupt
from journal.foreign import UNREADABLE
from journal.frames import GENESIS, frame_hash, leaf_hash, part_digest
from journal.merkle import Tree
from journal.store.port import Head, Part
from replay.archive import (
    FORMAT,
    JOURNAL,
    LEDGER,
    Archive,
    Manifest,
    Member,
    ScopeEntry,
    Writer,
    appearing,
    opened,
)
from replay.erasures import Erasure, decode, encode, ends, erasures_of
from replay.events import pages

if TYPE_CHECKING:
    from journal.events import Header
    from journal.log import Journal
    from journal.notes import PublicKey
    from journal.scope import Scope
    from journal.store.port import Committed, View

Progress = Callable[[int, int], None]
"""Told (events done, events in all); writing and checking are counted each."""

Row = tuple[bytes, bytes | None, bytes | None]
_ROWS = msgspec.msgpack.Decoder(list[Row])


def _silent(_done: int, _total: int) -> None:
    """Report no progress."""


def _advance(progress: Progress, done: int, total: int, at: int) -> None:
    progress(done + at, total)


def write(journal: Journal, path: Path, *, ledger_only: bool = False, progress: Progress = _silent) -> Manifest:
    """Write a backup of every scope, or the erasure ledger alone, to a file that must not exist.

    Returns:
        The manifest of what was written.

    Raises:
        FileExistsError: there is something at the path. OSError: it cannot be written.
        CursorGap, JournalCorrupt, BlobMissing: the store is broken; nothing is left at the path.
        BackupInvalid: what was written reads back otherwise.
    """
    scopes = journal.store.scopes()
    heads = [journal.store.head(scope) for scope in scopes]
    total, done = 2 * sum(head.cursor for head in heads), 0
    kind = LEDGER if ledger_only else JOURNAL
    entries: list[ScopeEntry] = []
    manifest = Manifest(
        format=FORMAT, kind=kind, store=layout.store_id(journal.path), made_at=instant(journal.clock.now()),
        scopes=entries,
    )  # fmt: skip
    with appearing(path) as (file, draft):
        writer = Writer(file)
        for scope, head in zip(scopes, heads, strict=True):
            on_its_way = _Scope(journal, writer, scope, head, ledger_only=ledger_only)
            entries.append(on_its_way.write(partial(_advance, progress, done, total)))
            done += head.cursor
        manifest = manifest.signed(journal.keyring.signing_seed)
        failpoints.reach("backup.written")
        writer.finish(manifest)
        with opened(draft) as archive:
            for entry in archive.manifest.scopes:
                for first, rows in checked_rows(archive, entry):
                    progress(done + first + len(rows) - 1, total)
                key = checkpoints.public_key(entry.scope, journal.keyring.signing_seed(entry.scope))
                for _ in (*checked_erasures(archive, entry), *checked_notes(archive, entry, key)):
                    pass
                done += entry.head_cursor
        failpoints.reach("backup.checked")
    progress(total, total)
    return manifest


class _Scope:
    """One scope on its way into an archive."""

    def __init__(self, journal: Journal, writer: Writer, scope: Scope, head: Head, *, ledger_only: bool) -> None:
        self._journal = journal
        self._writer = writer
        self._scope = scope
        self._head = head
        self._ledger_only = ledger_only
        self._members: list[Member] = []
        self._erasures = 0

    def write(self, progress: Callable[[int], None]) -> ScopeEntry:
        """Write the pages; return the scope's part of the manifest, not signed yet."""
        tree, head, last = Tree(), self._head, GENESIS
        for page in pages(self._journal.store, self._scope, to=head.cursor):
            with self._journal.store.view(self._scope) as view:
                if not self._ledger_only:
                    rows = [self._row(view, event) for event in page]
                    self._add("events", page[0].header.cursor, msgspec.msgpack.encode(rows))
                self._add_erasures(list(erasures_of(view, page)))
            for event in page:
                tree.append(leaf_hash(event.frame))
            last = frame_hash(page[-1].frame)
            progress(page[-1].header.cursor)
        if tree.size != head.cursor or last != head.hash:
            raise JournalCorrupt("the events are not what the commit record says")
        if not self._ledger_only:
            self._add_checkpoints()
        return ScopeEntry(
            tenant_id=self._scope.tenant_id, workspace_id=self._scope.workspace_id, head_cursor=head.cursor,
            head_hash=head.hash.hex(), root=tree.root().hex(), recorded_at=head.recorded_at,
            slot_generation=head.slot_generation, erasures=self._erasures, members=self._members,
        )  # fmt: skip

    def _row(self, view: View, event: Committed) -> Row:
        header = event.header
        content = None if self._is_over(view, event) else view.body(header.cursor, Part.CONTENT)
        return event.frame, content, view.body(header.cursor, Part.LEDGER)

    def _is_over(self, view: View, event: Committed) -> bool:
        """Whether an event's subject has ended by the pinned head: what ends later ends in a later backup."""
        name = event.header.subject
        row = None if name is None else view.subject(name)
        return name is not None and row is not None and row.changed <= self._head.cursor and has_ended(name, row.state)

    def _add_erasures(self, erasures: list[Erasure]) -> None:
        if erasures:
            self._add("erasures", self._erasures, encode(erasures))
            self._erasures += len(erasures)

    def _add_checkpoints(self) -> None:
        """Add the store's newest checkpoints up to the head; what is none is named by the audit, and left out."""
        folder = folder_of(self._journal.path, self._scope.tag)
        key = checkpoints.public_key(self._scope, self._journal.keyring.signing_seed(self._scope))
        sizes = [size for size in folder.sizes() if size <= self._head.cursor]
        for size in sizes[-limits.BACKUP_CHECKPOINTS_MAX :]:
            with suppress(InvalidDigest):
                folder.checkpoint(size, key)
                self._add("checkpoints", size, folder.note(size))

    def _add(self, kind: str, number: int, raw: bytes) -> None:
        self._members.append(self._writer.add(f"scopes/{self._scope.tag.hex()}/{kind}/{number:020}", raw))


# --- reading it back --------------------------------------------------------------------------------


def checked_rows(archive: Archive, entry: ScopeEntry) -> Iterator[tuple[int, list[Row]]]:
    """Yield (first cursor, rows) of a scope's event pages, verified along the chain and, at the end, to head and root.

    Nothing for a ledger.

    Raises:
        BackupInvalid: the events or their parts are not what the manifest and the headers say.
        RegistryVersionUnavailable: they are of a later release.
    """
    if archive.manifest.kind == LEDGER:
        return
    tree, cursor, last = Tree(), 0, GENESIS
    for rows in _pages(archive, entry):
        first = cursor + 1
        for frame, content, ledger in rows:
            cursor += 1
            try:
                header = verify_next(entry.scope, cursor, last, frame).header
            except (CursorGap, JournalCorrupt) as error:
                raise BackupInvalid(f"the events do not follow each other: {error.detail}") from error
            for part, stated in ((content, header.content_digest), (ledger, header.ledger_digest)):
                if part is not None and part_digest(part) != stated:
                    raise BackupInvalid(f"a sealed part at cursor {cursor} is not what its header names")
            tree.append(leaf_hash(frame))
            last = frame_hash(frame)
        yield first, rows
    if (cursor, last.hex(), tree.root().hex()) != (entry.head_cursor, entry.head_hash, entry.root):
        raise BackupInvalid("the events do not lead to the head and root that the manifest states")


def checked_erasures(archive: Archive, entry: ScopeEntry) -> Iterator[Erasure]:
    """Yield a scope's erasures in the order of their cursors, each of this scope and an end.

    Raises:
        BackupInvalid: they are not what the manifest says. RegistryVersionUnavailable: they are of a later release.
    """
    found, cursor = 0, 0
    for member in entry.members:
        if "/erasures/" not in member.name:
            continue
        for erasure in decode(archive.read(member)):
            header = _header_of(erasure)
            if header.scope != entry.scope or not ends(header) or not cursor < header.cursor <= entry.head_cursor:
                raise BackupInvalid("the erasure ledger holds what is no end in this scope")
            found, cursor = found + 1, header.cursor
            yield erasure
    if found != entry.erasures:
        raise BackupInvalid("the erasure ledger holds another number of ends than the manifest says")


def checked_notes(archive: Archive, entry: ScopeEntry, key: PublicKey) -> Iterator[tuple[int, bytes]]:
    """Yield (size, signed note) of the checkpoints that an archive carries of a scope, each signed by its key.

    Raises:
        BackupInvalid: one is none, or is of more events than the scope has.
    """
    for member in entry.members:
        if "/checkpoints/" not in member.name:
            continue
        try:
            note = archive.read(member)
            size = checkpoints.verified(note, key).size
        except InvalidDigest as error:
            raise BackupInvalid(f"{member.name} is no checkpoint of this scope") from error
        if not member.name.endswith(f"/{size:020}") or size > entry.head_cursor:
            raise BackupInvalid(f"{member.name} is a checkpoint of another size")
        yield size, note


def _header_of(erasure: Erasure) -> Header:
    try:
        return erasure.header
    except JournalCorrupt as error:
        raise BackupInvalid("the erasure ledger holds what is no frame") from error


def _pages(archive: Archive, entry: ScopeEntry) -> Iterator[list[Row]]:
    for member in entry.members:
        if "/events/" in member.name:
            try:
                yield _ROWS.decode(archive.read(member))
            except UNREADABLE as error:
                raise BackupInvalid(f"{member.name} cannot be read") from error
