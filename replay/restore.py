"""Restoring a store from a backup, a key backup and what was forgotten since; whole, or nothing.

Everything is made in a directory beside the target, looked at as an audit does, and only then given its name. What the
erasure ledgers name is destroyed in the slot files before the new store is opened for the first time, and ended in its
journal before it has its name.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING

from journal import failpoints, keycopy, layout
from journal.clock import Clock, SystemClock, SystemRandomness, instant
from journal.errors import BackupInvalid, BlobMissing, RestoreRefused, StoreUnavailable
from journal.filelock import FileLock
from journal.frames import GENESIS, frame_hash
from journal.keyring import Keyring
from journal.log import Journal
from journal.rootkey import flush_directory
from journal.store.lmdb.load import Loader
from journal.store.port import Head
from replay import keybackup, newness
from replay.archive import JOURNAL, Archive, ScopeEntry, opened
from replay.audit import ScopeReport, audit_scope
from replay.backup import checked_erasures, checked_rows
from replay.erasures import apply
from replay.keybackup import KeyBackup
from replay.known import Outside, Point
from replay.witness import Witness, keep_outside, set_aside

if TYPE_CHECKING:
    from journal.recipients import Identity
    from journal.scope import Scope

Progress = Callable[[int, int], None]


def _silent(_done: int, _total: int) -> None:
    """Report no progress."""


def _unnamed(_root_key: bytes) -> None:
    """Do nothing before the store takes its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is restored from what, to where."""

    backup: Path
    keys: Path
    identity: Identity = field(repr=False)
    ledgers: Sequence[Path] = ()
    target: Path
    root_key: bytes | None = field(default=None, repr=False)  # of the new store; None: the backed-up one
    outside: Outside
    replaces: bool  # whether the new store stands in the old one's place from now on; else it is a copy to look at
    accept_loss: bool = False  # restore even where keys of live contents are missing
    clock: Clock = field(default_factory=SystemClock)
    before_naming: Callable[[bytes], None] = _unnamed  # told the root key when nothing but the name is missing


@dataclass(frozen=True, slots=True)
class Restored:
    """What was restored."""

    store: str
    scopes: list[ScopeReport]
    keys_destroyed: int  # keys that the key backup still held of what was forgotten
    ended_again: int  # subjects that the older journal took for live, or did not know
    lost: int  # contents whose key no key backup held
    set_aside: list[Path] = field(default_factory=list)  # checkpoints of a history that was given up: where they are
    not_set_aside: list[Path] = field(default_factory=list)  # such ones that could not be renamed: a person must


def restore(plan: Plan, progress: Progress = _silent) -> Restored:
    """Restore a store.

    Raises:
        RestoreRefused: the target is not empty; the files are of different stores; the key backup is another
            recipient's or has expired; more is known of the store than the files tell; contents would be lost.
        BackupInvalid: a file is cut, altered or no backup. RegistryVersionUnavailable: a later release made one.
        StoreUnavailable: a file cannot be read, or the store not be written. In every case the target is as it was.
    """
    _refuse_target(plan.target)
    with ExitStack() as stack:
        backup = stack.enter_context(opened(plan.backup))
        if backup.manifest.kind != JOURNAL:
            raise BackupInvalid(f"{plan.backup.name} is an erasure ledger and no backup")
        ledgers = [stack.enter_context(opened(path)) for path in plan.ledgers]
        keys = keybackup.opened(plan.keys, plan.identity, plan.clock.now())
        younger = newness.check(backup, ledgers, keys, plan.outside)
        _refuse_younger(younger, accept_loss=plan.accept_loss)
        with _unnamed_sibling(plan.target) as place:
            restoring = _Restoring(plan, backup, ledgers, keys, younger, place, progress)
            restored = restoring.run()
            _flush_tree(place)
            plan.before_naming(plan.root_key or keys.root_key)
            # First: a store that has its name already would be taken for one that was rolled back.
            witnesses = list(restoring.witnesses.values()) if plan.replaces else []
            with set_aside(witnesses, plan.outside.anchor, _file_instant(plan.clock)) as aside:
                place.rename(plan.target)
        flush_directory(plan.target.parent)
    failpoints.reach("restore.named")
    _tell_outside(plan, keys, restored, witnesses)
    return replace(restored, set_aside=[now for _, now in aside.renamed], not_set_aside=aside.stayed)


def _refuse_target(target: Path) -> None:
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise RestoreRefused(f"{target} exists and is no folder; nothing is overwritten")
    if target.is_dir() and any(target.iterdir()):
        raise RestoreRefused(f"{target} is not empty; nothing is overwritten: move it away first, whole")


def _refuse_younger(younger: Sequence[Scope], *, accept_loss: bool) -> None:
    if younger and not accept_loss:
        names = ", ".join(f"{scope.tenant_id} / {scope.workspace_id}" for scope in younger)
        raise RestoreRefused(
            f"what lives in {names} would be lost: the backup is older; give a newer one, or accept the loss"
        )


@contextmanager
def _unnamed_sibling(target: Path) -> Iterator[Path]:
    """Yield a directory beside the target; what is still there at the end is removed, and what a killed one left.

    Raises:
        StoreUnavailable: another process is restoring to the same target.
    """
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with closing(FileLock(target.with_name(f".{target.name}.restoring.lock"))) as lock:
        if not lock.try_acquire() or not os.fstat(lock.fileno()).st_nlink:
            raise StoreUnavailable(f"another process is restoring to {target}")
        for left in target.parent.glob(f".{escape(target.name)}.restoring-*"):
            shutil.rmtree(left, ignore_errors=True)
        place = target.with_name(f".{target.name}.restoring-{secrets.token_hex(6)}")
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)
            lock.path.unlink()


def _flush_tree(place: Path) -> None:
    for folder, _, names in os.walk(place):
        for name in names:
            fd = os.open(Path(folder) / name, os.O_RDONLY | os.O_CLOEXEC)
            os.fsync(fd)
            os.close(fd)
        flush_directory(Path(folder))


def _file_instant(clock: Clock) -> str:
    """Return this instant so that it may stand in a file's name anywhere."""
    return instant(clock.now()).replace(":", "")


