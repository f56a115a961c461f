"""Mapping a generation's LMDB environment, as all of them are mapped."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lmdb

from journal import limits
from journal.store.lmdb.filesystem import reserve_lock_file


def open_lmdb(directory: Path, tables: int, *, create: bool) -> lmdb.Environment:
    """Map the environment in a directory, which is known to be whole, or is made with ``create``; lmdb.Error."""
    if create:
        reserve_lock_file(directory, limits.READERS_MAX)
    return lmdb.open(
        str(directory), map_size=limits.PROJECTION_MAP_SIZE_BYTES, max_dbs=tables, mode=0o600, create=create,
        max_readers=limits.READERS_MAX, sync=False, metasync=False, writemap=False, lib_version=0,  # the 0.9 engine
    )  # fmt: skip


def open_for_looking(directory: Path) -> lmdb.Environment:
    """Map the environment in a directory for a look at it, beside those who write; lmdb.Error."""
    return lmdb.open(
        str(directory), map_size=limits.PROJECTION_MAP_SIZE_BYTES, max_dbs=limits.PROJECTION_TABLES_MAX, create=False,
        readonly=True, max_readers=limits.READERS_MAX, lib_version=0,
    )  # fmt: skip


def open_tables(env: lmdb.Environment, names: Sequence[bytes], *, create: bool) -> dict[bytes, Any]:
    """Return the handles of an environment's tables by their names; lmdb.Error."""
    # Without a transaction of ours: the binding ends a read transaction by a reset, which drops handles opened in it.
    return {name: env.open_db(name, create=create) for name in names}
