"""The mark of a generation: whether its bytes can be trusted without a flush.

A generation is written without flushes. That is safe as long as the page cache outlives the writer, which it does until
the machine goes down. So the mark names the boot in which the generation was last written, and whether the last one
who had it open flushed it when closing:

    same boot                      trusted: a killed process loses nothing that its system calls wrote
    another boot, closed cleanly   trusted
    another boot otherwise         rebuilt
    another lock file              rebuilt: a copy, or a directory whose deletion has begun

The mark is a JSON file, replaced by rename. It says "not clean" durably before the first byte is written.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from journal.foreign import UNREADABLE
from journal.store.lmdb.markers import boot_id

FORMAT = 1
NAME = "MARK"


class Mark(msgspec.Struct, frozen=True):
    """What a generation's mark says."""

    format: int
    boot: str  # boot id; empty where the system has none
    clean: bool
    lock_inode: int  # inode of the environment's own lock file


def trusted(directory: Path) -> bool:
    """Whether the mark in a generation's directory vouches for its bytes."""
    try:
        mark = msgspec.json.decode((directory / NAME).read_bytes(), type=Mark)
        lock_inode = (directory / "lock.mdb").stat().st_ino
    except (OSError, *UNREADABLE):
        return False
    alive = mark.clean or (mark.boot != "" and mark.boot == boot_id())
    return mark.format == FORMAT and mark.lock_inode == lock_inode and alive


def write(directory_fd: int, *, clean: bool) -> None:
    """Replace the mark, durably, in the directory that is open here: never in another that took its name since.

    Raises:
        FileNotFoundError: the directory was deleted.
    """
    lock_inode = os.stat("lock.mdb", dir_fd=directory_fd).st_ino
    mark = Mark(FORMAT, boot_id(), clean, lock_inode)
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
