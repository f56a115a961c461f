"""Figures of a store as a whole: sizes, the map, the readers, who has it open."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from journal import layout
from journal.log import Journal
from journal.store.lmdb.engine import LmdbStore
from tools.cli.checkup import processes, reading


def size_bytes(path: Path) -> int:
    """Return how many bytes the files under a path take on the disk; what is removed meanwhile counts nothing."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):
                total += (Path(folder) / name).lstat().st_blocks * 512
    return total


def store_figures(journal: Journal) -> dict[str, Any]:
    """Return a store's figures as one JSON object."""
    assert isinstance(journal.store, LmdbStore)
    store, figures = journal.path, journal.store.environment.figures()
    used_bytes = (store / layout.JOURNAL / reading.DATA).stat().st_size
    marks = processes.marks(store)
    return {
        "path": str(store),
        "format": layout.FORMAT,
        "journal_bytes": size_bytes(store / layout.JOURNAL),
        "keys_bytes": size_bytes(store / layout.KEYS),
        "projections_bytes": size_bytes(store / layout.PROJECTIONS),
        "map": {
            "used_bytes": used_bytes,
            "size_bytes": figures["map_size"],
            "used_share": used_bytes / figures["map_size"],
        },
        "readers": {"used": figures["num_readers"], "max": figures["max_readers"]},
        "open": {
            "processes": len(marks.alive),
            "pids": processes.open_in(store),
            "unclean": len(marks.dead),
        },
    }
