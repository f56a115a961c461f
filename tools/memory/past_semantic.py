"""The semantic channel over a past: answers that were given then are ranked again, with the embeddings of today."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from journal import layout
from tools.memory.semantic import Semantic

if TYPE_CHECKING:
    from journal.log import Journal
    from projections.catchup import Projections
    from projections.snapshot import Snapshot
    from projections.vector.index import VectorIndex
    from projections.vector.providers.port import Provider


class PastSemantic(Semantic):
    """The semantic channel over a past: the embeddings of today, of what was in force then."""

    def __init__(self, journal: Journal, today: Semantic) -> None:
        """Take the journal of today, where embeddings are opened, and the channel whose provider answers."""
        super().__init__(journal, today._settings)  # noqa: SLF001 - of its own kind
        self._today = today
        self._indexes: dict[bytes, VectorIndex] = {}

    @property
    def provider(self) -> Provider:
        """The provider of today."""
        return self._today.provider

    def catch_up(self, projections: Projections, until: float) -> None:
        """Do nothing: what is looked at, the past has."""

    def _index(self, projections: Projections, snapshot: Snapshot) -> VectorIndex:
        from projections.vector.folders import Folders
        from projections.vector.index import VectorIndex
        from projections.vector.opened import Embeddings

        scope, provider = snapshot.scope, self.provider
        if scope.tag not in self._indexes:
            folders = Folders(self._journal.path / layout.PROJECTIONS, scope)
            embeddings = Embeddings(self._journal, scope, folders, provider.digest, provider.dimension)
            self._indexes[scope.tag] = VectorIndex(
                embeddings, provider.dimension, partial(self._today.plain_mean, scope)
            )
        return self._indexes[scope.tag]

    def close(self) -> None:
        """Leave the provider to today."""
