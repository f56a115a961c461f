"""What a journal's file was when the last process closed it: whether anybody has written to it since.

    journal/rest    JSON: the boot, length, times and inode of data.mdb, the number of its last commit, and its sum

LMDB takes any bytes for its pages, and nothing is walked after a clean end. So whoever closes the store last notes how
it left the file, and whoever opens it first compares:

    same boot, same length, times, inode and commit    it is as it was left
    otherwise, with a sum (a file that is not large)    it is as it was left if its bytes are
    another boot, a large file                          taken as it was left; the scrub looks (``pagescrub``)
    anything else, or no note                           a child process walks it (``quarantine``)

The note vouches for nothing after an unclean end, which the marks tell (``markers``); so it needs no care in a crash.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

import msgspec
from blake3 import blake3

from journal import limits
from journal.foreign import UNREADABLE
from journal.store.lmdb.filesystem import last_commit
from journal.store.lmdb.markers import boot_id

NAME = "rest"
_DATA = "data.mdb"
_FORMAT = 1
_PIECE_BYTES = 1 << 20


class Rest(msgspec.Struct, frozen=True):
    """How a journal's file was left."""

    format: int
    boot: str  # boot id; empty where the system has none
    length_bytes: int
    modified_at: int  # ns
    changed_at: int  # ns: of the inode, which no program can set
    inode: int
    commit: int  # the number of the last one
    sum: str = ""  # BLAKE3 of the file, 64 hex digits; empty where it is large


def note(directory: Path) -> None:
    """Note how the journal's file is left; nobody has it open for writing.

    Raises:
        OSError: the note cannot be written.
    """
    if _is_untouched(_read(directory), _looked_at(directory / _DATA, summed=False)):
        return  # who wrote nothing need not sum it again
    raw = msgspec.json.encode(_looked_at(directory / _DATA, summed=True))
    temporary = directory / f".{NAME}.{secrets.token_hex(6)}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        try:
            os.write(fd, raw)
            os.fsync(fd)
        finally:
            os.close(fd)
        temporary.rename(directory / NAME)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def is_as_left(directory: Path) -> bool:
    """Whether the journal's file is as the last process left it that closed it; nobody has it open for writing."""
    try:
        left, found = _read(directory), _looked_at(directory / _DATA, summed=False)
        if left is None or left.format != _FORMAT or left.length_bytes != found.length_bytes:
            return False
        if _is_untouched(left, found):
            return True
        return _sum(directory / _DATA) == left.sum if left.sum else _is_same(left, found)
    except OSError:
        return False


def _read(directory: Path) -> Rest | None:
    try:
        return msgspec.json.decode((directory / NAME).read_bytes(), type=Rest)
    except (OSError, *UNREADABLE):
        return None


def _is_untouched(left: Rest | None, found: Rest) -> bool:
    """Whether nobody can have written to the file: in this boot the system's own times tell."""
    return left is not None and left.boot == found.boot != "" and _is_same(left, found)


def _is_same(left: Rest, found: Rest) -> bool:
    """Whether a file has the length, times, inode and last commit that were noted."""
    return msgspec.structs.replace(left, sum="", boot=found.boot) == found


def _looked_at(data: Path, *, summed: bool) -> Rest:
    found = data.stat()
    total = _sum(data) if summed and found.st_size <= limits.REST_SUMMED_BYTES else ""
    return Rest(
        _FORMAT, boot_id(), found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, last_commit(data), total
    )  # fmt: skip


def _sum(path: Path) -> str:
    """Return the BLAKE3 of a file, which is read and never mapped: some 0.4 s a GB."""
    hasher, at = blake3(), 0
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while piece := os.pread(fd, _PIECE_BYTES, at):
            hasher.update(piece)
            at += len(piece)
    finally:
        os.close(fd)
    return hasher.hexdigest()
