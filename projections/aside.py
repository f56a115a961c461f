"""Projections in a place of their own: to read the past, to check the present, to serve where nothing can be written.

The place is a temporary directory that is deleted as soon as its environment is open. The files live on while they are
open and no longer, so a killed process leaves none behind; no other process ever sees them.

But they hold what any generation holds, and an erasure must not be called complete while they do. So each of them holds
a shared lock on the scope's directory of the store; who reports an erasure tries for the exclusive one.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Self

from journal import patience
from journal.errors import InvalidSchema
from journal.scope import Scope
from projections import environment
from projections.generation import Generation
from projections.locks import InodeLock
from projections.port import META, Projection
from projections.snapshot import Snapshot, State, advance
from projections.tail import JournalSource, Tail

NUMBER = "aside"
_HOLD_SECONDS = 10.0


def private_generation(
    projection: Projection, scope: Scope, floor: int, projections_path: Path | None,
) -> Generation:  # fmt: skip
    """Return an empty generation that only this process knows.

    ``projections_path`` is the store's ``projections`` directory; None where the journal is not one that is served.
    """
    directory = Path(tempfile.mkdtemp(prefix="engram-projection-"))
    try:
        opened = environment.create(directory, (META, *projection.databases))
        opened.give_up()
        opened.hold_too(_hold(projections_path, scope))
        return Generation.begin(projection, scope, NUMBER, opened, floor)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _hold(projections_path: Path | None, scope: Scope) -> InodeLock | None:
    """Return a shared lock on the scope's directory, or None where there is none to be had."""
    if projections_path is None:
        return None
    directory = projections_path / scope.tag.hex()
    with suppress(OSError):
        directory.mkdir(mode=0o700, exist_ok=True)
    try:
        lock = InodeLock(directory)
    except OSError:
        return None
    if not lock.acquire(patience.until(_HOLD_SECONDS), shared=True):  # the exclusive one is held for an instant only
        lock.close()
        raise patience.given_up("another process looks who has projections in a place of its own")
    return lock


def is_held_aside(projections_path: Path, scope: Scope) -> bool:
    """Whether any process has projections of a scope in a place of its own."""
    try:
        lock = InodeLock(projections_path / scope.tag.hex())
    except OSError:
        return False
    try:
        return not lock.try_acquire()
    finally:
        lock.close()


class Aside:
    """All projections of a scope, folded from the journal's first event, apart from those that are served."""

    def __init__(
        self, journal: JournalSource, scope: Scope, projections: Sequence[Projection],
        projections_path: Path | None = None,
    ) -> None:  # fmt: skip
        """Begin with nothing folded; ``projections_path`` as in ``private_generation``."""
        self._journal = journal
        self._scope = scope
        self._tail = Tail(journal, scope)
        head = journal.store.head(scope)
        with ExitStack() as stack:
            self._generations = []
            for projection in projections:
                generation = private_generation(projection, scope, head.cursor, projections_path)
                stack.callback(generation.release)
                self._generations.append(generation)
            self._stack = stack.pop_all()

    def fold_to(self, cursor: int, before_page: Callable[[int], None] = lambda _: None) -> None:
        """Fold up to a cursor; ``before_page`` is told how far it is, and may raise to end it.

        Raises:
            InvalidSchema: the journal has no such cursor. BlobMissing, JournalCorrupt: the journal is broken.
        """
        if cursor > self._journal.store.head(self._scope).cursor:
            raise InvalidSchema("the journal does not reach so far")
        with ExitStack() as claims:
            for generation in self._generations:
                generation.environment.claim(None)
                claims.callback(generation.environment.unclaim)
            advance(self._tail, self._generations, cursor, before_page)

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """Yield what was folded, as ``Projections.snapshot`` yields the present."""
        with ExitStack() as stack:
            states, positions = [], []
            for generation in self._generations:
                txn = stack.enter_context(generation.environment.reading())
                positions.append(generation.meta(txn))
                states.append(State(generation.projection, generation.number, txn, generation.tables))
            yield Snapshot(self._scope, positions[0].cursor, positions[0].head_hash, states)

    def close(self) -> None:
        """Throw everything away."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def as_of(
    journal: JournalSource, scope: Scope, projections: Sequence[Projection], cursor: int,
    projections_path: Path | None = None,
) -> Iterator[Snapshot]:  # fmt: skip
    """Yield a scope's projections as they stood at a cursor of its journal: what was known then.

    What was erased since cannot be opened any more; ``CurrentReader.erased`` names it. ``projections_path`` is the
    store's ``projections`` directory, through which an erasure elsewhere waits for this.

    Raises:
        InvalidSchema: the journal has no such cursor. BlobMissing, JournalCorrupt: the journal is broken.
    """
    with Aside(journal, scope, projections, projections_path) as aside:
        aside.fold_to(cursor)
        with aside.snapshot() as snapshot:
            yield snapshot
