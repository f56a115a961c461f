"""Whether the files of a restore belong together, and tell as much of the store as is known of it elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from journal.errors import RestoreRefused
from replay.known import Point

if TYPE_CHECKING:
    from journal.scope import Scope
    from replay.archive import Archive, ScopeEntry
    from replay.keybackup import KeyBackup
    from replay.known import Outside


def check(backup: Archive, ledgers: Sequence[Archive], keys: KeyBackup, outside: Outside) -> list[Scope]:
    """Check that the files are one store's and signed by its keys, and that nothing newer is known than they tell.

    What is known: the heads and checkpoints that this machine keeps outside the store, and the head at which the keys
    were copied. A store that was restored before is succeeded by its restored one, whose ledger is then asked for.

    Returns:
        The scopes that are younger than the backup: it lacks them, and a ledger tells what ended in them.

    Raises:
        RestoreRefused: they are of different stores, or too old. BackupInvalid: a signature is not the scope's.
    """
    store = backup.manifest.store
    if keys.clear.store != store:
        raise RestoreRefused("the key backup is another store's")
    for ledger in ledgers:
        if ledger.manifest.store not in (store, outside.newest_of(store)):
            raise RestoreRefused("an erasure ledger is another store's")
    checking = _Checking((backup, *ledgers), keys, outside)
    for entry in backup.manifest.scopes:
        checking.check(entry.scope)
    return checking.younger()


class _Checking:
    """The files of a restore against what is known outside."""

    def __init__(self, archives: Sequence[Archive], keys: KeyBackup, outside: Outside) -> None:
        self._archives = archives
        self._keys = keys
        self._outside = outside
        self._newest = outside.newest_of(keys.clear.store)
        self._is_succeeded = self._newest != keys.clear.store
        self._points = outside.points(self._newest)

    def check(self, scope: Scope) -> bool:
        """Check one scope; return whether anything is known or told of it; raises as the module's ``check``."""
        seed = self._keys.signing_seed(scope)
        told = []
        for archive in self._archives:
            found = next((entry for entry in archive.manifest.scopes if entry.scope == scope), None)
            if found is None:
                continue
            archive.manifest.check_signature(found, seed)
            if archive.manifest.store == self._newest:
                told.append(found)
        point = self._points.get(scope.tag.hex(), Point(0))
        known = max(point.cursor, self._outside.anchored(scope, seed))
        if not self._is_succeeded:
            known = max(known, self._keys.head_cursor(scope))
        is_in_backup = any(entry.scope == scope for entry in self._archives[0].manifest.scopes)
        if not is_in_backup and not known and not told:
            return False
        _check_told(told, point, known, is_succeeded=self._is_succeeded)
        return True

    def younger(self) -> list[Scope]:
        """Return the scopes that the backup lacks, each checked; raises as the module's ``check``."""
        named = {entry.scope for archive in self._archives for entry in archive.manifest.scopes}
        named |= set(self._keys.files)
        in_backup = {entry.scope for entry in self._archives[0].manifest.scopes}
        unnamed = set(self._points) - {scope.tag.hex() for scope in named}
        for tag in unnamed:
            _check_told([], self._points[tag], self._points[tag].cursor, is_succeeded=self._is_succeeded)
        found = sorted(named - in_backup, key=lambda scope: scope.tag)
        for scope in found:
            if scope not in self._keys.files:
                raise RestoreRefused(
                    f"the key backup is older than {scope.tenant_id} / {scope.workspace_id}: without its keys nothing "
                    "keeps out what was forgotten there; give a key backup that has them"
                )
        return [scope for scope in found if self.check(scope)]


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
