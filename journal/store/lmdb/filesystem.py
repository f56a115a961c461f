"""What LMDB needs of a file before it may be mapped, and of the file system that it lies on."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import lmdb.verify

from journal.errors import JournalCorrupt, StoreUnavailable

_NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "ceph", "fuse.glusterfs", "lustre", "afs", "beegfs"}
)
_META_MAGIC = 0xBEEFC0DE
_PAGE_HEADER_BYTES = 16
# MDB_meta behind the page header: magic u32, version u32, address u64, map size u64, two MDB_db records of 48 bytes
# (each begins with a u32, the first one's is the page size, and with flags u16), last page u64, transaction u64.
_META = struct.Struct("<IIQQI44x48xQQ")
_FLAGS = struct.Struct("<24xIH42x4xH")
_FLAGS_SET = (0x08, 0)  # integer keys of the list of free pages, and nothing of the names
_BEGINNING = struct.Struct("<10xH4x4xI")  # of a page: its kind; behind its header, of a meta: magic, version
_OF_A_META = (0x08, 1)
_FIRST_META = (1, 0)  # the last page that is in use, and the commit's number
_FIRST_COMMIT_PAGES = 3  # the meta pages, and one with the names of the tables
_META_PAGE_SIZES = (4096, 8192, 16384, 32768, 65536)
_ATTEMPTS = 4
_PAUSE_SECONDS = 0.005


def file_system(path: Path) -> str:
    """Return the type of the file system that holds a path, ``unknown`` where the system does not say."""
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "unknown"
    target = str(path.resolve())
    best, kind = "", "unknown"
    for line in mounts:
        fields = line.split()
        point = fields[1].replace("\\040", " ")
        inside = target == point or target.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind


def refuse_network(path: Path) -> None:
    """Refuse a network file system: LMDB's locks and maps do not hold there.

    Raises:
        StoreUnavailable: the path lies on one.
    """
    kind = file_system(path)
    if kind in _NETWORK:
        raise StoreUnavailable(f"the store lies on {kind}, a network file system; put it on a local disk")


def check_length(path: Path) -> None:
    """Check that a data file is as long as its meta pages say: a read beyond a map's file is SIGBUS, not an error.

    Another process may be writing: so the metas are read before the length, which LMDB extends before it writes a meta,
    and what looks broken is looked at again. A file that lacks nothing but free pages is whole.

    Raises:
        JournalCorrupt: the file is cut, or its meta pages are not LMDB's.
    """
    problem = _length_problem(path)
    for _ in range(_ATTEMPTS):
        if problem is None:
            return
        time.sleep(_PAUSE_SECONDS)
        problem = _length_problem(path)
    if problem is not None:
        raise JournalCorrupt(problem)


def _length_problem(path: Path) -> str | None:
    with path.open("rb") as file:
        first = _meta(file.read(_META_PAGE_SIZES[0]))
        if first is None:
            return f"{path.name} does not begin with an LMDB meta page"
        page_size = first[0]
        if page_size not in _META_PAGE_SIZES:
            return f"{path.name} states an impossible page size"
        file.seek(page_size)
        second = _meta(file.read(_META_PAGE_SIZES[0]))
        if second is None:
            return f"{path.name} has a broken second meta page"
        size_bytes = os.fstat(file.fileno()).st_size
    newest = max(first, second, key=lambda meta: meta[2])
    needed_bytes = (newest[1] + 1) * page_size
    if needed_bytes <= size_bytes or not structure_problems(path):
        return None
    return f"{path.name} is cut: {size_bytes} bytes, {needed_bytes} needed"


def last_commit(path: Path) -> int:
    """Return the number of the last commit of a data file that nobody writes to; -1 where its meta pages are broken."""
    first, second = _metas(path)
    return -1 if first is None or second is None else max(first[2], second[2])


def metas_problem(path: Path) -> str | None:
    """Return what is wrong with the two meta pages of a data file that nobody writes to; None where nothing is.

    Each commit overwrites the older one, so that they are of two commits in a row. Where they are not, a number was
    changed, and LMDB would take the commit before the last for the last.
    """
    first, second = _metas(path)
    if first is None or second is None:
        return "a meta page is broken"
    if abs(first[2] - second[2]) != 1 and (first[2] or second[2]):
        return f"the meta pages are of commits {first[2]} and {second[2]}"
    return None


def is_unmade(path: Path) -> bool:
    """Whether a data file is not there, or whoever made it ended before a meta page said that there is anything in it.

    Nothing was ever acknowledged of it then, and there is nothing in it to walk.
    """
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return True
    if not size:
        return True
    metas = _metas(path)
    return all(meta is not None and meta[1:] == _FIRST_META and size <= _FIRST_COMMIT_PAGES * meta[0] for meta in metas)


def _metas(path: Path) -> tuple[tuple[int, int, int] | None, tuple[int, int, int] | None]:
    with path.open("rb") as file:
        first = _meta(file.read(_META_PAGE_SIZES[0]))
        file.seek(first[0] if first is not None else 0)
        return first, _meta(file.read(_META_PAGE_SIZES[0]))


def begins_well(path: Path) -> bool:
    """Whether both meta pages of a data file are LMDB's and of its version: that is what opening it looks at."""
    with path.open("rb") as file:
        first = file.read(_META_PAGE_SIZES[0])
        meta = _meta(first)
        file.seek(meta[0] if meta is not None else 0)
        pages = (first, file.read(_META_PAGE_SIZES[0]))
    return all(_meta(page) is not None and _BEGINNING.unpack_from(page) == _OF_A_META for page in pages)


