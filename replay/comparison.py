"""Each live projection beside a fresh fold of the journal, and nothing written: neither journal nor projection.

``replay.rebuild.verify`` first brings the live projections to the head, which writes. The audit may not: what a live
projection lacks is laid over it in memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lmdb
import msgspec

from journal import limits
from journal.errors import BlobMissing, CursorGap, JournalCorrupt, ProjectionStale, RegistryVersionUnavailable
from projections.aside import Aside
from projections.environment import Altered, Unusable, is_broken
from projections.generations import Generations
from projections.overlay import Changes, Overlay
from projections.snapshot import projection_digest
from projections.tail import Tail

if TYPE_CHECKING:
    from journal.scope import Scope
    from projections.generation import Generation, Meta
    from projections.port import Projection, Reading
    from projections.tail import JournalSource

Make = Callable[["JournalSource", "Scope"], Sequence["Projection"]]
_WAIT_SECONDS = 5.0
_ATTEMPTS = 3
_BROKEN = (BlobMissing, CursorGap, JournalCorrupt, RegistryVersionUnavailable)


@dataclass(frozen=True, slots=True)
class Compared:
    """A projection's digest as it is served, and as the journal gives it.

    ``live_digest`` is None where nothing is in force that could be served as it stands: whoever reads next rebuilds it.
    ``ok`` is then about the fold alone. ``is_compared`` is False where the journal cannot be replayed whole: nothing
    is known of a difference then, and the audit's findings say what is broken.
    """

    name: str
    scope: Scope
    ok: bool
    live_digest: str | None
    replayed_digest: str | None
    is_compared: bool = True

    def as_json(self) -> dict[str, Any]:
        """Return the comparison as the command line prints it."""
        return {
            "name": self.name,
            "tenant_id": self.scope.tenant_id,
            "workspace_id": self.scope.workspace_id,
            "ok": self.ok,
            "live_digest": self.live_digest,
            "replayed_digest": self.replayed_digest,
            **({} if self.is_compared else {"compared": False}),
        }


def compare(
    journal: JournalSource, scope: Scope, path: Path, make: Make, before_page: Callable[[int], None] = lambda _: None
) -> list[Compared]:
    """Compare a scope's projections, as they stand in the store's ``projections`` directory, with a fresh fold.

    ``before_page`` is told the cursor that the fold has reached, before each page.
    """
    found: list[Compared] = []
    try:
        for _ in range(_ATTEMPTS):
            upto, found = _compared(journal, scope, path, make, before_page)
            if all(one.ok for one in found) or journal.store.head(scope).cursor == upto:
                break  # a forgetting after the cursor closes payloads to the fresh fold that the live one had opened
    except _BROKEN:  # the journal cannot be folded; its own audit says where it is broken
        return _unfoldable(journal, scope, make)
    return found


def _compared(
    journal: JournalSource, scope: Scope, path: Path, make: Make, before_page: Callable[[int], None]
) -> tuple[int, list[Compared]]:
    """Return the cursor of a comparison, and what it gave."""
    live = make(journal, scope)
    with Aside(journal, scope, make(journal, scope)) as aside:
        aside.fold_to(journal.store.head(scope).cursor, before_page)
        with ExitStack() as stack:
            opened = [_Live(journal, scope, path, projection, stack) for projection in live]
            upto = max([journal.store.head(scope).cursor, *(one.cursor for one in opened)])
            aside.fold_to(upto, before_page)
            found = [one.digest(upto) for one in opened]
        with aside.snapshot() as replayed:
            digests = [replayed.digest(projection.name) for projection in live]
    return upto, [
        Compared(projection.name, scope, not broken and digest in (None, replayed), digest, replayed)
        for projection, (digest, broken), replayed in zip(live, found, digests, strict=True)
    ]


def _unfoldable(journal: JournalSource, scope: Scope, make: Make) -> list[Compared]:
    try:
        projections = make(journal, scope)
    except _BROKEN:  # not even their keys are there
        return []
    return [
        Compared(each.name, scope, ok=False, live_digest=None, replayed_digest=None, is_compared=False)
        for each in projections
    ]


class _Live:
    """A projection's generation in force, in one read transaction."""

    def __init__(
        self, journal: JournalSource, scope: Scope, path: Path, projection: Projection, stack: ExitStack
    ) -> None:
        self._journal = journal
        self._scope = scope
        self._generation: Generation | None = None
        self._txn: Reading | None = None
        self._meta: Meta | None = None
        self._broken = False
        try:
            self._open(Generations(path, projection, scope), stack)
        except Altered:
            self._broken = True  # whoever reads next builds it anew; that it was changed is a finding all the same
        except (Unusable, ProjectionStale, OSError):
            self._meta = None  # not served as it stands: of another version, unclean, a copy, or not to be opened here
        except lmdb.Error as error:
            self._meta = None
            self._broken = is_broken(error)

    def _open(self, generations: Generations, stack: ExitStack) -> None:

        generation = generations.open(time.monotonic() + _WAIT_SECONDS)
        if generation is None:
            return
        stack.callback(generation.release)
        txn = stack.enter_context(generation.environment.reading())
        meta = generation.meta(txn)
        generation.check_against(meta, self._journal.store.head(self._scope), self._journal.store)
        self._generation, self._txn, self._meta = generation, txn, meta

    @property
    def cursor(self) -> int:
        """The cursor that it shows, 0 where it is not served."""
        return 0 if self._meta is None else self._meta.cursor

    def digest(self, upto: int) -> tuple[str | None, bool]:
        """Return its digest at a cursor, None where it is not served, and whether its content cannot be read."""
        if self._meta is None or self._generation is None or self._txn is None:
            return None, self._broken
        if upto - self._meta.cursor > limits.OVERLAY_MAX_EVENTS:
            return None, False  # so far behind, it is not served before it was brought near
        try:
            shown = self._shown(self._generation, self._txn, self._meta, upto)
            projection = self._generation.projection
            content = projection.content_digest(shown, self._generation.tables)
        except Unusable:
            return None, False  # invalidated since, or of a journal that was rolled back
        except lmdb.Error as error:
            return None, is_broken(error)
        return projection_digest(self._scope, projection, upto, content), False

    def _shown(self, generation: Generation, txn: Reading, meta: Meta, upto: int) -> Reading:
        if meta.cursor == upto:
            return txn
        tail = Tail(self._journal, self._scope)
        overlay = Overlay(txn, generation.tables, Changes(None, meta.cursor, meta.head_hash))
        while meta.cursor < upto:
            page = tail.page(meta.cursor)
            events = generation.continuing(meta, page, upto)
            generation.projection.fold(overlay, generation.tables, events)
            cursor = events[-1].header.cursor
            meta = msgspec.structs.replace(meta, cursor=cursor, head_hash=page.hash_before(cursor + 1))
        return overlay
