"""The store's place: that it is a store of this format, on a fit file system, with room, and the user's alone."""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from journal import layout, limits
from journal.errors import StoreUnavailable
from journal.store.lmdb.filesystem import file_system, refuse_network
from tools.cli.checkup.finding import Finding, fault, note, warning
from tools.damage import RESTORE

_COPY_ON_WRITE = frozenset({"btrfs", "zfs", "overlay", "bcachefs", "apfs", "aufs"})
_STORE_FILE_MAX_BYTES = 64 * 1024
_DATA = "data.mdb"


def is_store(store: Path) -> Iterator[Finding]:
    """Yield why the directory is no store that this release reads."""
    subject = str(store)
    if not store.exists():
        yield fault("STORE_MISSING", subject, "is not there", "run engram init, or name the right store.path")
        return
    if not (store / layout.STORE_FILE).exists():
        yield fault(
            "STORE_FOREIGN", subject, f"holds no {layout.STORE_FILE}, so that it is no store",
            "name the store's own folder in store.path, or restore it from a backup (docs/backup.md)",
        )  # fmt: skip
        return
    yield from _format(store)
    yield from _wrong_kinds(store)
    missing = [name for name in (layout.JOURNAL, layout.KEYS) if not (store / name).is_dir()]
    if missing:
        yield fault(
            "STORE_INCOMPLETE",
            subject,
            f"the folder {' and '.join(missing)} is missing",
            RESTORE,
        )
    elif not (store / layout.JOURNAL / _DATA).exists() and any((store / layout.KEYS).glob("*.keyring")):
        yield fault(
            "STORE_INCOMPLETE",
            subject,
            f"{layout.JOURNAL}/{_DATA} is missing",
            RESTORE,
        )


def _wrong_kinds(store: Path) -> Iterator[Finding]:
    """Yield what is no regular file where one must be, or no folder: each use of the store then fails."""
    folder = store / layout.JOURNAL
    files = [*sorted(folder.glob("*.lock")), folder / "lock.mdb"]
    odd = [path for path in files if path.exists() and not path.is_file()]
    projections = store / layout.PROJECTIONS
    if projections.exists() and not projections.is_dir():
        odd.append(projections)
    for path in odd:
        yield fault(
            "STORE_WRONG_KIND", str(path), "is a folder where a file must be, or the other way round",
            "move it away while nothing has the store open; it is made anew",
        )  # fmt: skip


def _format(store: Path) -> Iterator[Finding]:
    path = store / layout.STORE_FILE
    try:
        with path.open("rb") as file:
            stated = tomllib.loads(file.read(_STORE_FILE_MAX_BYTES).decode()).get("format")
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no TOML"
        yield fault("STORE_UNREADABLE", str(path), f"cannot be read: {why}", "make it readable, or restore it")
        return
    if isinstance(stated, int) and stated > layout.FORMAT:
        yield fault(
            "STORE_FROM_THE_FUTURE", str(path), f"has format {stated}, and this release reads {layout.FORMAT}",
            "install the newer release that wrote it",
        )  # fmt: skip
    elif stated != layout.FORMAT:
        yield fault(
            "STORE_FOREIGN", str(path), f"states no format that this release reads ({layout.FORMAT})",
            "name the store's own folder in store.path, or restore it from a backup (docs/backup.md)",
        )  # fmt: skip


def medium(store: Path) -> Iterator[Finding]:
    """Yield what the file system does not promise."""
    if not store.exists():
        return
    kind = file_system(store)
    try:
        refuse_network(store)
    except StoreUnavailable:
        yield fault(
            "FILE_SYSTEM_NETWORK", str(store), f"lies on {kind}, a network file system: locks do not hold there",
            "move the store to a local disk and change store.path",
        )  # fmt: skip
        return
    if kind in _COPY_ON_WRITE:
        yield note(
            "FILE_SYSTEM_COPY_ON_WRITE", str(store),
            f"lies on {kind}, which writes beside the old blocks: destroyed keys may survive there, and in snapshots",
            "move the store to a file system that overwrites in place, such as ext4 or xfs, if that matters to you",
        )  # fmt: skip


def room(store: Path) -> Iterator[Finding]:
    """Yield that the disk is nearly full."""
    if not store.exists():
        return
    found = os.statvfs(store)
    free_bytes = found.f_bavail * found.f_frsize
    told = f"{free_bytes // limits.MIB} MiB are left on its disk"
    if free_bytes < limits.CHECK_DISK_FREE_NONE_BYTES:
        yield fault("DISK_FULL", str(store), told, "free disk space now: nothing can be stored soon")
    elif free_bytes < limits.CHECK_DISK_FREE_LOW_BYTES:
        yield warning("DISK_NEARLY_FULL", str(store), told, "free disk space before captures begin to fail")


@dataclass(slots=True)
class _Entries:
    """What was met in a walk: for each kind of trouble how many entries, and the first of them."""

    counts: dict[str, int] = field(default_factory=dict)
    first: dict[str, Path] = field(default_factory=dict)

    def add(self, trouble: str, path: Path) -> None:
        self.counts[trouble] = self.counts.get(trouble, 0) + 1
        self.first.setdefault(trouble, path)

    def told(self, trouble: str) -> str:
        further = self.counts[trouble] - 1
        return f"{self.first[trouble]}" + (f" and {further} more" if further else "")


def permissions(store: Path) -> Iterator[Finding]:
    """Yield entries of the store that others may open, that are another user's, or that this user cannot use."""
    if not store.is_dir():
        return
    met = _Entries()
    for seen, path in enumerate(_walk(store)):
        if seen >= limits.CHECK_FILES_MAX:
            break
        _judge(path, met)
    if "open" in met.counts:
        yield warning(
            "STORE_OPEN_TO_OTHERS", str(store), f"others may open {met.told('open')}", f"run chmod -R go-rwx {store}"
        )
    if "owner" in met.counts:
        yield warning(
            "STORE_OF_ANOTHER_USER", str(store), f"{met.told('owner')} belongs to another user",
            f"run chown -R on {store}, or run engram as the user who owns it",
        )  # fmt: skip
    if "unreadable" in met.counts:
        yield fault(
            "STORE_UNREADABLE", str(store), f"{met.told('unreadable')} cannot be read by this user",
            f"run chmod -R u+rwX {store}, or run engram as the user who owns it",
        )  # fmt: skip
    elif "read-only" in met.counts:
        yield note(
            "STORE_READ_ONLY", str(store), f"{met.told('read-only')} cannot be written, so nothing can be captured",
            f"run chmod -R u+rwX {store}, or mount its disk writable, unless it is meant so",
        )  # fmt: skip


def _walk(store: Path) -> Iterator[Path]:
    yield store
    for folder, folders, files in os.walk(store):
        for name in sorted([*folders, *files]):
            yield Path(folder) / name


def _judge(path: Path, met: _Entries) -> None:
    try:
        status = path.lstat()
    except OSError:
        return  # removed meanwhile: a generation, a mark
    if stat.S_ISLNK(status.st_mode):
        return
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        met.add("open", path)
    if status.st_uid != os.getuid():
        met.add("owner", path)
    needed = os.R_OK | (os.X_OK if stat.S_ISDIR(status.st_mode) else 0)
    if not os.access(path, needed):
        if path.exists():
            met.add("unreadable", path)
    elif not os.access(path, os.W_OK) and path.exists():
        met.add("read-only", path)
