"""A scope's key files, looked at without a key: there, of the generation that the journal mirrors, no slot lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from pathlib import Path

import lmdb

from journal import chain, keyringfile, layout
from journal.errors import EngramError
from journal.foreign import UNREADABLE
from journal.scope import Scope
from journal.slots import Slot, SlotFile, SlotState
from journal.store.lmdb.view import LmdbView
from journal.store.port import Subject
from tools.cli.checkup.finding import Finding, fault, warning
from tools.damage import RESTORE

OpenView = Callable[[Scope], AbstractContextManager[LmdbView]]
Sample = Callable[[Scope], list[tuple[str, Subject]]]
_ATTEMPTS = 3  # a rotation may take the slot file away between two readings
_RESTORE = f"put back a copy of keys/ that is not older than the journal; where there is none, {RESTORE}"


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
    """Yield what is wrong with a scope's key files; ``sample`` gives some of its subjects.

    What the journal says of them is read first, so that nobody blames the keys for what it cannot tell.
    """
    named = f"{scope.tenant_id} / {scope.workspace_id}"
    for attempt in range(_ATTEMPTS):
        try:
            stated = _stated(scope, view_of, sample)
        except (lmdb.Error, *UNREADABLE, EngramError) as error:
            found = [_untold(error, named)]
        else:
            found = _held_against(store, scope, stated, named)
        if not found or attempt + 1 == _ATTEMPTS:
            yield from found
            return


@dataclass(frozen=True, slots=True)
class _Stated:
    """What the journal says of a scope's slot file."""

    generation: int
    keys: tuple[tuple[bytes, int | None], ...]  # of live subjects: (key_id, slot number)


def _stated(scope: Scope, view_of: OpenView, sample: Sample) -> _Stated:
    with view_of(scope) as view:
        live = [subject.key_id for name, subject in sample(scope) if subject.key_id and not has_ended(name, subject)]
        return _Stated(view.head.slot_generation, tuple((key_id, view.slot(key_id)) for key_id in live))


def _untold(error: Exception, named: str) -> Finding:
    why = error.detail if isinstance(error, EngramError) and error.detail else type(error).__name__
    return fault(
        "JOURNAL_BROKEN", named, f"what the journal says of its keys cannot be read: {why}",
        f"see with engram audit how far it is whole; {RESTORE}",
    )  # fmt: skip


def _held_against(store: Path, scope: Scope, stated: _Stated, named: str) -> list[Finding]:
    try:
        return list(_compared(store, scope, stated, named))
    except (OSError, *UNREADABLE, EngramError) as error:
        return [_unreadable(store, scope, error, named)]


def _unreadable(store: Path, scope: Scope, error: Exception, named: str) -> Finding:
    keyring = store / layout.KEYS / f"{scope.tag.hex()}.keyring"
    if isinstance(error, FileNotFoundError):
        what = "keyring" if not keyring.exists() else "slot file"
        return fault("KEYS_MISSING", named, f"its {what} is missing, so that nothing in it can be read", _RESTORE)
    return fault("KEYRING_BROKEN", named, f"its key files ({keyring.name}) are broken or cannot be read", _RESTORE)


def _compared(store: Path, scope: Scope, stated: _Stated, named: str) -> Iterator[Finding]:
    with closing(slot_file(store, scope)) as slots:
        generation, lost = slots.generation, 0
        if generation < stated.generation:
            yield warning(
                "SLOT_FILE_OLD", named,
                f"its slot file is of generation {generation}, the journal mirrors {stated.generation}",
                "an older copy of keys/ was put back: ended subjects' keys are destroyed again when the store is next "
                "opened for writing; what was captured since is lost unless a newer copy is restored",
            )  # fmt: skip
        for key_id, number in stated.keys:
            slot = None if number is None else slots.read(number)
            lost += slot is None or slot.key_id != key_id or slot.state is not SlotState.LIVE
    if lost:
        yield fault(
            "KEY_SLOTS_MISSING", named,
            f"{lost} of {len(stated.keys)} live subjects that were looked at have no key any more",
            f"{_RESTORE}; engram audit names them",
        )  # fmt: skip


def has_ended(name: str, subject: Subject) -> bool:
    """Whether a subject (by its id and row) has ended, so that its key is destroyed or about to be."""
    return chain.has_ended(name, subject.state)