def structure_problems(path: Path) -> list[str]:
    """Return what is wrong with the pages of a data file, read one by one and never mapped: some 8 us a KB.

    Only a file that nobody writes to meanwhile is judged rightly.
    """
    try:
        problems: list[str] = lmdb.verify.verify(str(path), subdir=False)  # type: ignore[no-untyped-call]  # no types
    except lmdb.verify.VerifyError as error:
        return [str(error)]
    return [*problems, *_strange_flags(path)]


def _strange_flags(path: Path) -> Iterator[str]:
    """Give that the meta page in use states flags that no environment of ours has: LMDB would abort over them."""
    first, second = _metas(path)
    if first is not None and second is not None:
        with path.open("rb") as file:
            file.seek(_PAGE_HEADER_BYTES + (0 if first[2] > second[2] else first[0]))
            flags = _FLAGS.unpack(file.read(_FLAGS.size))[1:]
        if flags != _FLAGS_SET:
            yield f"the meta page in use states flags {flags}"


def _meta(page: bytes) -> tuple[int, int, int] | None:
    """Return (page size, last page, transaction) of a meta page, or None."""
    if len(page) < _PAGE_HEADER_BYTES + _META.size:
        return None
    magic, _, _, _, page_size, last_page, transaction = _META.unpack_from(page, _PAGE_HEADER_BYTES)
    return (page_size, last_page, transaction) if magic == _META_MAGIC else None


def reserve_lock_file(directory: Path, readers_max: int) -> None:
    """Give LMDB's lock file its blocks before it is mapped: on a full disk a hole in it would be SIGBUS at first touch.

    Raises:
        StoreUnavailable: the disk is full, or the file cannot be made.
    """
    path = directory / "lock.mdb"
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            # Two cache lines of LMDB's own, then one a reader: exactly, for LMDB takes a longer file for more readers.
            if hasattr(os, "posix_fallocate"):  # not on macOS
                os.posix_fallocate(fd, 0, 64 * (readers_max + 2))
        finally:
            os.close(fd)
    except OSError as error:
        raise StoreUnavailable(f"{path}: {error.strerror}") from error


def may_lock(directory: Path) -> bool:
    """Whether a reader can enter LMDB's reader table here; it cannot on a copy that it may not write to.

    Without the table nothing keeps a writer from using pages again that are being read. So that is for places where
    nobody can write: a file system that is mounted for reading, or a folder in which no process has left a mark.

    Raises:
        StoreUnavailable: it cannot, and somebody else may be writing.
    """
    lock = directory / "lock.mdb"
    if os.access(lock, os.R_OK | os.W_OK) if lock.exists() else os.access(directory, os.W_OK):
        return True
    marks = directory / "open"
    if not os.statvfs(directory).f_flag & os.ST_RDONLY and marks.is_dir() and any(marks.iterdir()):
        raise StoreUnavailable(f"{directory} cannot be written here, and a process that can may have it open: copy it")
    return False
