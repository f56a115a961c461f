"""What ranks by words and meaning at one snapshot: the vector is waited for once all is done that does not need it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from projections.fusion import Asked, Fused
    from projections.lexical.surroundings import Surroundings
    from projections.meant import Meant as Explained
    from projections.vector.index import Prepared, VectorIndex
    from projections.vector.standing import Cursors, Standing
    from tools.memory.query_embedding import QueryVector


class NotEmbedded(Exception):
    """Some record in force has no embedding yet: a ranking would leave it out."""


class ByMeaning:
    """Ranks what is in force at one snapshot by words and meaning. Good while the snapshot is."""

    def __init__(
        self, index: VectorIndex, in_force: Standing, vector: QueryVector, around: Callable[..., Surroundings],
        alone: Sequence[int] | None = None, *, missing: int,
    ) -> None:  # fmt: skip
        """Take an index that is up to date, and what is in force at the snapshot.

        ``alone``: cursors of what takes part by words alone for good, None where that is no matter; ``missing``: how
        many do, if only for now.
        """
        self.alone = alone or ()
        self._is_whole = alone is not None
        self._in_force = in_force
        self.missing = missing
        self._index = index
        self._vector = vector
        self._around = around
        self._in_context: frozenset[int] = frozenset()

    def ranked(self, lexical: list[tuple[int, int]], eligible: Any, holding: Collection[int] = ()) -> Fused:
        """Return the order of what words found, best first, and of what is meant and eligible.

        ``holding``: of what words found, what holds the phrases asked for.

        While the vector is waited for, other calls may bring the index to another cursor; it is brought back.

        Raises:
            RankingUnavailable: the query's vector cannot be had. NotEmbedded: a record was forgotten meanwhile.
        """
        from projections.fusion import MEANT_DOCUMENTS, REACH, Asked, fused

        with ExitStack() as kept:

            def asked(early: Cursors) -> Asked:
                index, prepared = self._index, self._prepared(MEANT_DOCUMENTS, eligible, early)
                vector = self._vector(None if prepared is None else partial(index.read_over, prepared))
                if prepared is not None:
                    index.begin(vector, prepared, aside=False)
                missing = kept.enter_context(index.at(self._in_force))
                if self._is_whole and missing != self.missing:
                    raise NotEmbedded
                similar = index.search(vector, MEANT_DOCUMENTS, eligible, prepared)
                return Asked(similar, index.like(vector, early, prepared), partial(index.similarities, vector))

            ranked = fused(lexical, asked, lambda cursors: self._around(cursors, REACH), holding)
        self._in_context = ranked.in_context
        return ranked

    def _prepared(self, k: int, eligible: Any, early: Cursors) -> Prepared | None:
        """Return what can be done without the vector; the thread that makes it goes on from there."""
        prepared = self._index.prepared(self._in_force, k, eligible, early)
        if prepared is None or self._vector.then(partial(self._index.begin, prepared=prepared, aside=True)):
            return prepared
        return prepared._replace(scans=None)  # the vector is there: nobody will begin it

    def embedded(self, cursors: Sequence[int]) -> frozenset[int]:
        """Return those that have an embedding: the similarity of the others counts as 0, and is not known."""
        with self._index.at(self._in_force):
            return self._index.embedded(cursors)

    def explain(self, cursor: int) -> Explained:
        """Return what one document of the last ranking's window means to the question."""
        from projections.fusion import REACH
        from projections.meant import explained

        similarities = partial(self._index.similarities, self._vector())
        with self._index.at(self._in_force):
            return explained(self._around([cursor], REACH), similarities, in_context=cursor in self._in_context)
