"""Whether the files of a restore belong together, and tell as much of the store as is known of it elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from journal.errors import RestoreRefused
from replay.known import Point

if TYPE_CHECKING:
    from replay.archive import Archive, ScopeEntry
    from replay.keybackup import KeyBackup
    from replay.known import Outside


def check(backup: Archive, ledgers: Sequence[Archive], keys: KeyBackup, outside: Outside) -> None:
    """Check that the files are one store's and signed by its keys, and that nothing newer is known than they tell.

    What is known: the heads and checkpoints that this machine keeps outside the store, and the head at which the keys
    were copied. A store that was restored before is succeeded by its restored one, whose ledger is then asked for.

    Raises:
        RestoreRefused: they are of different stores, or too old. BackupInvalid: a signature is not the scope's.
    """
    store = backup.manifest.store
    newest = outside.newest_of(store)
    if keys.clear.store != store:
        raise RestoreRefused("the key backup is another store's")
    for ledger in ledgers:
        if ledger.manifest.store not in (store, newest):
            raise RestoreRefused("an erasure ledger is another store's")
    points = outside.points(newest)
    for entry in backup.manifest.scopes:
        seed = keys.signing_seed(entry.scope)
        told = []
        for archive in (backup, *ledgers):
            found = _entry(archive, entry)
            if found is None:
                continue
            archive.manifest.check_signature(found, seed)
            if archive.manifest.store == newest:
                told.append(found)
        point = points.get(entry.scope.tag.hex(), Point(0))
        known = max(point.cursor, outside.anchored(entry.scope, seed))
        if store == newest:
            known = max(known, keys.head_cursor(entry.scope))
        _check_told(told, point, known, is_succeeded=store != newest)


def _check_told(told: Sequence[ScopeEntry], point: Point, known: int, *, is_succeeded: bool) -> None:
    reached = max((entry.head_cursor for entry in told), default=-1)
    if reached < known or (is_succeeded and not told):
        whose = "the store that was restored in this one's place" if is_succeeded else "this store"
        raise RestoreRefused(
            f"{whose} is known to have come to cursor {known}, and the files tell of {max(reached, 0)}: "
            "what was forgotten since would come back; give a newer erasure ledger (--ledger)"
        )
    for entry in told:
        if point.hash and entry.head_cursor == point.cursor and entry.head_hash != point.hash:
            raise RestoreRefused("a file is of another history than this machine knows")


def _entry(archive: Archive, wanted: ScopeEntry) -> ScopeEntry | None:
    return next((entry for entry in archive.manifest.scopes if entry.scope == wanted.scope), None)
