"""Which projections a scope is served from, made with their keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from journal.scope import Scope
from projections.current import Current
from projections.lexical.projection import LexicalProjection
from projections.port import Projection
from projections.tail import JournalSource

RECORDS: Final = (Current.name, LexicalProjection.name)
"""What a search or a get of records reads."""


def make_projections(journal: JournalSource, scope: Scope) -> Sequence[Projection]:
    """Return a scope's projections (``projections.catchup.Make``)."""
    return (
        Current(journal.projection_key(scope, Current.name, Current.version)),
        LexicalProjection(journal.projection_key(scope, LexicalProjection.name, LexicalProjection.version)),
    )
