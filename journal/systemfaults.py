"""What the system itself refuses - a device that fails, no room, no descriptor left - told in the contract's words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import lmdb

from journal.errors import StoreUnavailable

SYSTEM_FAULTS = (OSError, lmdb.Error)
"""What a file system call that fails ends in, whoever made it."""


@contextmanager
def told_as_unavailable() -> Iterator[None]:
    """Turn what the system refuses into STORE_UNAVAILABLE; a decorator too.

    Raises:
        StoreUnavailable: a file could not be read, written or locked.
    """
    try:
        yield
    except SYSTEM_FAULTS as error:
        raise StoreUnavailable(f"the system refused: {type(error).__name__}") from error
