"""What one transaction writes: events and index rows at once, the commit records at its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from msgspec import structs

from journal.chain import (
    EMPTY_HEAD,
    SUCCEEDING,
    UNMOVING,
    check_draft,
    check_subject_key,
    check_successor,
    check_transition,
    follow,
    link,
)
from journal.errors import JournalCorrupt, StoreUnavailable
from journal.events import CONVERSATION, EventType
from journal.indexes import Table, changes
from journal.messages import MESSAGE_EVENTS
from journal.store.lmdb import tables
from journal.store.lmdb.view import LmdbView, read_record
from journal.store.port import Part, Subject

if TYPE_CHECKING:
    import lmdb

    from journal.clock import Clock
    from journal.events import Draft
    from journal.scope import Scope
    from journal.store.lmdb.environment import Environment
    from journal.store.port import Committed, Decide, Head, View


@dataclass(slots=True)
class _Growing:
    """A scope's journal as this transaction makes it grow; its commit record is written once, at the end."""

    scope: Scope
    head: Head
    sums: dict[str, tuple[int, int]]  # index table -> rows and their sum

    def record(self) -> tables.CommitRecord:
        """Return its commit record."""
        sums = {name: tables.stated_sum(rows, total) for name, (rows, total) in self.sums.items()}
        head = self.head
        return tables.CommitRecord(self.scope, head.cursor, head.hash, head.recorded_at, head.slot_generation, sums)


class Batch:
    """The decisions of one transaction. Whoever made it ends the transaction."""

    def __init__(self, txn: lmdb.Transaction, environment: Environment, sum_key: bytes, clock: Clock) -> None:
        self.txn = txn
        self._environment = environment
        self._databases = environment.databases
        self._sum_key = sum_key
        self._clock = clock
        self._growing: dict[bytes, _Growing] = {}
        self.wrote = False

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Let one command plan and put in a transaction within this one; what it did counts unless it raises."""
        outer, growing, wrote = self.txn, dict(self._growing), self.wrote
        self._growing = {tag: replace(each, sums=dict(each.sums)) for tag, each in growing.items()}
        try:
            with self._environment.begin(write=True, parent=outer) as self.txn:
                yield
        except BaseException:
            self._growing, self.wrote = growing, wrote
            raise
        finally:
            self.txn = outer

    def plan(self, scope: Scope, decide: Decide) -> tuple[list[Draft], int]:
        """Return the drafts of a decision and the time of their writing, every check of them done before the first put.

        Raises:
            EngramError: what the decision refused with, or what forbids its drafts.
        """
        growing = self._growing.get(scope.tag)
        view = LmdbView(self.txn, self._databases, scope, None if growing is None else growing.head)
        drafts = list(decide(view))
        _check_apart(drafts)
        moved: dict[str, Subject] = {}
        for draft in drafts:
            _check(view, draft, moved)
        _check_keys(view, drafts)
        return drafts, self._clock.now() if drafts else 0

    def put(self, scope: Scope, drafts: list[Draft], now: int) -> list[Committed]:
        """Write a decision's events and what they change in the indexes."""
        committed: list[Committed] = []
        if not drafts:
            return committed
        growing = self._grown(scope)
        self.wrote = True
        for draft in drafts:
            event = link(scope, growing.head, draft, now)
            key = tables.event_key(scope.tag, event.header.cursor)
            self._insert(tables.EVENTS, key, event.frame)
            for part, sealed in ((Part.CONTENT, draft.content), (Part.LEDGER, draft.ledger)):
                if sealed is not None:
                    self._insert(part.value, key, sealed)
            view = LmdbView(self.txn, self._databases, scope, growing.head)
            for table, row, value in changes(event.header, view.lookup()):
                self._change(growing, table, row, value)
            if draft.key_id is not None and draft.slot is not None:
                self._change(growing, Table.SLOT, draft.key_id, draft.slot.to_bytes(8, "big"))
            growing.head = follow(growing.head, event, draft.slot_generation)
            committed.append(event)
        return committed

    def write_heads(self) -> None:
        """Write each touched scope's commit record."""
        for tag, growing in self._growing.items():
            self.txn.put(tag, tables.encode_record(growing.record()), db=self._databases[tables.HEADS])

    def _insert(self, table: bytes, key: bytes, value: bytes) -> None:
        if not self.txn.put(key, value, db=self._databases[table], overwrite=False):
            raise JournalCorrupt("a cursor is taken already")

    def _change(self, growing: _Growing, table: Table, row: bytes, value: bytes | None) -> None:
        rows, amount = tables.change_row(
            self.txn, self._databases, self._sum_key, table, growing.scope.tag + row, value
        )  # fmt: skip
        name = tables.INDEX_NAMES[table]
        rows_before, total = growing.sums.get(name, (0, 0))
        growing.sums[name] = rows_before + rows, total + amount

    def _grown(self, scope: Scope) -> _Growing:
        growing = self._growing.get(scope.tag)
        if growing is None:
            raw = tables.get(self.txn, self._databases[tables.HEADS], scope.tag)
            if raw is None:
                growing = _Growing(scope, EMPTY_HEAD, {})
            else:
                record = read_record(raw, scope)
                sums = {name: (each.rows, int.from_bytes(each.total, "big")) for name, each in record.sums.items()}
                growing = _Growing(scope, record.head, sums)
            self._growing[scope.tag] = growing
        return growing