def _tell_outside(plan: Plan, keys: KeyBackup, restored: Restored, witnesses: Sequence[Witness]) -> None:
    points = {one.scope.tag.hex(): Point(one.head.cursor, one.head.hash.hex()) for one in restored.scopes}
    keep_outside([(witness, keys.signing_seed(witness.scope)) for witness in witnesses], plan.outside.anchor)
    if plan.replaces:
        plan.outside.succeed(keys.clear.store, restored.store, points)
    else:
        plan.outside.note(restored.store, points)


class _Restoring:
    """A store on its way to its name."""

    def __init__(
        self, plan: Plan, backup: Archive, ledgers: Sequence[Archive], keys: KeyBackup, younger: Sequence[Scope],
        place: Path, progress: Progress,
    ) -> None:  # fmt: skip
        self._plan = plan
        self._backup = backup
        self._ledgers = ledgers
        self._keys = keys
        self._place = place
        self._root = keys.root_key if plan.root_key is None else plan.root_key
        self._total = 3 * sum(entry.head_cursor for entry in backup.manifest.scopes)
        self._done = 0
        self._progress = progress
        entries = [*backup.manifest.scopes, *map(_nothing_of, younger)]
        self._scopes = [entry.scope for entry in entries]
        self.witnesses = {
            entry.scope: Witness(backup, entry, keys.signing_seed(entry.scope), plan.outside) for entry in entries
        }

    def run(self) -> Restored:
        """Make the store; raises as ``restore``."""
        predecessor = self._backup.manifest.store if self._plan.replaces else None
        layout.create(self._place, instant(self._plan.clock.now()), succeeds=predecessor)
        for scope in self._scopes:
            files = self._keys.files[scope]
            keycopy.place(self._place / layout.KEYS, scope, files, self._keys.root_key, self._root, SystemRandomness())
        if self._keys.backups:
            (self._place / layout.KEYS / keybackup.LIST).write_bytes(self._keys.backups)
        destroyed = sum(map(self._destroyed, self._scopes))
        self._load()
        failpoints.reach("restore.loaded")
        with closing(Journal.open(self._place, self._root, clock=self._plan.clock)) as journal:
            ended = sum(self._ended_again(journal, scope) for scope in self._scopes)
            failpoints.reach("restore.erased")
            reports = [self._audited(journal, scope) for scope in self._scopes if journal.store.head(scope).cursor]
        lost = sum(self._lost(report) for report in reports)
        return Restored(layout.store_id(self._place), reports, destroyed, ended, lost)

    def _entries(self, scope: Scope) -> Iterator[tuple[Archive, ScopeEntry]]:
        """Yield a scope's part of the backup and of every ledger."""
        for archive in (self._backup, *self._ledgers):
            for entry in archive.manifest.scopes:
                if entry.scope == scope:
                    yield archive, entry

    def _destroyed(self, scope: Scope) -> int:
        """Destroy every key that the backup or a ledger names; return how many were still there."""
        doomed = {
            erasure.key_id
            for archive, entry in self._entries(scope)
            for erasure in checked_erasures(archive, entry)
            if erasure.key_id is not None
        }
        return keycopy.destroy(self._place / layout.KEYS, scope, self._root, doomed)

    def _load(self) -> None:
        loader = Loader(self._place / layout.JOURNAL)
        keyring = Keyring(self._place / layout.KEYS, self._root, SystemRandomness(), readonly=True)
        store = self._backup.manifest.store
        points, is_succeeded = self._plan.outside.points(store), self._plan.outside.newest_of(store) != store
        try:
            for entry in self._backup.manifest.scopes:
                point, witness = points.get(entry.scope.tag.hex(), Point(0)), self.witnesses[entry.scope]
                for first, rows in checked_rows(self._backup, entry):
                    if point.hash and first <= point.cursor < first + len(rows):
                        _check_point(point, rows[point.cursor - first][0])
                    loader.add(entry.scope, first, rows)
                    witness.meet(rows)
                    self._advance(len(rows))
                head = Head(
                    entry.head_cursor, bytes.fromhex(entry.head_hash), entry.recorded_at, entry.slot_generation
                )  # fmt: skip
                loader.end(entry.scope, head)
                witness.check(is_succeeded=is_succeeded)
                witness.put_back(self._place)
            loader.finish(keyring.located)
        finally:
            loader.close()
            keyring.close()

    def _ended_again(self, journal: Journal, scope: Scope) -> int:
        """Commit what a ledger knows to have ended since; return how many subjects."""
        journal.admit(scope)
        ended, untold = 0, set[str]()
        for archive, entry in self._entries(scope):
            if archive is not self._backup:
                applied = apply(journal, scope, checked_erasures(archive, entry))
                ended, untold = ended + applied.ended, untold | applied.untold
        with journal.store.view(scope) as view:
            missing = sum(view.subject(name) is None for name in untold)
        if missing:
            raise RestoreRefused(
                f"{missing} contents came and were forgotten after the backup, and the ledger, of an older release, "
                "does not tell enough to keep them forgotten: give a ledger of this release, or a newer backup"
            )
        journal.finish_destructions(scope)
        return ended

    def _audited(self, journal: Journal, scope: Scope) -> ScopeReport:
        begun = self._done
        report = audit_scope(journal, scope, lambda done, _: self._progress(begun + done, self._total))
        self._done = min(begun + 2 * report.head.cursor, self._total)
        wrong = [finding for finding in report.findings if finding.code != BlobMissing.code]
        if wrong:
            raise BackupInvalid(f"the restored journal is not sound: {wrong[0].code}: {wrong[0].detail}")
        lost = self._lost(report)
        if lost and not self._plan.accept_loss:
            raise RestoreRefused(f"{lost} contents would be lost: the key backup is older than they are")
        return report

    @staticmethod
    def _lost(report: ScopeReport) -> int:
        return len(report.findings) + report.unlisted

    def _advance(self, events: int) -> None:
        self._done += events
        self._progress(self._done, self._total)


def _nothing_of(scope: Scope) -> ScopeEntry:
    """Return what a backup would say of a scope that had no event yet."""
    return ScopeEntry(
        tenant_id=scope.tenant_id, workspace_id=scope.workspace_id, head_cursor=0, head_hash=GENESIS.hex(), root="",
        recorded_at=0, slot_generation=0, erasures=0, members=[],
    )  # fmt: skip


def _check_point(point: Point, frame: bytes) -> None:
    if frame_hash(frame).hex() != point.hash:
        raise RestoreRefused(f"the backup is of another history than this machine knows: cursor {point.cursor} differs")
