"""A disk that is full, told as such: what writes to it fails in many voices, and some of them sound like a fault."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb

from journal.errors import StoreUnavailable

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_SHORT = errno.EIO  # LMDB's for a write that stops short, which is how a disk gets full; it gives words and no number


@contextmanager
def told_of_room(place: Path) -> Iterator[None]:
    """Tell of a disk without room in plain words, whatever failed on it. For what leaves nothing when it fails.

    Raises:
        StoreUnavailable: there is no room at the place.
    """
    try:
        yield
    except Exception as error:
        numbers = {number for each in _causes(error) for number in _numbers(each)}
        if not numbers:
            raise
        doubt = "" if numbers & set(_NO_ROOM) else ", or its disk fails"
        raise StoreUnavailable(f"there is no room at {place}{doubt}; nothing is left there") from error


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _numbers(error: BaseException) -> Iterator[int]:
    """Yield the system's number of an error that a full disk may be."""
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        yield error.errno
    if isinstance(error, lmdb.Error):
        yield from (number for number in (*_NO_ROOM, _SHORT) if str(error).endswith(os.strerror(number)))
