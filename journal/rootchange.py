"""Replacing the root key of a whole store, so that at every moment one root key, the old or the new, opens all of it.

    keys/root.planned     a replacement has begun: the old root key is in force, whatever else stands there
    keys/root.switched    the same file, renamed: the new root key is in force
    keys/<tag>.keyring.new    a scope's next keyring, under the new root key; in force once ``root.switched`` is there
    keys/<tag>.<epoch>.slots  the data keys of that keyring
    keys/root.lock        held by who replaces, finishes or abandons; shared by who makes keys for a new scope

Everything is written and flushed beside what is in force, under every scope's key lock; one rename switches; the rest
is only moving files, so whoever comes next can finish it without any key. What was replaced is overwritten with zeros
before it is removed. A replacement that died before the rename never was: its files are removed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from journal import keyringfile, layout, patience
from journal.errors import EngramError, StoreUnavailable
from journal.filelock import FileLock
from journal.foreign import UNREADABLE
from journal.rootkey import RootKeySource, create_root_key_file, flush_directory, load_root_key
from journal.slots import blank

if TYPE_CHECKING:
    from journal.keyring import Keyring

PLANNED = "root.planned"
SWITCHED = "root.switched"
LOCK = "root.lock"
_STAGED = ".new"
_OLD = ".old"
_FORMAT = 1
_LOCK_SECONDS = 10.0


class Plan(msgspec.Struct, frozen=True):
    """What a replacement is about; the content of ``root.planned`` and ``root.switched``, as JSON."""

    format: int
    root_file: str | None  # the file that the root key stands in; None where it stands elsewhere
    new_file: str  # where the new root key is


def plan_for(source: RootKeySource, new_file: Path | None) -> Plan:
    """Return the plan for a root key of this source; ``new_file`` holds the new key where the source is no file.

    Raises:
        StoreUnavailable: the source and the file do not fit together; the detail says what to do.
    """
    if source.kind == "file":
        if new_file is not None:
            raise StoreUnavailable("the root key stands in a file, which is replaced: leave --new-root-key out")
        root_file = Path(source.where[0]).resolve()
        return Plan(_FORMAT, str(root_file), str(root_file.with_name(root_file.name + _STAGED)))
    if new_file is None:
        raise StoreUnavailable(
            f"the root key comes from {source.kind}, where it cannot be replaced from here: "
            "give --new-root-key FILE, and put the key in that file where the old one is"
        )
    return Plan(_FORMAT, None, str(new_file.resolve()))


def staged(keyring: Path) -> Path:
    """Return where the next keyring file of a scope is prepared."""
    return keyring.with_name(keyring.name + _STAGED)


def in_force(keyring: Path) -> Path:
    """Return the path at which a scope's keyring file that is in force stands now."""
    prepared = staged(keyring)
    return prepared if (keyring.parent / SWITCHED).exists() and prepared.exists() else keyring


def keyrings(directory: Path) -> Iterator[bytes]:
    """Yield the content of every keyring file that is in force and can be read."""
    for path in sorted(directory.glob("*.keyring")):
        with suppress(OSError):
            yield in_force(path).read_bytes()


# --- replacing -----------------------------------------------------------------------------------


def replace_root(keyring: Keyring, directory: Path, plan: Plan, failpoint: Callable[[str], None]) -> None:
    """Wrap every scope's keys anew, under new wrapping keys and a new root key, and put that root key in force.

    Raises:
        StoreUnavailable: the store holds no keys yet; another process replaces the root key, or holds a scope's keys;
            a file cannot be written. The old root key is in force then. JournalCorrupt: a scope's keys are broken.
    """
    with _exclusive(directory, time.monotonic() + _LOCK_SECONDS), ExitStack() as locks:
        _settle(directory)
        scopes = keyring.scopes()
        if not scopes:
            raise StoreUnavailable("the store holds no keys yet: put another root key in place")
        _prepare_plan(directory, plan)
        try:
            failpoint("root.planned")
            new_root = _new_root(plan)
            for scope in scopes:
                locks.enter_context(keyring.locked(scope))
                keyring.stage(scope, new_root)
            flush_directory(directory)
            failpoint("root.staged")
            (directory / PLANNED).rename(directory / SWITCHED)
        except BaseException:
            # An interrupt may be delivered after the rename: what is in force is never removed.
            if not (directory / SWITCHED).exists():
                _abandon(directory, plan)
            raise
        flush_directory(directory)
        failpoint("root.switched")
        keyring.root.key = new_root
        _finish(directory, plan, failpoint)


def _prepare_plan(directory: Path, plan: Plan) -> None:
    if plan.root_file is not None and Path(plan.new_file).exists():
        raise StoreUnavailable(f"{plan.new_file} is there already: move it away")
    keyringfile.write(directory / PLANNED, msgspec.json.encode(plan), replace=True)


def _new_root(plan: Plan) -> bytes:
    path = Path(plan.new_file)
    if not path.exists():
        create_root_key_file(path)
    return load_root_key(RootKeySource("file", (plan.new_file,)))


