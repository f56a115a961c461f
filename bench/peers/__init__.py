"""What the engine is measured beside. Each peer is given terms, so that all rank the same tokens.

A peer's package is no part of the project and stands in a folder of its own (``make bench`` installs it there).
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Final, Protocol

PLACE: Final = Path(__file__).resolve().parents[2] / ".venv" / "bench"
if str(PLACE) not in sys.path:
    sys.path.append(str(PLACE))  # last: what the project depends on itself comes from its own environment


class Peer(Protocol):
    """An index over documents that are lists of terms; a document's id is its position."""

    name: str

    def build(self, documents: list[list[str]]) -> None:
        """Index the documents, whose ids are 0 and up."""

    def search(self, terms: list[str], k: int) -> list[int]:
        """Return the ids of the best documents that hold any of the terms, best first."""

    def size_bytes(self) -> int | None:
        """Return what the index takes, on disk or, where it has no files, in memory; None where nobody can say."""

    def close(self) -> None:
        """Give everything back."""


class Growing(Peer, Protocol):
    """A peer that a document can be added to and taken from."""

    def add(self, documents: list[list[str]]) -> None:
        """Index more documents, whose ids follow on, and show them to the next search."""

    def delete(self, ids: list[int]) -> None:
        """Take documents out, and show that to the next search."""


_MODULES: Final = {
    "bm25s": ("bench.peers.bm25s_index", "Bm25s"),
    "SQLite FTS5": ("bench.peers.fts5", "Fts5"),
    "tantivy": ("bench.peers.tantivy_index", "Tantivy"),
}


def peers() -> dict[str, type[Peer] | None]:
    """Return every peer's class by its name; None for one whose package is not installed."""
    found: dict[str, type[Peer] | None] = {}
    for name, (module, class_name) in _MODULES.items():
        try:
            found[name] = getattr(importlib.import_module(module), class_name)
        except ImportError:
            found[name] = None
    return found
