"""The LMDB engine: journal.store.port.Store on one machine, for any number of processes."""

from __future__ import annotations

import secrets
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import lmdb

from journal import limits
from journal.chain import EMPTY_HEAD, check_transition, follow, link, verify_next
from journal.commit import Command, GroupCommit
from journal.errors import CursorGap, EngramError, JournalCorrupt, MutationOutcomeUnknown, StoreUnavailable
from journal.filelock import FileLock
from journal.frames import GENESIS, frame_hash
from journal.indexes import Table, changes
from journal.store.lmdb import tables
from journal.store.lmdb.environment import Environment, translated
from journal.store.lmdb.view import LmdbView, read_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from journal.clock import Clock
    from journal.events import Draft
    from journal.scope import Scope
    from journal.store.port import Committed, Decide, Head, Part

_WATCH_MIN_SECONDS = 0.002
_WATCH_MAX_SECONDS = 0.05


class LmdbStore:
    """An open journal environment with its writer thread."""

    def __init__(
        self, directory: Path, clock: Clock, *, readonly: bool = False, durable: bool = True,
        failpoint: Callable[[str], None] = lambda name: None,
    ) -> None:  # fmt: skip
        """Open the environment in a directory. ``failpoint`` is called by name at each step, for the crash tests."""
        self._environment = Environment(directory, readonly=readonly, durable=durable)
        self._clock = clock
        self._failpoint = failpoint
        self._readonly = readonly
        self._grown = threading.Condition()
        self._checked_at = time.monotonic()
        self._sum_key = b""
        if not readonly:
            # Two locks: who waits holds "turn" and tries for "writer"; who has just released "writer" must queue for "turn"
            # like everybody else. So no process can take the lock twice while another waits.
            self._turn = FileLock(directory / "turn.lock")
            self._lock = FileLock(directory / "writer.lock")
            self._prepare()
            self._group = GroupCommit(self)

    def _prepare(self) -> None:
        """Make the store's own row on first opening."""
        with self._environment.reading() as (txn, databases):
            self._sum_key = txn.get(tables.SUM_KEY, db=databases[tables.STORE]) or b""
        if self._sum_key:
            return
        with self._environment.begin(write=True) as txn:
            txn.put(
                tables.SUM_KEY, secrets.token_bytes(32), db=self._environment.databases[tables.STORE], overwrite=False
            )
            self._sum_key = txn.get(tables.SUM_KEY, db=self._environment.databases[tables.STORE])

    # --- writing ---------------------------------------------------------------------------------

    def commit(self, scope: Scope, decide: Decide, *, deadline: float | None = None) -> list[Committed]:
        """Append what ``decide`` returns (journal.store.port.Store.commit)."""
        if self._readonly:
            raise StoreUnavailable("the store is open for reading only")
        return self._group.submit(scope, decide, deadline)

    def acquire(self, deadline: float | None) -> bool:
        """Take the inter-process write lock (journal.commit.BatchWriter)."""
        if not self._turn.acquire(deadline):
            return False
        try:
            return self._lock.acquire(deadline)
        finally:
            self._turn.release()

    def release(self) -> None:
        """Release the inter-process write lock."""
        self._lock.release()

    def run(self, commands: list[Command]) -> None:
        """Run commands in one durable transaction and answer each (journal.commit.BatchWriter)."""
        self._check_readers()
        try:
            txn = self._environment.begin(write=True)
        except (lmdb.Error, EngramError) as error:
            _refuse_all(commands, error)
            return
        batch = _Batch(txn, self._environment, self._sum_key, self._clock)
        try:
            results = [self._run_one(batch, command) for command in commands]
            batch.write_heads()
        except (lmdb.Error, OSError, AssertionError, EngramError) as error:
            txn.abort()
            _refuse_all([command for command in commands if not command.done.is_set()], error)
            return
        self._finish(txn, commands, results, batch)

    @staticmethod
    def _run_one(batch: _Batch, command: Command) -> list[Committed] | None:
        """Decide and check one command, then write it; a refusal answers it and writes nothing."""
        try:
            plan = batch.plan(command.scope, command.decide)
        except lmdb.Error:
            raise
        except Exception as error:  # noqa: BLE001 - a decision that fails is its caller's answer and nobody else's
            command.refuse(error)
            return None
        return batch.put(command.scope, plan)

    def _finish(
        self, txn: lmdb.Transaction, commands: list[Command], results: list[list[Committed] | None], batch: _Batch
    ) -> None:
        if not batch.wrote:
            txn.abort()
        else:
            self._failpoint("commit.before")
            try:
                txn.commit()
            except (lmdb.Error, OSError) as error:
                # LMDB would carry on after a failed flush, and a later commit could make a lost one look whole.
                self._after_failed_flush()
                for command, result in zip(commands, results, strict=True):
                    if result is not None:
                        command.refuse(MutationOutcomeUnknown(f"commit failed: {type(error).__name__}"))
                return
            self._failpoint("commit.after")
        for command, result in zip(commands, results, strict=True):
            if result is not None:
                command.answer(result)
        with self._grown:
            self._grown.notify_all()

    def _after_failed_flush(self) -> None:
        """A failed flush is fatal to the handle: close it and open it afresh; where that fails the store stays closed."""
        try:
            self._environment.reopen()
        except EngramError:
            self._environment.close()

    def _check_readers(self) -> None:
        if time.monotonic() - self._checked_at > limits.READER_CHECK_SECONDS:
            self._checked_at = time.monotonic()
            self._environment.reader_check()

    # --- reading ---------------------------------------------------------------------------------

    def head(self, scope: Scope) -> Head:
        """Return the head of a scope's journal."""
        with self.view(scope) as view:
            return view.head

    def read(self, scope: Scope, after: int, limit: int) -> list[Committed]:
        """Return events after a cursor, verified against the chain (journal.store.port.Store.read)."""
        with self._environment.reading() as (txn, databases):
            head = LmdbView(txn, databases, scope).head
            last = min(head.cursor, after + limit)
            if last <= after:
                return []
            frames = databases[tables.EVENTS]
            prev = GENESIS
            if after:
                before = txn.get(tables.event_key(scope.tag, after), db=frames)
                if before is None:
                    raise CursorGap(f"the event at cursor {after} is missing")
                prev = frame_hash(before)
            events: list[Committed] = []
            for cursor in range(after + 1, last + 1):
                frame = txn.get(tables.event_key(scope.tag, cursor), db=frames)
                if frame is None:
                    raise CursorGap(f"the event at cursor {cursor} is missing")
                events.append(verify_next(scope, cursor, prev, frame))
                prev = frame_hash(frame)
            if last == head.cursor and prev != head.hash:
                raise JournalCorrupt("the last event is not the one that the commit record names")
            return events

    def body(self, scope: Scope, cursor: int, part: Part) -> bytes | None:
        """Return a sealed part's bytes, or None where there are none."""
        with self.view(scope) as view:
            return view.body(cursor, part)

    @contextmanager
    def view(self, scope: Scope) -> Iterator[LmdbView]:
        """Yield a snapshot of a scope's indexes."""
        with self._environment.reading() as (txn, databases):
            yield LmdbView(txn, databases, scope)

    def watch(self, scope: Scope, after: int, timeout_seconds: float) -> int:
        """Wait until the head is over ``after`` or the time is up; return the head's cursor.

        Commits of this process wake it at once, those of others are seen by polling.
        """
        deadline = time.monotonic() + timeout_seconds
        pause = _WATCH_MIN_SECONDS
        while (cursor := self.head(scope).cursor) <= after:
            left = deadline - time.monotonic()
            if left <= 0:
                break
            with self._grown:
                self._grown.wait(min(pause, left))
            pause = min(pause * 1.5, _WATCH_MAX_SECONDS)
        return cursor

    def scopes(self) -> list[Scope]:
        """Return every scope that has an event, by tenant and workspace."""
        with self._environment.reading() as (txn, databases):
            rows = tables.prefix_rows(txn, databases[tables.HEADS], b"")
        found = [read_record(value).scope for _, value in rows]
        return sorted(found, key=lambda scope: (scope.tenant_id, scope.workspace_id))

    @property
    def environment(self) -> Environment:
        """The environment, for the index check and the figures of this engine."""
        return self._environment

    @property
    def sum_key(self) -> bytes:
        """The key of the index tables' sums."""
        return self._sum_key

    def close(self) -> None:
        """Answer what is queued, end the writer thread, and close the environment."""
        if not self._readonly:
            self._group.close()
            self._turn.close()
            self._lock.close()
        self._environment.close()


