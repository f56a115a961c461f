"""The projection port: a projection is a pure fold of one scope's journal into an environment of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import lmdb

from journal.events import Header


@dataclass(frozen=True, slots=True)
class FoldEvent:
    """One event as a fold sees it.

    ``payload`` opens the effective payload of the event's subject, or gives None where its key was lawfully destroyed.
    A fold of states alone never calls it.
    """

    header: Header
    payload: Callable[[], dict[str, Any] | None]


class Projection(Protocol):
    """A fold. It never writes to the journal, never calls a model, and has no side effect beyond its environment."""

    name: str
    version: int
    databases: tuple[bytes, ...]  # the named databases that the generation opens for it

    def fold(self, txn: lmdb.Transaction, databases: dict[bytes, Any], events: Sequence[FoldEvent]) -> None:
        """Apply events, in cursor order, inside the given write transaction."""
        ...

    def content_digest(self, txn: lmdb.Transaction, databases: dict[bytes, Any]) -> bytes:
        """Return the BLAKE3 of the logical content: independent of batches, segments and nonces."""
        ...