# --- finishing -----------------------------------------------------------------------------------


def settle(directory: Path) -> None:
    """Finish a replacement that died after its switch, or remove what one left that died before it.

    Raises:
        DeadlineExceeded, StoreUnavailable: it is being replaced right now, and that does not end.
    """
    switched = (directory / SWITCHED).exists()
    if not switched and not (directory / PLANNED).exists():
        return
    with suppress(_Busy):
        with _exclusive(directory, patience.until(_LOCK_SECONDS) if switched else time.monotonic()):
            _settle(directory)
        return
    if switched:
        raise patience.given_up("the root key is being replaced; try again")


def _settle(directory: Path) -> None:
    plan = _read(directory / SWITCHED)
    if plan is not None:
        _finish(directory, plan, lambda _: None)
    plan = _read(directory / PLANNED)
    if plan is not None:
        _abandon(directory, plan)


def _abandon(directory: Path, plan: Plan) -> None:
    """Remove what a replacement wrote that never came into force; a key file that the operator gave stays."""
    for path in directory.glob(f"*.keyring{_STAGED}"):
        blank(path)
    if plan.root_file is not None:
        blank(Path(plan.new_file))
    (directory / PLANNED).unlink(missing_ok=True)
    flush_directory(directory)


def _finish(directory: Path, plan: Plan, failpoint: Callable[[str], None]) -> None:
    """Move everything to its place; each step can be repeated, and ``root.switched`` goes last."""
    for path in sorted(directory.glob(f"*.keyring{_STAGED}")):
        _supersede(path, path.with_name(path.name.removesuffix(_STAGED)))
    failpoint("root.keyrings_moved")
    if plan.root_file is not None:
        root_file, new_file = Path(plan.root_file), Path(plan.new_file)
        if new_file.exists():
            _supersede(new_file, root_file)
        blank(root_file.with_name(root_file.name + _OLD))
    failpoint("root.key_moved")
    for path in directory.glob(f"*.keyring{_OLD}"):
        blank(path)
    for path in directory.glob("*.keyring"):
        tag = path.name.removesuffix(".keyring")
        current = f"{tag}.{keyringfile.epoch_of(path.read_bytes())}.slots"
        for slots in directory.glob(f"{tag}.*.slots"):
            if slots.name != current:
                blank(slots)
    (directory / SWITCHED).unlink(missing_ok=True)
    flush_directory(directory)


def _supersede(new: Path, path: Path) -> None:
    """Put a file in another's place by rename, and overwrite what stood there."""
    old = path.with_name(path.name + _OLD)
    old.unlink(missing_ok=True)  # of a try that died here: the same file still
    with suppress(FileNotFoundError):
        os.link(path, old)
    new.rename(path)
    flush_directory(path.parent)
    blank(old)


# --- which root key is in force ------------------------------------------------------------------


def root_key_in_force(store: Path, source: RootKeySource) -> bytes:
    """Return the root key that opens a store now: the source's, or the new one where a replacement is not finished.

    Raises:
        StoreUnavailable: it cannot be read (``journal.rootkey.load_root_key``).
    """
    directory = store / layout.KEYS
    plan = _read(directory / SWITCHED)
    if plan is not None and plan.root_file is not None and source.kind == "file":
        for path in (plan.new_file, plan.root_file):
            with suppress(EngramError):
                key = load_root_key(RootKeySource("file", (path,)))
                for raw in keyrings(directory):
                    keyringfile.check_root(raw, key)
                    return key
    return load_root_key(source)


def _read(path: Path) -> Plan | None:
    try:
        plan = msgspec.json.decode(path.read_bytes(), type=Plan)
    except FileNotFoundError:
        return None
    except (OSError, *UNREADABLE) as error:
        raise StoreUnavailable(f"{path} cannot be read") from error
    if plan.format != _FORMAT:
        raise StoreUnavailable(f"{path} was written by another release")
    return plan


# --- the lock ------------------------------------------------------------------------------------


class _Busy(StoreUnavailable):
    """Another process holds the lock."""


@contextmanager
def _exclusive(directory: Path, until: float) -> Iterator[None]:
    with _lock(directory, until, shared=False):
        yield


@contextmanager
def steady_root(directory: Path) -> Iterator[None]:
    """Keep the root key from being replaced meanwhile.

    Raises:
        DeadlineExceeded, StoreUnavailable: it is being replaced, and that does not end (``journal.patience``).
    """
    with ExitStack() as held:
        try:
            held.enter_context(_lock(directory, patience.until(_LOCK_SECONDS), shared=True))
        except _Busy as error:
            raise patience.given_up(error.detail) from error
        yield


@contextmanager
def _lock(directory: Path, until: float, *, shared: bool) -> Iterator[None]:
    """Hold the lock, tried for until ``until`` (``time.monotonic`` seconds)."""
    lock = FileLock(directory / LOCK)
    try:
        if not lock.acquire(until, shared=shared):
            raise _Busy("the root key is being replaced by another process")
        yield
    finally:
        lock.close()
