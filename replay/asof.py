"""The journal as it stood at a cursor: states of then, over the events and keys of now.

What was erased since cannot be opened any more, whatever its state was then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import msgspec

from journal import authority
from journal.errors import InvalidSchema, JournalCorrupt, StoreUnavailable
from journal.events import EventType
from journal.frames import GENESIS, frame_hash
from journal.indexes import authority_rows
from journal.log import Journal
from journal.store.port import Head
from replay.events import pages
from replay.legality import States

if TYPE_CHECKING:
    from journal.events import Header
    from journal.scope import Scope
    from journal.store.port import Committed, Decide, Part, Store, Subject, View


@dataclass(slots=True)
class HeldClock:
    """A clock that stands still until it is set."""

    epoch_milliseconds: int

    def now(self) -> int:
        """Return epoch milliseconds."""
        return self.epoch_milliseconds


class PastJournal(Journal):
    """One scope of a journal as it stood at a cursor, for reading, at an instant of then."""

    def __init__(self, journal: Journal, scope: Scope, cursor: int, now: int) -> None:
        """Fold the states up to a cursor; ``now`` is the instant, in epoch milliseconds.

        Raises:
            InvalidSchema: the journal does not reach so far. CursorGap, JournalCorrupt: it is broken.
        """
        self._held = HeldClock(now)
        self._past = _Past(journal.store, scope)
        store = cast("Store", _PastStore(journal.store, scope, self._past))
        super().__init__(store, journal.keyring, self._held, journal.randomness, journal.path)
        self._present = journal
        self._past.advance(cursor)

    def advance(self, cursor: int, now: int) -> None:
        """Go on to a later cursor, or the same one, and an instant; what was read before is of no more use.

        Raises:
            InvalidSchema: the journal does not reach so far, or the cursor lies before. CursorGap, JournalCorrupt: it
            is broken.
        """
        self._past.advance(cursor)
        self._held.epoch_milliseconds = now

    def content(self, view: View, header: Header) -> Any | None:
        """Return an event's content, or None where it was lawfully erased by now."""
        del view
        with self._present.store.view(header.scope) as present:
            return self._present.content(present, header)

    def admit(self, scope: Scope, deadline: float | None = None) -> None:
        """Do nothing: the past is only read."""

    def commit(
        self, scope: Scope, decide: Decide, *, deadline: float | None = None, leading: bool = False,
        prepare: Callable[[], None] | None = None,
    ) -> list[Committed]:  # fmt: skip
        """Refuse: the past is only read."""
        raise StoreUnavailable("the past cannot be written")

    def close(self) -> None:
        """Do nothing: the journal is the caller's."""


class _Past:
    """A head of then, the states that led to it, and which revision of a message was its newest."""

    def __init__(self, store: Store, scope: Scope) -> None:
        self._store = store
        self._scope = scope
        self.head = Head(0, GENESIS, 0, 0)
        self.states = States()
        self.revisions: dict[str, int] = {}  # message id -> cursor of its newest revision
        self.authority: dict[str, Subject] = {}  # the rows of authority, which are few

    def advance(self, cursor: int) -> None:
        if not self.head.cursor <= cursor <= self._store.head(self._scope).cursor:
            raise InvalidSchema("the journal does not reach so far")
        for page in pages(self._store, self._scope, after=self.head.cursor, to=cursor):
            for event in page:
                self.states.apply(event.header)
                if event.header.type == EventType.MESSAGE_REVISION and event.header.subject is not None:
                    self.revisions[event.header.subject] = event.header.cursor
                if event.header.type in authority.EVENTS:
                    self.authority.update(authority_rows(event.header, self.authority.get))
            last = page[-1]
            self.head = Head(last.header.cursor, frame_hash(last.frame), last.header.recorded_at, 0)


class _PastStore:
    """The reading verbs of a store, at a cursor of one scope."""

    def __init__(self, store: Store, scope: Scope, past: _Past) -> None:
        self._store = store
        self._scope = scope
        self._past = past

    def head(self, scope: Scope) -> Head:
        self._check(scope)
        return self._past.head

    def read(self, scope: Scope, after: int, limit: int) -> list[Committed]:
        self._check(scope)
        return self._store.read(scope, after, min(limit, max(0, self._past.head.cursor - after)))

    def body(self, scope: Scope, cursor: int, part: Part) -> bytes | None:
        self._check(scope)
        return self._store.body(scope, cursor, part) if cursor <= self._past.head.cursor else None

    @contextmanager
    def view(self, scope: Scope) -> Iterator[View]:
        self._check(scope)
        with self._store.view(scope) as view:
            yield cast("View", _PastView(view, self._past))

    def _check(self, scope: Scope) -> None:
        if scope != self._scope:
            raise JournalCorrupt("the past of another scope was not asked for")


class _PastView:
    """What reading asks of a view (``journal.store.port.View``), at a cursor."""

    def __init__(self, view: View, past: _Past) -> None:
        self._view = view
        self._past = past

    @property
    def head(self) -> Head:
        return self._past.head

    def event(self, cursor: int) -> Committed | None:
        return self._view.event(cursor) if cursor <= self._past.head.cursor else None

    def body(self, cursor: int, part: Part) -> bytes | None:
        return self._view.body(cursor, part) if cursor <= self._past.head.cursor else None

    def subject(self, subject_id: str) -> Subject | None:
        """Return a subject with the state of then; what was decided later is not decided yet."""
        if subject_id in authority.SUBJECTS or subject_id.startswith(authority.GRANT_PREFIX):
            return self._past.authority.get(subject_id)
        row, last = self._view.subject(subject_id), self._past.head.cursor
        if row is None or row.born > last:
            return None
        decided = row.decided if row.decided <= last else self._past.revisions.get(subject_id, 0)
        return msgspec.structs.replace(
            row,
            state=self._past.states.of(subject_id),
            decided=decided,
            changed=min(row.changed, last),
            record_id=row.record_id if decided else None,
        )

    def candidate_of(self, record_id: str) -> str | None:
        candidate_id = self._view.candidate_of(record_id)
        row = None if candidate_id is None else self.subject(candidate_id)
        return None if row is None or row.record_id is None else candidate_id
