"""Catch-up on read: a query first brings the projections of its scope to the journal's head.

    behind, and the write claim is free     the tail is folded into the generation, page by page
    behind, and another process writes      the tail is folded in memory over what is persisted
    far behind, and another process writes  waited for; if that process has stopped, folded in a place of our own
    the deadline passed before that         PROJECTION_STALE, never an old answer

Every projection has a generation of its own, so their read transactions may show different cursors; those that lag are
brought to the furthest in memory. A generation that does not continue the journal is taken out of force and built anew.
So is one over which an error comes up that is none of the contract's: LMDB protects no byte, and a changed one makes
of a row whatever it makes. But only now and then: if it is the program that is wrong, a rebuild does not help.
"""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import lmdb
import msgspec

from journal import limits
from journal.errors import ProjectionStale, StoreUnavailable
from journal.foreign import UNREADABLE
from journal.scope import Scope
from journal.store.port import Head
from journal.systemfaults import SYSTEM_FAULTS, told
from projections.environment import Unusable, is_broken
from projections.generation import Generation, Meta
from projections.generations import Generations
from projections.member import Member
from projections.overlay import Changes, Overlay
from projections.port import Projection, Reading
from projections.snapshot import Condemned, Snapshot, State, advance, blaming, next_step, projection_digest
from projections.tail import JournalSource, Tail

_ATTEMPTS = 4
_PAUSE_SECONDS = 0.005

_STRANGE = (
    LookupError, ValueError, TypeError, ArithmeticError, AssertionError, MemoryError, struct.error, *UNREADABLE,
)  # fmt: skip
"""What reading bytes can raise that are not those that were written."""

Make = Callable[[JournalSource, Scope], Sequence[Projection]]
"""Makes a scope's projections, with their keys."""


