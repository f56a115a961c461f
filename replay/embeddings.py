"""The embeddings of a scope as a projection's keeper sees them: how far they are, whether they agree, made and dropped.

They are a cache and no fold: what the journal has in force decides what is wanted, and only a provider makes more. For
all but the making it is enough to know what a provider's vectors are bound to (``providers.identity``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from journal import layout
from journal.errors import BlobMissing
from projections.vector.agreement import compared
from projections.vector.embedder import Embedder
from projections.vector.folders import NAME, VERSION, Folders, folder_name
from projections.vector.opened import Embeddings
from projections.vector.progress import Progress, in_force, progress, standing_of
from replay.rebuild import Verified

if TYPE_CHECKING:
    from journal.log import Journal
    from journal.scope import Scope
    from projections.catchup import Projections
    from projections.vector.providers.port import Identity, Provider

__all__ = ["NAME", "VERSION", "Embedded", "invalidate", "rebuild", "status", "verify"]

Report = Callable[[int, int], None]
"""Told how many are embedded and how many are in force, after each batch; may raise to stop."""


@dataclass(frozen=True, slots=True)
class Embedded:
    """How the embeddings of one model stand."""

    folder: str
    head_cursor: int
    digest: str | None  # None: there is nothing
    progress: Progress
    refusal: str = ""  # what the provider said, where it failed last


def status(journal: Journal, scope: Scope, model: Identity) -> Embedded:
    """Return how a model's embeddings stand at the head of the journal.

    Raises:
        EngramError: the journal or the embeddings cannot be read now.
    """
    folders, name = _folders(journal, scope), folder_name(model.digest)
    head, wanted = _wanted(journal, scope)
    embeddings = _embeddings(journal, scope, model)
    failures = embeddings.cache.failures()
    found = compared(journal, scope, embeddings, standing_of(wanted))
    embedded = set(found.cursors)
    for cursor in [cursor for cursor in wanted if cursor not in embedded and _is_lost(journal, scope, cursor)]:
        del wanted[cursor]
    digest = found.live_digest if name in folders.names() else None
    return Embedded(name, head, digest, progress(wanted, embedded, failures))


def verify(journal: Journal, scope: Scope, model: Identity) -> Verified:
    """Compare what is embedded with the journal: each one's text must be the one that counts. Raises as ``status``."""
    wanted = standing_of(_wanted(journal, scope)[1])
    found = compared(journal, scope, _embeddings(journal, scope, model), wanted)
    live, replayed = found.live_digest, found.replayed_digest
    return Verified(NAME, live == replayed, live, replayed)


def rebuild(
    journal: Journal, projections: Projections, provider: Provider, *, report: Report = lambda done, total: None
) -> Embedded:
    """Embed what is wanted, what rests too; what is embedded already stays.

    It ends when nothing is left that can be embedded now; what a provider does not make is no error here.

    Raises:
        EngramError: the journal, its projections or the embeddings cannot be read or written now. What ``report``
            raises.
    """
    scope = projections.scope
    folders = _folders(journal, scope)
    embedder = Embedder(journal, projections, folders, provider)
    left = embedder.step()
    while left:
        told = embedder.progress()
        report(told.embedded, told.total)
        left = embedder.step()
    told = embedder.progress()
    report(told.embedded, told.total)
    head = journal.store.head(scope).cursor
    return Embedded(folder_name(provider.digest), head, None, told, embedder.refusal)


def invalidate(journal: Journal, scope: Scope) -> None:
    """Throw every embedding of a scope away, of whatever model. A server makes them anew.

    Raises:
        ProjectionStale: somebody kept them open.
    """
    folders = _folders(journal, scope)
    for name in folders.names():
        folders.remove(name)


def are_kept(journal: Journal, scope: Scope) -> bool:
    """Whether any embedding of a scope may be there, of whatever model."""
    return bool(_folders(journal, scope).names())


def _folders(journal: Journal, scope: Scope) -> Folders:
    return Folders(journal.path / layout.PROJECTIONS, scope)


def _embeddings(journal: Journal, scope: Scope, model: Identity) -> Embeddings:
    return Embeddings(journal, scope, _folders(journal, scope), model.digest, model.dimension)


def _wanted(journal: Journal, scope: Scope) -> tuple[int, dict[int, int]]:
    """Return the head and what is to be embedded at it (``progress.in_force``)."""
    with journal.store.view(scope) as view:
        return view.head.cursor, in_force(view.subjects())


def _is_lost(journal: Journal, scope: Scope, cursor: int) -> bool:
    """Whether the data key of what was born at a cursor is gone, so that nobody can ever embed it."""
    with journal.store.view(scope) as view:
        event = view.event(cursor)
        if event is None:
            return True
        try:
            return journal.data_key(view, scope, event.header.key_id, "an embedding") is None
        except BlobMissing:
            return True
