"""Opening an LMDB environment to look at it: nothing is repaired, and nothing is waited for.

Where the lock file is not there or cannot be written (a copy, a disk that is mounted for reading), the environment is
opened without it: then nobody can be writing through it either.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb

from journal.store.lmdb.filesystem import check_length

DATA = "data.mdb"
LOCK = "lock.mdb"


@contextmanager
def opened(directory: Path, *, max_dbs: int, map_size_bytes: int) -> Iterator[lmdb.Environment]:
    """Yield an environment, for reading only.

    Raises:
        FileNotFoundError: it is not there. JournalCorrupt: its file is cut. lmdb.Error: it cannot be opened.
    """
    check_length(directory / DATA)
    env = lmdb.open(
        str(directory), map_size=map_size_bytes, max_dbs=max_dbs, readonly=True, create=False, lib_version=0,
        lock=os.access(directory / LOCK, os.R_OK | os.W_OK),
    )  # fmt: skip
    try:
        yield env
    finally:
        env.close()