class Projections:
    """The projections of one scope, as this process reads them. Safe for several threads."""

    def __init__(self, journal: JournalSource, scope: Scope, path: Path, make: Make) -> None:
        """Take the journal, a scope of it, and the store's ``projections`` directory; nothing is opened yet."""
        self.journal = journal
        self.scope = scope
        self.path = path
        self.make = make
        self._members = [
            Member(projection, Generations(path, projection, scope)) for projection in make(journal, scope)
        ]  # fmt: skip
        self._mutex = threading.Lock()
        self._users_mutex = threading.Lock()
        self._doubted_until = 0.0

    @property
    def names(self) -> list[str]:
        """The projections' names."""
        return [member.projection.name for member in self._members]

    def generations(self, name: str) -> Generations:
        """Return a projection's generations on disk."""
        return next(member.generations for member in self._members if member.projection.name == name)

    @contextmanager
    def snapshot(self, deadline: float | None = None, names: Collection[str] | None = None) -> Iterator[Snapshot]:
        """Yield projections at one cursor, which is the journal's head when asked or later.

        ``names`` are those that are wanted, None all: the others are neither opened nor brought forward. ``deadline``
        is in ``time.monotonic`` seconds, None waits for ever. Leave the ``with`` soon: a reader that stays makes the
        environments grow.

        Raises:
            ProjectionStale: they could not be brought there by the deadline.
            StoreUnavailable: they cannot be read or written. BlobMissing, JournalCorrupt: the journal is broken.
        """
        wanted = [member for member in self._members if names is None or member.projection.name in names]
        with self._exclusive(deadline):
            stack, snapshot, generations = self._begin(wanted, deadline)
        with stack:
            try:
                yield snapshot
            except (lmdb.Error, Unusable) as error:
                if isinstance(error, lmdb.Error) and not is_broken(error):
                    raise told(error) from error
                self._condemn(generations, deadline)
                raise ProjectionStale("a projection cannot be read and will be rebuilt") from error
            except _STRANGE as error:
                if not self._may_doubt():
                    raise
                self._condemn(generations, deadline)
                raise ProjectionStale(f"a projection is doubted, and rebuilt: {type(error).__name__}") from error

    def _condemn(self, generations: Collection[Generation], deadline: float | None) -> None:
        for member in self._members:
            if member.shared in generations:
                member.generations.condemn(member.shared, deadline)
            elif member.private in generations:
                member.drop_private()

    def _may_doubt(self) -> bool:
        """Whether an error that is none of the contract's is laid on the projections this time."""
        now = time.monotonic()
        if now < self._doubted_until:
            return False
        self._doubted_until = now + limits.PROJECTION_DOUBT_SECONDS
        return True

    @contextmanager
    def _exclusive(self, deadline: float | None) -> Iterator[None]:
        seconds = -1.0 if deadline is None else max(0.0, deadline - time.monotonic())
        if not self._mutex.acquire(timeout=seconds):
            raise ProjectionStale("another call of this process is still catching up")
        try:
            yield
        finally:
            self._mutex.release()

    def _begin(self, members: Sequence[Member], deadline: float | None) -> tuple[ExitStack, Snapshot, list[Generation]]:
        """Open a snapshot, rebuilding what must not be served."""
        for _ in range(_ATTEMPTS):
            try:
                return self._at_head(members, deadline)
            except Condemned as condemned:
                self._replace(condemned.generation, deadline)
            except SYSTEM_FAULTS as error:
                if isinstance(error, lmdb.Error) and is_broken(error):
                    raise ProjectionStale("a projection cannot be read") from error  # it is nothing of the journal's
                raise told(error) from error
            except _STRANGE:
                if not self._may_doubt():
                    raise
                opened = [each for member in members for each in (member.private, member.shared) if each is not None]
                for generation in opened:
                    self._replace(generation, deadline)
        raise ProjectionStale("the projections keep being taken out of force")

    def _at_head(
        self, members: Sequence[Member], deadline: float | None,
    ) -> tuple[ExitStack, Snapshot, list[Generation]]:  # fmt: skip
        head = self.journal.store.head(self.scope)
        for member in members:
            member.open(head.cursor, deadline)
        tail = Tail(self.journal, self.scope)
        found = None
        if any(member.shown >= head.cursor for member in members):
            found = self._read(members, tail, head, deadline, in_memory=False)
            if found is None:
                head = self.journal.store.head(self.scope)  # no projection is ahead of it
        while found is None:
            self._catch_up(members, tail, head, deadline)
            found = self._read(members, tail, head, deadline, in_memory=True)
            if found is None:
                head = self.journal.store.head(self.scope)
        return found

    def _replace(self, generation: Generation, deadline: float | None) -> None:
        for member in self._members:
            if member.private is generation:
                member.close()
            elif member.shared is generation:
                member.generations.condemn(generation, deadline)
                member.let_go()

    # --- folding ---------------------------------------------------------------------------------

    @staticmethod
    def _catch_up(members: Sequence[Member], tail: Tail, head: Head, deadline: float | None) -> None:
        """Bring every one of them so near the head that the rest can be folded in memory."""
        while True:
            with ExitStack() as claims:
                mine = [member.generation for member in members if _claim(member.generation, claims)]
                try:
                    reached, refused = advance(tail, mine, head.cursor, lambda _: check_deadline(deadline)), None
                except StoreUnavailable as error:  # the disk is full, say: a read needs no room, and folds in memory
                    reached, refused = {}, error
            far = False
            for member in members:
                generation = member.generation
                with blaming(generation):
                    cursor = reached[generation] if generation in reached else generation.position().cursor
                if head.cursor - cursor > limits.OVERLAY_MAX_EVENTS:
                    far = True
                    member.notice_stuck(cursor, head.cursor)
            if not far:
                return
            if refused is not None:
                raise refused
            check_deadline(deadline)
            time.sleep(_PAUSE_SECONDS)

    def _read(
        self, members: Sequence[Member], tail: Tail, head: Head, deadline: float | None, *, in_memory: bool,
    ) -> tuple[ExitStack, Snapshot, list[Generation]] | None:  # fmt: skip
        """Begin read transactions and bring them to one cursor; None where that needs more folding than is allowed."""
        with ExitStack() as stack:
            opened: list[tuple[Member, Generation, lmdb.Transaction[memoryview], Meta]] = []
            for member in members:
                generation = member.generation
                generation.retain()
                stack.callback(generation.release)
                with blaming(generation):
                    txn = stack.enter_context(generation.environment.reading())
                    meta = generation.meta(txn)
                    generation.check_against(meta, head, self.journal.store)
                opened.append((member, generation, txn, meta))
                member.shown = meta.cursor
            cursor = max(head.cursor, *(meta.cursor for *_, meta in opened))
            lag = max(cursor - meta.cursor for *_, meta in opened)
            if lag > (limits.OVERLAY_MAX_EVENTS if in_memory else 0):
                return None
            head_hash = next((meta.head_hash for *_, meta in opened if meta.cursor == cursor), head.hash)
            states = []
            for member, generation, txn, meta in opened:
                shown: Reading = txn
                if meta.cursor < cursor:
                    with blaming(generation):
                        changes = self._folded(member, generation, txn, meta, tail, cursor, deadline)
                    self._count_user(changes, 1)
                    stack.callback(self._count_user, changes, -1)
                    shown = Overlay(txn, generation.tables, changes)
                states.append(State(member.projection, generation.number, shown, generation.tables))
            snapshot = Snapshot(self.scope, cursor, head_hash, states)
            return stack.pop_all(), snapshot, [generation for _, generation, *_ in opened]

    def _folded(
        self, member: Member, generation: Generation, txn: lmdb.Transaction[memoryview], meta: Meta, tail: Tail,
        upto: int, deadline: float | None,
    ) -> Changes:  # fmt: skip
        """Fold what is missing up to a cursor in memory, going on from what the last snapshot folded there."""
        base = (generation.environment, txn.id())
        changes, member.changes = member.changes, None  # a fold that raises leaves nothing half done behind
        if changes is None or changes.base != base or changes.cursor > upto:
            changes = Changes(base, meta.cursor, meta.head_hash)
        elif changes.cursor < upto and changes.users:
            changes = changes.copy()
        overlay = Overlay(txn, generation.tables, changes)
        step = limits.FOLD_STEP_EVENTS
        while changes.cursor < upto:
            check_deadline(deadline)
            began = time.monotonic()
            page = tail.page(changes.cursor)
            here = msgspec.structs.replace(meta, cursor=changes.cursor, head_hash=changes.head_hash)
            events = generation.continuing(here, page, min(upto, changes.cursor + step))
            member.projection.fold(overlay, generation.tables, events)
            changes.cursor = events[-1].header.cursor
            changes.head_hash = page.hash_before(changes.cursor + 1)
            step = next_step(step, time.monotonic() - began, tail.page_events)
        changes.settle()
        member.changes = changes
        return changes

    def _count_user(self, changes: Changes, by: int) -> None:
        with self._users_mutex:
            changes.users += by

    # --- upkeep ----------------------------------------------------------------------------------

    def statuses(self) -> list[dict[str, Any]]:
        """Return where each projection stands on disk; nothing is folded or made.

        Each is {name, tenant_id, workspace_id, version, cursor, head_cursor, digest, state}; the state is ``current``,
        ``behind``, ``absent`` or ``unusable``, the last two without a digest.
        """
        head = self.journal.store.head(self.scope).cursor
        return [_status(member, head) for member in self._members]

    def refresh(self) -> None:
        """Let go of generations that are no longer in force or that an erasure waits for, and remove what nobody has.

        A server calls it now and then: one that nobody asks would otherwise keep an erasure pending.
        """
        with self._exclusive(None):
            for member in self._members:
                if member.shared is not None and not member.generations.is_current(member.shared):
                    member.let_go()
                if member.private is not None and self._newest_forgetting() > member.private.floor:
                    member.drop_private()
                with suppress(ProjectionStale):
                    member.generations.sweep(time.monotonic())

    def _newest_forgetting(self) -> int:
        """Return the cursor of the newest tombstone whose erasure is not complete, 0 where there is none."""
        with self.journal.store.view(self.scope) as view:
            waiting = view.pending_erasures()
        return waiting[-1][0] if waiting else 0

    def upkeep(self) -> bool:
        """Do one piece of work that folds leave for later, such as a merge; return whether there was any.

        It takes some tenths of a second, in which others fold in memory. No answer depends on it.
        """
        with self._exclusive(None):
            try:
                return self._kept_up()
            except Condemned as condemned:
                self._replace(condemned.generation, None)
                return False

    def _kept_up(self) -> bool:
        with ExitStack() as claims:
            for member in self._members:
                work = getattr(member.projection, "upkeep", None)
                if work is None or member.shared is None or not _claim(member.shared, claims):
                    continue
                with blaming(member.shared), member.shared.writing() as txn:
                    if work(txn, member.shared.tables):
                        return True
        return False

    def close(self) -> None:
        """Release everything; open snapshots keep what they read."""
        with self._exclusive(None):
            for member in self._members:
                member.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _status(member: Member, head_cursor: int) -> dict[str, Any]:
    projection, scope = member.projection, member.generations.scope
    state, cursor, digest = "absent", 0, None
    try:
        generation = member.generations.open(None)
        if generation is not None:
            try:
                with blaming(generation), generation.environment.reading() as txn:
                    cursor = generation.meta(txn).cursor
                    content = projection.content_digest(txn, generation.tables)
                digest = projection_digest(scope, projection, cursor, content)
                state = "behind" if cursor < head_cursor else "current"
            finally:
                generation.release()
    except (Unusable, Condemned):
        state = "unusable"
    return {
        "name": projection.name, "tenant_id": scope.tenant_id, "workspace_id": scope.workspace_id,
        "version": projection.version, "cursor": cursor, "head_cursor": head_cursor, "digest": digest, "state": state,
    }  # fmt: skip


def check_deadline(deadline: float | None) -> None:
    """Do nothing until a deadline (``time.monotonic`` seconds) has passed.

    Raises:
        ProjectionStale: it has.
    """
    if deadline is not None and time.monotonic() >= deadline:
        raise ProjectionStale("the tail was not folded by the deadline")


def _claim(generation: Generation, claims: ExitStack) -> bool:
    if not generation.environment.claim(0.0):
        return False
    claims.callback(generation.environment.unclaim)
    return True
