"""Rebuilding projections from the journal's first event, beside the generations that serve.

A rebuild fills a generation of its own and puts it in force when it has reached the head. It can be stopped and killed
at any moment: what is half built is continued by the next rebuild, or dropped where it cannot be. Folds have no side
effect, so none is ever repeated.

A compaction is a new generation for an erasure's sake. LMDB leaves deleted bytes in free pages, so a generation is
clean of what was forgotten only if it was begun after the forgetting: then either its fold opened no payload of a
terminal subject, or it was copied, row by row, from one whose fold was past it (``replay.copying``).
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import lmdb

from journal import limits
from journal.errors import ProjectionStale
from journal.log import Journal
from journal.systemfaults import faults_told
from projections.aside import Aside, is_held_aside
from projections.catchup import Projections, check_deadline
from projections.environment import Unusable, is_broken
from projections.generation import Generation
from projections.generations import BuildingBusy, Generations
from projections.remnants import deleted_but_open
from projections.snapshot import Condemned, advance, blaming
from projections.tail import Tail
from replay.ahead import tail_ahead
from replay.copying import copy_forward

Progress = Callable[[int, int], None]
"""Told the cursor reached and the head, before each page; may raise to stop."""

_ATTEMPTS = 4
_POLL_SECONDS = 0.02


def _silent(cursor: int, head: int) -> None:
    """Report no progress."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A generation that came into force."""

    name: str
    version: int
    generation: str
    cursor: int
    held: tuple[str, ...]  # replaced generations that somebody still has open


@dataclass(frozen=True, slots=True)
class Verified:
    """A projection beside a fresh fold of the journal up to the same cursor."""

    name: str
    ok: bool
    live_digest: str
    replayed_digest: str


@dataclass(frozen=True, slots=True)
class Coverage:
    """How far the projections are clean of what was forgotten up to a cursor."""

    complete: bool  # each was begun after it, and none from before is left
    coverage: list[dict[str, Any]]  # {projection, version, generation, cursor} each, for the receipt
    held: tuple[str, ...]
    """What from before it is open: "name/number" of generations, "aside" (see there), paths of what was deleted."""


@faults_told()
def rebuild(
    projections: Projections, name: str, *, progress: Progress = _silent, deadline: float | None = None,
    fresh: bool = False, wait: bool = False, copying: bool = False,
) -> Rebuilt:  # fmt: skip
    """Rebuild one projection and put it in force.

    ``fresh`` continues nothing that was half built before. With ``wait`` another process's rebuild is waited for; if it
    was begun after this call, it is taken for this one. With ``copying`` the rows of the generation in force are
    copied, where they can be, instead of folding the journal.

    Raises:
        BuildingBusy: another process is rebuilding it, and ``wait`` is off.
        ProjectionStale: the deadline passed (``time.monotonic`` seconds); what is built so far is kept.
        EngramError: the journal or a fold failed. Whatever ``progress`` raises: likewise.
    """
    generations = projections.generations(name)
    for _ in range(_ATTEMPTS):
        building = _building(projections, generations, deadline, fresh=fresh, wait=wait)
        if building is None:
            return _in_force(projections, generations, deadline)
        with ExitStack() as stack:
            stack.callback(building.release)
            stack.callback(building.environment.unclaim)
            try:
                if copying:
                    copy_forward(projections, generations, building, progress, deadline)
                _fill(projections, [building], progress, deadline)
                generations.adopt(building, deadline)
            except (Condemned, Unusable, lmdb.Error) as error:
                if isinstance(error, lmdb.Error) and not is_broken(error):
                    raise
                building.environment.give_up()
                fresh, copying = True, False
                continue
        return _in_force(projections, generations, deadline)
    raise ProjectionStale("what was built kept being taken out of force")