class _Batch:
    """What one transaction writes: events and index rows at once, the commit records at its end."""

    def __init__(self, txn: lmdb.Transaction, environment: Environment, sum_key: bytes, clock: Clock) -> None:
        self._txn = txn
        self._databases = environment.databases
        self._sum_key = sum_key
        self._clock = clock
        self._records: dict[bytes, tables.CommitRecord] = {}
        self.wrote = False

    def plan(self, scope: Scope, decide: Decide) -> list[Draft]:
        """Return the drafts of a decision, every check of them done before the first put."""
        self._flush_head(scope)
        view = LmdbView(self._txn, self._databases, scope)
        drafts = list(decide(view))
        for draft in drafts:
            if view.outcome(draft.event_id) is not None:
                raise JournalCorrupt("a decision reuses an event id")
            # One decision's events are about different subjects, so that each can be checked against the state at the head.
            check_transition(
                draft.type, draft.from_state, draft.to_state, view.subject(draft.subject) if draft.subject else None
            )
        named = [draft.subject for draft in drafts if draft.subject is not None]
        if len(named) != len(set(named)):
            raise JournalCorrupt("a decision has two events about one subject")
        return drafts

    def put(self, scope: Scope, drafts: list[Draft]) -> list[Committed]:
        """Write a decision's events and what they change in the indexes."""
        committed = []
        for draft in drafts:
            record = self._record(scope)
            event = link(scope, record.head, draft, self._clock.now())
            key = tables.event_key(scope.tag, event.header.cursor)
            self._insert(tables.EVENTS, key, event.frame)
            if draft.content is not None:
                self._insert(b"content", key, draft.content)
            if draft.ledger is not None:
                self._insert(b"ledger", key, draft.ledger)
            view = LmdbView(self._txn, self._databases, scope)
            for table, row, value in changes(event.header, view.lookup()):
                self._change(scope, record, table, row, value)
            if draft.key_id is not None and draft.slot is not None:
                self._change(scope, record, Table.SLOT, draft.key_id, draft.slot.to_bytes(8, "big"))
            head = follow(record.head, event, draft.slot_generation)
            record.cursor, record.hash = head.cursor, head.hash
            record.recorded_at, record.slot_generation = head.recorded_at, head.slot_generation
            committed.append(event)
            self.wrote = True
        return committed

    def _insert(self, table: bytes, key: bytes, value: bytes) -> None:
        if not self._txn.put(key, value, db=self._databases[table], overwrite=False):
            raise JournalCorrupt("a cursor is taken already")

    def _change(self, scope: Scope, record: tables.CommitRecord, table: Table, row: bytes, value: bytes | None) -> None:
        database, key = self._databases[table.value], scope.tag + row
        old = self._txn.get(key, db=database)
        rows, amount = 0, 0
        if old is not None:
            rows, amount = -1, -tables.row_sum(self._sum_key, table, key, old)
        if value is None:
            self._txn.delete(key, db=database)
        else:
            self._txn.put(key, value, db=database)
            rows, amount = rows + 1, amount + tables.row_sum(self._sum_key, table, key, value)
        name = table.value.decode()
        record.sums[name] = tables.add(record.sums.get(name, tables.TableSum()), rows, amount)

    def _record(self, scope: Scope) -> tables.CommitRecord:
        record = self._records.get(scope.tag)
        if record is None:
            raw = self._txn.get(scope.tag, db=self._databases[tables.HEADS])
            empty = tables.CommitRecord(scope, 0, EMPTY_HEAD.hash, 0, 0, {})
            record = empty if raw is None else read_record(raw, scope)
            self._records[scope.tag] = record
        return record

    def _flush_head(self, scope: Scope) -> None:
        """Let the next decision of this batch see the head that the one before made."""
        record = self._records.get(scope.tag)
        if record is not None and record.cursor:
            self._txn.put(scope.tag, tables.encode_record(record), db=self._databases[tables.HEADS])

    def write_heads(self) -> None:
        """Write each touched scope's commit record."""
        for record in self._records.values():
            if record.cursor:
                self._txn.put(record.scope.tag, tables.encode_record(record), db=self._databases[tables.HEADS])


def _refuse_all(commands: list[Command], error: BaseException) -> None:
    """Answer a batch that was aborted whole: nothing of it was written."""
    known = translated(error) if isinstance(error, lmdb.Error) else error
    refusal = (
        known
        if isinstance(known, JournalCorrupt)
        else StoreUnavailable(f"the batch was aborted: {type(error).__name__}")
    )
    for command in commands:
        command.refuse(refusal)
