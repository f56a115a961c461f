"""The mark of a generation: whether its bytes can be trusted without a flush.

A generation is written without flushes. That is safe as long as the page cache outlives the writer, which it does until
the machine goes down. So the mark names the boot in which the generation was last written, and whether the last one
who had it open flushed it when closing:

    same boot, in use or killed    trusted: a killed process loses nothing that its system calls wrote; the first to
                                   open it after a kill looks at its pages before it maps them
    same boot, closed cleanly      trusted while its file has the length and the time of then: nobody wrote to it since;
                                   with another time if its bytes are those of then
    another boot, closed cleanly   trusted if its bytes are those of then
    another boot otherwise         rebuilt
    another lock file              rebuilt: a copy, or a directory whose deletion has begun

LMDB takes any bytes for its pages: one flipped bit is a hit that is missing, or the death of the process. In the boot
in which it was closed the page cache vouches for what the medium holds; in another one the bytes are summed before they
are mapped. Where whoever reads an environment checks each row (embeddings, which are sealed, and whose environment is
closed after each write), a large file has no sum, and the pages' structure is looked at instead.

The mark is a JSON file, replaced by rename. It says "not clean" durably before the first byte is written.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from blake3 import blake3

from journal.foreign import UNREADABLE
from journal.store.lmdb.filesystem import structure_problems
from journal.store.lmdb.markers import boot_id
from projections.locks import InodeLock

FORMAT = 1
NAME = "MARK"


class Mark(msgspec.Struct, frozen=True):
    """What a generation's mark says."""

    format: int
    boot: str  # boot id; empty where the system has none
    clean: bool
    lock_inode: int  # inode of the environment's own lock file
    length_bytes: int = -1  # of the data file when it was closed cleanly; -1 in marks of older releases
    changed_at: int = 0  # its modification time then, ns
    sum: str = ""  # BLAKE3 of it then, 64 hex digits; empty where its rows are checked when they are read


DATA = "data.mdb"
_ATTEMPTS = 4
_PIECE_BYTES = 1 << 20
_SUMMED_BYTES = 16 << 20  # so much is summed whoever reads it: some 6 ms
_seen_whole: set[tuple[int, int, int, int, str]] = set()  # what this process need not look at again


def trusted(directory: Path) -> bool:
    """Whether the mark in a generation's directory vouches for its bytes."""
    try:
        mark = _read(directory)
        for _ in range(_ATTEMPTS):
            if _vouches(directory, mark):
                return True
            before, mark = mark, _read(directory)
            if mark == before:  # else somebody began to write, or closed it, between our looks
                return False
    except (OSError, *UNREADABLE):
        return False
    return False


def left_broken(directory: Path) -> bool:
    """Whether a generation's last process was killed and its pages are broken: it may have died of them.

    They are read one by one and never mapped: some 8 us a KB. Where another process has it open still, none is read.
    """
    try:
        mark = _read(directory)
        if mark.clean or not _vouches(directory, mark):
            return False
        alone = InodeLock(directory / DATA)
    except (OSError, *UNREADABLE):
        return False
    try:
        return alone.try_acquire() and bool(structure_problems(directory / DATA))
    finally:
        alone.close()


def changed(directory: Path) -> bool:
    """Whether a generation's bytes are not those that its mark was set for: somebody wrote to it, or it rotted."""
    try:
        mark = _read(directory)
        is_its_own = mark.format == FORMAT and mark.lock_inode == (directory / "lock.mdb").stat().st_ino
        return is_its_own and mark.clean and not _vouches(directory, mark) and mark == _read(directory)
    except (OSError, *UNREADABLE):
        return False


def _read(directory: Path) -> Mark:
    return msgspec.json.decode((directory / NAME).read_bytes(), type=Mark)


def _vouches(directory: Path, mark: Mark) -> bool:
    if mark.format != FORMAT or mark.lock_inode != (directory / "lock.mdb").stat().st_ino:
        return False
    same_boot = mark.boot != "" and mark.boot == boot_id()
    if not mark.clean:
        return same_boot
    found = (directory / DATA).stat()
    if mark.length_bytes >= 0 and mark.length_bytes != found.st_size:
        return False
    if same_boot and (mark.length_bytes < 0 or mark.changed_at == found.st_mtime_ns):
        return True
    looked_at = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, mark.sum)
    if looked_at not in _seen_whole:
        if not _is_whole(directory / DATA, mark.sum):
            return False
        _seen_whole.add(looked_at)
    return True


def _is_whole(path: Path, stated: str) -> bool:
    if not stated:
        return not structure_problems(path)
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _sum(fd) == stated
    finally:
        os.close(fd)


def _sum(fd: int) -> str:
    """Return the BLAKE3 of a file, which is read and never mapped: some 0.4 s a GB."""
    hasher, at = blake3(), 0
    while piece := os.pread(fd, _PIECE_BYTES, at):
        hasher.update(piece)
        at += len(piece)
    return hasher.hexdigest()


def write(directory_fd: int, *, clean: bool, summed: bool = True) -> None:
    """Replace the mark, durably, in the directory that is open here: never in another that took its name since.

    ``clean``: its data file is flushed, and nobody has it open. ``summed`` False: a large file gets no sum.

    Raises:
        FileNotFoundError: the directory was deleted.
    """
    lock_inode = os.stat("lock.mdb", dir_fd=directory_fd).st_ino
    mark = Mark(FORMAT, boot_id(), clean, lock_inode)
    if clean:
        fd = os.open(DATA, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory_fd)
        try:
            found = os.fstat(fd)
            total = _sum(fd) if summed or found.st_size <= _SUMMED_BYTES else ""
        finally:
            os.close(fd)
        mark = msgspec.structs.replace(mark, length_bytes=found.st_size, changed_at=found.st_mtime_ns, sum=total)
    replace(directory_fd, NAME, msgspec.json.encode(mark))


def replace(directory_fd: int, name: str, content: bytes) -> None:
    """Replace a small file in an open directory, by rename, durably.

    Raises:
        FileNotFoundError: the directory was deleted.
    """
    temporary = f".{name}.{os.getpid()}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600, dir_fd=directory_fd)
    try:
        os.write(fd, content)
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(temporary, name, src_dir_fd=directory_fd, dst_dir_fd=directory_fd)
    os.fsync(directory_fd)
