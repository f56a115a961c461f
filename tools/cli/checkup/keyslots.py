"""A scope's key files, looked at without a key: there, of the generation that the journal mirrors, no slot lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from pathlib import Path

from journal import chain, keyringfile, layout
from journal.errors import EngramError
from journal.foreign import UNREADABLE
from journal.scope import Scope
from journal.slots import Slot, SlotFile, SlotState
from journal.store.lmdb.view import LmdbView
from journal.store.port import Subject
from tools.cli.checkup.finding import Finding, fault, warning

OpenView = Callable[[Scope], AbstractContextManager[LmdbView]]
Sample = Callable[[Scope], list[tuple[str, Subject]]]
_ATTEMPTS = 3  # a rotation may take the slot file away between two readings
_RESTORE = "restore the folder keys/ from a backup that is not older than the journal's (docs/backup.md)"


@dataclass(frozen=True, slots=True)
class Slots:
    """A scope's slot file in force: a broken slot is None."""

    epoch: int
    generation: int
    slots: tuple[Slot | None, ...]


def epoch_in_force(store: Path, scope: Scope) -> int:
    """Return the epoch that a scope's keyring file states.

    Raises:
        FileNotFoundError: it is not there. JournalCorrupt, RegistryVersionUnavailable: it is broken.
    """
    return keyringfile.epoch_of((store / layout.KEYS / f"{scope.tag.hex()}.keyring").read_bytes())


def slot_file(store: Path, scope: Scope) -> SlotFile:
    """Open the slot file in force, for reading.

    Raises:
        OSError, JournalCorrupt: a file is missing or broken.
    """
    epoch = epoch_in_force(store, scope)
    return SlotFile(store / layout.KEYS / f"{scope.tag.hex()}.{epoch}.slots", scope.tag, readonly=True)


def all_slots(store: Path, scope: Scope) -> Slots:
    """Return what a scope's slot file holds.

    Raises:
        OSError, msgspec.DecodeError, EngramError: a file is missing or broken.
    """
    with closing(slot_file(store, scope)) as slots:
        return Slots(epoch_in_force(store, scope), slots.generation, tuple(slots.read_all()))


def key_slots(store: Path, scope: Scope, view_of: OpenView, sample: Sample) -> Iterator[Finding]:
    """Yield what is wrong with a scope's key files; ``sample`` gives some of its subjects."""
    named = f"{scope.tenant_id} / {scope.workspace_id}"
    for attempt in range(_ATTEMPTS):
        try:
            found = list(_looked_at(store, scope, view_of, sample, named))
        except (OSError, *UNREADABLE, EngramError) as error:
            if attempt + 1 < _ATTEMPTS:
                continue
            found = [_unreadable(store, scope, error, named)]
        if not found or attempt + 1 == _ATTEMPTS:
            yield from found
            return


def _unreadable(store: Path, scope: Scope, error: Exception, named: str) -> Finding:
    keyring = store / layout.KEYS / f"{scope.tag.hex()}.keyring"
    if isinstance(error, FileNotFoundError):
        what = "keyring" if not keyring.exists() else "slot file"
        return fault("KEYS_MISSING", named, f"its {what} is missing, so that nothing in it can be read", _RESTORE)
    return fault("KEYRING_BROKEN", named, f"its key files ({keyring.name}) are broken or cannot be read", _RESTORE)


def _looked_at(store: Path, scope: Scope, view_of: OpenView, sample: Sample, named: str) -> Iterator[Finding]:
    with closing(slot_file(store, scope)) as slots, view_of(scope) as view:
        mirrored, generation = view.head.slot_generation, slots.generation
        if generation < mirrored:
            yield warning(
                "SLOT_FILE_OLD", named, f"its slot file is of generation {generation}, the journal mirrors {mirrored}",
                "an older copy of keys/ was put back: ended subjects' keys are destroyed again when the store is next "
                "opened for writing; what was captured since is lost unless a newer copy is restored",
            )  # fmt: skip
        lost, seen = 0, 0
        for name, subject in sample(scope):
            if subject.key_id is None or has_ended(name, subject):
                continue
            seen += 1
            number = view.slot(subject.key_id)
            slot = None if number is None else slots.read(number)
            lost += slot is None or slot.key_id != subject.key_id or slot.state is not SlotState.LIVE
    if lost:
        yield fault(
            "KEY_SLOTS_MISSING", named, f"{lost} of {seen} live subjects that were looked at have no key any more",
            f"{_RESTORE}; engram audit names them",
        )  # fmt: skip


def has_ended(name: str, subject: Subject) -> bool:
    """Whether a subject (by its id and row) has ended, so that its key is destroyed or about to be."""
    return chain.has_ended(name, subject.state)
