"""What a read sees: every projection of a scope, all at one cursor of its journal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import lmdb
from blake3 import blake3

from journal import limits
from journal.canonical import canonical_bytes
from journal.scope import Scope
from projections.environment import Unusable, is_broken
from projections.generation import Generation
from projections.port import Projection, Reading, Tables
from projections.tail import Tail

_DIGEST_CONTEXT = "engram projection digest v1"


@dataclass(frozen=True, slots=True)
class State:
    """One projection's state in a snapshot."""

    projection: Projection
    generation: str
    txn: Reading
    tables: Tables


class Snapshot:
    """All projections of a scope at one cursor. Good inside the ``with`` that gave it."""

    def __init__(self, scope: Scope, cursor: int, head_hash: bytes, states: Sequence[State]) -> None:
        self.scope = scope
        self.cursor = cursor
        self.head_hash = head_hash  # BLAKE3 of the frame at cursor
        self._states = {state.projection.name: state for state in states}
        self._readers: dict[str, Any] = {}

    @property
    def names(self) -> list[str]:
        """The projections' names."""
        return list(self._states)

    def version(self, name: str) -> int:
        """Return a projection's version."""
        return self._states[name].projection.version

    def generation(self, name: str) -> str:
        """Return the number of the generation that is read."""
        return self._states[name].generation

    def reader(self, name: str) -> Any:
        """Return what answers questions over a projection (``Projection.reader``), made when first asked for."""
        if name not in self._readers:
            state = self._states[name]
            self._readers[name] = state.projection.reader(state.txn, state.tables, self.cursor)
        return self._readers[name]

    @property
    def current(self) -> Any:
        """The reader of the projection ``current`` (``projections.current.CurrentReader``)."""
        return self.reader("current")

    @property
    def lexical(self) -> Any:
        """The reader of the projection ``lexical``."""
        return self.reader("lexical")

    def digest(self, name: str) -> str:
        """Return the digest of a projection's logical content here; it reads all of it."""
        state = self._states[name]
        content = state.projection.content_digest(state.txn, state.tables)
        return projection_digest(self.scope, state.projection, self.cursor, content)


def projection_digest(scope: Scope, projection: Projection, cursor: int, content: bytes) -> str:
    """Return ``blake3:`` and 64 hex digits over scope, projection, version, cursor and content.

    It is BLAKE3 in key derivation mode: the canonical form of what the content is, then the content's own digest.
    """
    subject = {
        "tenant_id": scope.tenant_id, "workspace_id": scope.workspace_id, "name": projection.name,
        "version": projection.version, "cursor": str(cursor),
    }  # fmt: skip
    hasher = blake3(derive_key_context=_DIGEST_CONTEXT)
    hasher.update(canonical_bytes(subject))
    hasher.update(b"\0" + content)
    return "blake3:" + hasher.hexdigest()


class Condemned(Exception):
    """A generation must not be served; the cause says why."""

    def __init__(self, generation: Generation) -> None:
        super().__init__(generation.number)
        self.generation = generation


@contextmanager
def blaming(generation: Generation) -> Iterator[None]:
    """Lay it on a generation when its content proves unusable or unreadable.

    Raises:
        Condemned: in place of Unusable, and of LMDB's errors that speak of a broken environment.
    """
    try:
        yield
    except Unusable as error:
        raise Condemned(generation) from error
    except lmdb.Error as error:
        if is_broken(error):
            raise Condemned(generation) from error
        raise


def advance(
    tail: Tail, generations: Sequence[Generation], upto: int, before_page: Callable[[int], None],
) -> dict[Generation, int]:  # fmt: skip
    """Fold pages into generations whose claims are held, in step, until each of them shows ``upto``.

    Returns the cursor that each shows then.

    ``before_page`` is told the lowest cursor before each page; what it raises ends the folding, what is folded stays.

    Raises:
        Condemned: a generation cannot be continued. EngramError: a fold or the journal failed.
    """
    cursors = {}
    for generation in generations:
        with blaming(generation):
            cursors[generation] = generation.seen().cursor  # a fold looks itself, and goes on from where it is by now
    step = limits.FOLD_STEP_EVENTS
    while cursors and (after := min(cursors.values())) < upto:
        before_page(after)
        page = tail.page(after)
        if not page.events:
            break
        began = time.monotonic()
        end = min(upto, after + step)
        with tail.opening():
            for generation, cursor in cursors.items():
                if cursor < min(page.last, end):
                    with blaming(generation):
                        cursors[generation] = generation.fold(page, end).cursor
        step = next_step(step, time.monotonic() - began, tail.page_events)
    return cursors


def next_step(step: int, seconds: float, most: int) -> int:
    """Return how many events, ``most`` at most, to fold in one go after ``step`` of them took so long.

    Events differ in size by a thousand times, and whoever waits looks at his deadline in between.
    """
    if seconds > limits.FOLD_STEP_SECONDS:
        return max(1, step // 2)
    return min(most, 2 * step)