def _check_apart(drafts: list[Draft]) -> None:
    """One decision's events are about different subjects, so that each can be checked against the state at the head.

    Events about messages are the exception: each has one subject, so they are checked one after the other. A proposal
    changes nothing, and may stand beside the acceptance that it is made with.
    """
    if len(drafts) < 2:  # noqa: PLR2004 - one is apart from nothing
        return
    identities = [draft.event_id for draft in drafts]
    if len(identities) != len(set(identities)):
        raise JournalCorrupt("a decision reuses an event id")
    apart = [draft for draft in drafts if draft.type not in MESSAGE_EVENTS and draft.type not in UNMOVING]
    changed = [draft.subject for draft in apart if draft.subject is not None]
    changed += [draft.related for draft in apart if draft.type == EventType.REWIND and draft.related is not None]
    needed = {draft.related for draft in apart if draft.type == EventType.SUPERSEDE}
    if len(changed) != len(set(changed)) or needed & set(changed):
        raise JournalCorrupt("a decision has two events about one subject")


def _check_keys(view: View, drafts: list[Draft]) -> None:
    """A data key seals one subject's content: what ends one subject must never take another's content with it.

    The keyring hands a key out once. That two had the same, after a file of keys was put back under a process that
    lives, is seen here at the latest.

    Raises:
        StoreUnavailable: something is stored under a draft's new key; the next attempt takes another.
    """
    brought = [draft.key_id for draft in drafts if draft.key_id is not None and draft.slot is not None]
    if len(brought) != len(set(brought)) or any(view.slot(key_id) is not None for key_id in brought):
        raise StoreUnavailable("a data key was handed out twice")


def _check(view: View, draft: Draft, moved: dict[str, Subject]) -> None:
    """Check a draft against the state at the head, and ``moved``: where earlier drafts brought messages since."""
    check_draft(draft)
    reserves = draft.type not in CONVERSATION or draft.intent is not None
    if reserves and view.outcome(draft.event_id) is not None:
        raise JournalCorrupt("a decision reuses an event id")
    subject = None if draft.subject is None else moved.get(draft.subject) or view.subject(draft.subject)
    check_transition(draft.type, draft.from_state, draft.to_state, subject)
    check_subject_key(draft, subject)
    if draft.type in MESSAGE_EVENTS:
        assert draft.subject is not None
        born = Subject(0, 0, 0, 0, draft.key_id, None, None)
        moved[draft.subject] = structs.replace(subject or born, state=draft.to_state)
    elif draft.type in SUCCEEDING:
        related = None if draft.related is None else view.subject(draft.related)
        check_successor(draft.type, draft.subject, draft.related, related)