@faults_told()
def rebuild_all(
    projections: Projections, names: Collection[str], *, progress: Progress = _silent, deadline: float | None = None,
    wait: bool = False, ahead: Journal | None = None,
) -> list[Rebuilt]:  # fmt: skip
    """Rebuild several projections in one walk through the journal, each event opened once, and put them in force.

    They come in the order in which they are known, whatever that of ``names``: so two who rebuild wait for each other
    and never both. With ``ahead``, the journal itself, a second process takes part (``replay.ahead``).

    Raises:
        As ``rebuild``.
    """
    chosen = [name for name in projections.names if name in names]
    left: list[str] = []
    with ExitStack() as stack:
        buildings: dict[str, Generation] = {}
        for name in chosen:
            building = _building(projections, projections.generations(name), deadline, fresh=False, wait=wait)
            if building is not None:
                stack.callback(building.release)
                stack.callback(building.environment.unclaim)
                buildings[name] = building
        try:
            _fill(projections, list(buildings.values()), progress, deadline, ahead)
        except (Condemned, Unusable) as error:
            if isinstance(error, Condemned):
                error.generation.environment.give_up()
            left = list(buildings)
        else:
            left = [name for name, building in buildings.items() if not _adopted(projections, building, deadline)]
    for name in left:  # each by itself: those that were not to blame go on where they were
        rebuild(projections, name, progress=progress, deadline=deadline, wait=wait)
    return [_in_force(projections, projections.generations(name), deadline) for name in chosen]


def _adopted(projections: Projections, building: Generation, deadline: float | None) -> bool:
    """Put a filled generation in force; return whether it still was wanted."""
    try:
        projections.generations(building.projection.name).adopt(building, deadline)
    except Unusable:
        building.environment.give_up()
        return False
    return True


def _building(
    projections: Projections, generations: Generations, deadline: float | None, *, fresh: bool, wait: bool,
) -> Generation | None:  # fmt: skip
    """Return the generation to fill, claimed; None where another process put one in force that is as good."""
    wanted = projections.journal.store.head(projections.scope).cursor
    upon: str | None = None  # set once another process was seen building
    while True:
        head, in_force = projections.journal.store.head(projections.scope), generations.current()
        try:
            building = generations.build(head.cursor, deadline, fresh=fresh, upon=upon)
        except BuildingBusy:
            if not wait:
                raise
            upon = upon or in_force
            check_deadline(deadline)
            time.sleep(_POLL_SECONDS)
            continue
        if building is not None:
            return building
        if generations.floor_in_force(deadline) >= wanted:
            return None
        upon = None


def _fill(
    projections: Projections, buildings: Sequence[Generation], progress: Progress, deadline: float | None,
    ahead: Journal | None = None,
) -> None:  # fmt: skip
    """Fold until no more than a page was left to fold: the rest is for the catch-up on read."""
    if not buildings:
        return
    folded, head = _reached(buildings), projections.journal.store.head(projections.scope).cursor
    page_events = _events_a_go(head - folded)
    with ExitStack() as stack:
        tail = Tail(projections.journal, projections.scope, page_events)
        if ahead is not None:
            folds = [building.projection for building in buildings]
            tail = stack.enter_context(tail_ahead(ahead, projections.scope, folds, range(folded, head, page_events)))
        while not _fold_on(projections, tail, buildings, progress, deadline):
            pass


def _events_a_go(left: int) -> int:
    """Return how many events a rebuild takes at once of so many."""
    pages = left // (limits.REBUILD_TIMES * limits.CATCHUP_PAGE_EVENTS)
    return limits.CATCHUP_PAGE_EVENTS * min(max(pages, limits.REBUILD_PAGES), limits.REBUILD_PAGES_MAX)


def _fold_on(
    projections: Projections, tail: Tail, buildings: Sequence[Generation], progress: Progress, deadline: float | None,
) -> bool:  # fmt: skip
    """Fold up to the head as it is now; return whether no more than a page was left to fold."""
    store, scope = projections.journal.store, projections.scope
    head = store.head(scope)
    for building in buildings:
        with blaming(building):
            building.check_against(building.position(), head, store)
    is_near = head.cursor - _reached(buildings) <= limits.CATCHUP_PAGE_EVENTS

    def before_page(cursor: int) -> None:
        check_deadline(deadline)
        progress(cursor, head.cursor)

    advance(tail, buildings, head.cursor, before_page)
    if is_near:
        progress(_reached(buildings), head.cursor)
    return is_near


def _reached(buildings: Sequence[Generation]) -> int:
    """Return the cursor that all of them have reached."""
    return min(building.position().cursor for building in buildings)


