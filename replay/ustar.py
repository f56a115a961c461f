"""The part of tar (POSIX ustar) that a backup is made of: regular files, and every byte written in one way only.

    header, 512 bytes                          what a member may say of itself is its name and its size
      0  name, 99 bytes at most, zeros  100
    100  mode   "0000600" zero            8    157  zero                      100
    108  uid    "0000000" zero            8    257  "ustar" zero "00"           8
    116  gid    "0000000" zero            8    265  zero                      247
    124  size, 11 octal digits, zero     12
    136  mtime  "00000000000" zero       12
    148  sum, 6 octal digits, zero, " "   8
    156  "0": a regular file              1

A content is filled with zeros to the next 512 bytes. The archive ends with two blocks of zeros, filled with zeros to
10,240 bytes. A header is read by making it anew and comparing, so that no byte is without meaning, and none of what
other programs put into archives (long names, extended headers, sparse files, links) is ever taken in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from journal.errors import BackupInvalid

BLOCK_BYTES = 512
RECORD_BYTES = 20 * BLOCK_BYTES
NAME_MAX_BYTES = 99
SIZE_MAX_BYTES = 8**11 - 1
_NAME_FIELD, _SIZE_FIELD, _SUM_FIELD = slice(0, 100), slice(124, 135), slice(148, 156)


def header(name: bytes, size_bytes: int) -> bytes:
    """Return a member's header.

    Raises:
        ValueError: the name or the size is one that a header cannot hold.
    """
    if not 1 <= len(name) <= NAME_MAX_BYTES or b"\0" in name or not 0 <= size_bytes <= SIZE_MAX_BYTES:
        raise ValueError("a name or size that no header of a backup holds")
    owned = (b"0000600", b"0000000", b"0000000", b"%011o" % size_bytes, b"0" * 11)
    after = b"0" + bytes(100) + b"ustar\x0000" + bytes(247)
    before = name.ljust(100, b"\0") + b"".join(number + b"\0" for number in owned)
    return before + b"%06o\0 " % (sum(before) + sum(after) + 8 * ord(" ")) + after


def fill(size_bytes: int) -> bytes:
    """Return the zeros behind a content."""
    return bytes(-size_bytes % BLOCK_BYTES)


def end(size_bytes: int) -> bytes:
    """Return the end of an archive whose members take so many bytes."""
    return bytes(2 * BLOCK_BYTES + -(size_bytes + 2 * BLOCK_BYTES) % RECORD_BYTES)


def members(file: IO[bytes], size_bytes: int) -> Iterator[tuple[str, int, int]]:
    """Yield (name, offset of the content, its bytes) of the archive in the first ``size_bytes`` of a file.

    Raises:
        BackupInvalid: it holds a byte that ``header``, ``fill`` and ``end`` do not write.
    """
    at = 0
    while True:
        file.seek(at)
        raw = file.read(min(BLOCK_BYTES, size_bytes - at))
        if not any(raw):
            break
        name, content_bytes = _stated(raw)
        offset, behind = at + BLOCK_BYTES, fill(content_bytes)
        at = offset + content_bytes + len(behind)
        if at > size_bytes:
            raise BackupInvalid("a member of the archive is cut")
        file.seek(offset + content_bytes)
        if file.read(len(behind)) != behind:
            raise BackupInvalid("the archive holds something between its members")
        yield name, offset, content_bytes
    expected = end(at)
    file.seek(at)
    if size_bytes - at != len(expected) or file.read(len(expected)) != expected:
        raise BackupInvalid("the archive does not end as a backup ends")


def _stated(raw: bytes) -> tuple[str, int]:
    """Return (name, bytes of the content) of a header."""
    name = raw[_NAME_FIELD].rstrip(b"\0")
    try:
        size_bytes = int(raw[_SIZE_FIELD], 8)
        if header(name, size_bytes) == raw:
            return name.decode("ascii"), size_bytes
    except ValueError:
        pass
    raise BackupInvalid("the archive holds something that no backup holds")
