"""Which projections a scope is served from, made with their keys."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from journal.scope import Scope
from projections.current import Current
from projections.lexical.projection import LexicalProjection
from projections.messages.projection import MessagesProjection
from projections.port import Projection
from projections.profile import Profile
from projections.tags import Tags
from projections.tail import JournalSource
from projections.timeline import Timeline

RECORDS: Final = (Current.name, LexicalProjection.name)
"""What a search or a get of records reads."""
MESSAGES: Final = (Timeline.name, MessagesProjection.name, Tags.name)
"""What a search of messages reads."""
BRIEF: Final = (Timeline.name, Tags.name, Profile.name)
"""What a brief reads."""


def make_projections(journal: JournalSource, scope: Scope) -> Sequence[Projection]:
    """Return a scope's projections (``projections.catchup.Make``)."""
    kinds = (Current, LexicalProjection, Timeline, MessagesProjection, Tags, Profile)
    return [kind(journal.projection_key(scope, kind.name, kind.version)) for kind in kinds]


def make_chosen(journal: JournalSource, scope: Scope, names: Collection[str]) -> Sequence[Projection]:
    """Return those of a scope's projections that have these names, made with their keys."""
    return [projection for projection in make_projections(journal, scope) if projection.name in names]