def _in_force(projections: Projections, generations: Generations, deadline: float | None) -> Rebuilt:
    """Let go of what was replaced, remove it if nobody has it, and describe what is in force."""
    projections.refresh()
    held = tuple(generations.sweep(deadline))
    generation = generations.open_or_begin(projections.journal.store.head(projections.scope).cursor, deadline)
    try:
        projection, meta = generation.projection, generation.position()
        return Rebuilt(projection.name, projection.version, generation.number, meta.cursor, held)
    finally:
        generation.release()


@contextmanager
def collecting_seldom() -> Iterator[None]:
    """Let Python look for cycles of garbage seldom, while a process does nothing but rebuild.

    A fold makes none, but so many objects that a tenth of its time would go into looking.
    """
    before = gc.get_threshold()
    gc.set_threshold(limits.REBUILD_COLLECTED_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@faults_told()
def invalidate(projections: Projections, names: Iterable[str], deadline: float | None = None) -> None:
    """Take projections out of force on this disk at once; whoever opens them next rebuilds them.

    The event PROJECTION_INVALIDATED, which the caller commits first, does the same wherever else the journal is served:
    its ``related`` is the projection's name, or None for all.
    """
    for name in names:
        projections.generations(name).void(deadline)
    projections.refresh()


def sweep(projections: Projections, deadline: float | None = None) -> list[str]:
    """Remove replaced generations; return "name/number" of those that somebody still has open."""
    projections.refresh()
    return [
        f"{name}/{number}" for name in projections.names for number in projections.generations(name).sweep(deadline)
    ]  # fmt: skip


def verify(projections: Projections, *, progress: Progress = _silent, deadline: float | None = None) -> list[Verified]:
    """Compare each projection's digest with that of a fresh fold of the journal, made aside.

    Raises:
        ProjectionStale: the deadline passed. EngramError: the journal or a fold failed. What ``progress`` raises.
    """
    store, scope = projections.journal.store, projections.scope
    found: list[Verified] = []
    for _ in range(_ATTEMPTS):
        head = store.head(scope)

        def before_page(cursor: int, head_cursor: int = head.cursor) -> None:
            check_deadline(deadline)
            progress(cursor, head_cursor)

        fresh = projections.make(projections.journal, scope)
        with Aside(projections.journal, scope, fresh, projections.path) as aside:
            aside.fold_to(head.cursor, before_page)
            with projections.snapshot(deadline) as live:
                cursor = live.cursor
                live_digests = {name: live.digest(name) for name in live.names}
            aside.fold_to(cursor, before_page)
            with aside.snapshot() as replayed:
                digests = {name: replayed.digest(name) for name in replayed.names}
        found = [
            Verified(name, live_digests[name] == digests[name], live_digests[name], digests[name]) for name in digests
        ]
        if all(one.ok for one in found) or store.head(scope).cursor == cursor:
            break  # a forgetting after the cursor closes payloads to the fresh fold that the live one had opened
    return found


def compact(
    projections: Projections, *, floor: int | None = None, progress: Progress = _silent,
    deadline: float | None = None,
) -> Coverage:  # fmt: skip
    """Bring every projection to a generation that never held what was forgotten up to the cursor ``floor``.

    Those that were begun later already are left as they are, so one compaction serves every forgetting before it, and
    one that was interrupted is taken up again.

    Raises:
        As ``rebuild``; a rebuild by another process is waited for.
    """
    upto = projections.journal.store.head(projections.scope).cursor if floor is None else floor
    for name in projections.names:
        if projections.generations(name).floor_in_force(deadline) < upto:
            rebuild(projections, name, progress=progress, deadline=deadline, fresh=True, wait=True, copying=True)
    return coverage(projections, upto, deadline)


def coverage(projections: Projections, upto: int, deadline: float | None = None) -> Coverage:
    """Say how far the projections are clean of what was forgotten up to a cursor, removing what can be removed."""
    projections.refresh()
    held, receipts, begun_later = [], [], True
    for name in projections.names:
        generations = projections.generations(name)
        held += [f"{name}/{number}" for number in generations.sweep(deadline)]
        force = _in_force(projections, generations, deadline)
        begun_later = begun_later and generations.floor_in_force(deadline) >= upto
        receipts.append(
            {"projection": name, "version": force.version, "generation": force.generation, "cursor": str(force.cursor)}
        )
    if is_held_aside(projections.path, projections.scope):
        held.append("aside")
    if not held:
        held += deleted_but_open(projections.path / projections.scope.tag.hex())
    return Coverage(begun_later and not held, receipts, tuple(held))
