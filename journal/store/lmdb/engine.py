"""The LMDB engine: journal.store.port.Store on one machine, for any number of processes."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import lmdb

from journal import limits
from journal.commit import Command, GroupCommit
from journal.errors import EngramError, MutationOutcomeUnknown, StoreUnavailable
from journal.store.lmdb import tables
from journal.store.lmdb.batch import Batch
from journal.store.lmdb.environment import Environment, unavailable
from journal.store.lmdb.filesystem import refuse_network
from journal.store.lmdb.indexcheck import IndexFinding, Located, check_indexes
from journal.store.lmdb.markers import Markers
from journal.store.lmdb.opening import looks_whole, open_for_reading, open_for_writing
from journal.store.lmdb.pagescrub import PageScrub
from journal.store.lmdb.rest import note
from journal.store.lmdb.view import LmdbView, read_record
from journal.store.lmdb.writelock import WriteLock
from journal.systemfaults import told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from journal.clock import Clock
    from journal.scope import Scope
    from journal.store.port import Committed, Decide, Head, Part

_WATCH_MIN_SECONDS = 0.002
_WATCH_MAX_SECONDS = 0.05


class LmdbStore:
    """An open journal environment with its writer thread."""

    def __init__(
        self, directory: Path, clock: Clock, *, readonly: bool = False, durable: bool = True,
        failpoint: Callable[[str], None] = lambda _: None, located: Located | None = None,
    ) -> None:  # fmt: skip
        """Open the environment in a directory.

        ``failpoint`` is called by name at each step, for the crash tests. ``located`` gives the slot numbers of a
        scope's data keys, should the slot index have to be rebuilt.

        Raises:
            StoreUnavailable: it cannot be opened. JournalCorrupt: it is damaged.
        """
        self._clock = clock
        self._failpoint = failpoint
        self._readonly = readonly
        self._grown = threading.Condition()
        self._checked_at = time.monotonic()
        self._sum_key = b""
        self._scrub: PageScrub | None = None
        self._opened_at = time.time()
        if readonly:
            self._environment = open_for_reading(directory)
            return
        self._directory = directory
        self._markers = Markers(directory)
        with ExitStack() as undo, unavailable("the journal cannot be opened for writing"):
            refuse_network(directory)
            self._lock = WriteLock(directory)
            undo.callback(self._lock.close)
            opened = open_for_writing(directory, self._lock, self._markers, located, durable=durable)
            undo.pop_all()
        self._environment, self._sum_key = opened
        self._group = GroupCommit(self)

    # --- writing ---------------------------------------------------------------------------------

    def commit(
        self, scope: Scope, decide: Decide, *, deadline: float | None = None, leading: bool = False,
        prepare: Callable[[], None] | None = None,
    ) -> list[Committed]:  # fmt: skip
        """Append what ``decide`` returns (journal.store.port.Store.commit)."""
        if self._readonly:
            raise StoreUnavailable("the store is open for reading only")
        return self._group.submit(scope, decide, deadline, leading=leading, prepare=prepare)

    def acquire(self, deadline: float | None) -> bool:
        """Take the inter-process write lock (journal.commit.BatchWriter)."""
        return self._markers.placed(deadline) and self._lock.acquire(deadline)

    def release(self) -> None:
        """Release the inter-process write lock."""
        self._lock.release()

    def run(self, commands: Iterator[Command]) -> None:
        """Run commands in one durable transaction and answer each (journal.commit.BatchWriter)."""
        self._check_readers()
        begun: list[Command] = []
        try:
            batch = self._batch()
        except (lmdb.Error, EngramError) as error:
            _refuse(list(commands), error)
            return
        try:
            answers = [self._run_one(batch, command) for command in _noted(commands, begun)]
            batch.write_heads()
        except Exception as error:  # noqa: BLE001 - whatever it was, the transaction must not stay open
            batch.txn.abort()
            if isinstance(error, lmdb.MapFullError):
                self._environment.reader_check()  # a dead reader may have held the pages
            again = self._run_apart(begun)
            if again is None:
                return
            batch, answers = again
        if self._finish(batch.txn, begun, wrote=batch.wrote):
            for command, answer in zip(begun, answers, strict=True):
                # A refusal too waits for the commit: what it rests on may stand in this very transaction.
                if isinstance(answer, Exception):
                    command.refuse(answer)
                else:
                    command.answer(answer)
            with self._grown:
                self._grown.notify_all()

    def _batch(self) -> Batch:
        return Batch(self._environment.begin(write=True), self._environment, self._sum_key, self._clock)

    @staticmethod
    def _run_one(batch: Batch, command: Command) -> list[Committed] | Exception:
        """Decide and check one command, then write it; return its events, or the refusal, which wrote nothing."""
        try:
            drafts, now = batch.plan(command.scope, command.decide)
        except lmdb.Error:
            raise
        except Exception as error:  # noqa: BLE001 - a decision that fails is its caller's answer and nobody else's
            return error
        return batch.put(command.scope, drafts, now)

    def _run_apart(self, begun: list[Command]) -> tuple[Batch, list[list[Committed] | Exception]] | None:
        """Run a batch anew that was aborted, each command in a transaction of its own within the batch's.

        So a command over which writing breaks, by a fault of its own or of ours, is refused alone, and what the others
        wrote is as durable as ever. Where all of it fails, all are refused, and None is returned.
        """
        try:
            batch = self._batch()
        except (lmdb.Error, EngramError) as error:
            _refuse(begun, error)
            return None
        try:
            answers = [self._run_one_apart(batch, command) for command in begun]
            batch.write_heads()
        except Exception as error:  # noqa: BLE001 - as in ``run``
            batch.txn.abort()
            _refuse(begun, error)
            return None
        return batch, answers

    def _run_one_apart(self, batch: Batch, command: Command) -> list[Committed] | Exception:
        refused: list[Exception] = []
        try:
            with batch.apart():
                answer = self._run_one(batch, command)
                if not isinstance(answer, Exception):
                    return answer
                refused.append(answer)
                raise answer  # noqa: TRY301 - what it read may have spoiled its transaction
        except Exception as error:  # noqa: BLE001 - it is this command's answer and nobody else's
            return error if error in refused else _refusal(error)

    def _finish(self, txn: lmdb.Transaction, begun: list[Command], *, wrote: bool) -> bool:
        """End the transaction; return whether what it wrote is durable."""
        if not wrote:
            txn.abort()
            return True
        try:
            self._failpoint("commit.before")
            txn.commit()
        except Exception as error:  # noqa: BLE001 - nobody knows how far a failed commit came, whatever failed
            # LMDB would carry on after a failed flush, and a later commit could make a lost one look whole.
            self._after_failed_flush()
            for command in begun:
                unknown = MutationOutcomeUnknown(f"commit failed: {type(error).__name__}")
                unknown.__cause__ = error
                command.refuse(unknown)
            return False
        self._failpoint("commit.after")
        self._environment.extend()
        return True

    def _after_failed_flush(self) -> None:
        """A failed flush is fatal to the handle: close it, open it afresh and look; else the store stays closed.

        Either way the next one to open the store takes nothing on trust.
        """
        with suppress(OSError):
            self._markers.distrust()
        try:
            self._environment.reopen()
        except EngramError:
            self._environment.close()
            return
        if not looks_whole(self._environment):
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
        with self.view(scope) as view:
            return view.run(after, limit)

    def body(self, scope: Scope, cursor: int, part: Part) -> bytes | None:
        """Return a sealed part's bytes, or None where there are none."""
        with self.view(scope) as view:
            return view.body(cursor, part)

    @contextmanager
    def view(self, scope: Scope) -> Iterator[LmdbView]:
        """Yield a snapshot of a scope's indexes.

        What LMDB says of other files inside the ``with``, those of projections, is no word about this one.
        """
        try:
            txn = self._environment.begin()
        except lmdb.Error as error:
            raise told(error) from error
        with txn:
            yield LmdbView(txn, self._environment.databases, scope)

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

    def check_indexes(self, scope: Scope, located: Mapping[bytes, int]) -> list[IndexFinding]:
        """Derive a scope's index rows from its events and compare them with what stands, row by row and by their sums.

        ``located`` gives the slot numbers of the scope's data keys. Takes about 700 bytes of memory an event.

        Raises:
            CursorGap, JournalCorrupt: the events themselves are broken.
        """
        with self._environment.reading() as (txn, databases):
            return check_indexes(txn, databases, scope, located)

    def scrub_pages(self) -> None:
        """Let the scrub of the pages take a step (``pagescrub``); it never waits.

        Raises:
            JournalCorrupt, StoreUnavailable: it found damage. From then on every call of this store is answered so, and
                the next process to open it walks it first, and mends what can be mended.
        """
        if self._readonly or self._environment.condemned:
            return
        if self._scrub is None:
            self._scrub = PageScrub(self._directory, self._opened_at)
        try:
            self._scrub.step()
        except EngramError as error:
            with suppress(OSError):
                self._markers.distrust()
            self._environment.condemn(error)
            raise

    def close(self) -> None:
        """Answer what is queued, end the writer thread, and close the environment."""
        if self._readonly:
            self._environment.close()
            return
        self._group.close()
        if self._scrub is not None:
            self._scrub.close()
        self._environment.close()
        self._markers.remove(lambda: note(self._directory))
        self._lock.close()


def _noted(commands: Iterator[Command], begun: list[Command]) -> Iterator[Command]:
    """Yield commands, each noted as begun before anything is done for it."""
    for command in commands:
        begun.append(command)
        yield command


def _refuse(begun: list[Command], error: Exception) -> None:
    """Answer a batch of which nothing was written and nothing can be."""
    for command in begun:
        command.refuse(_refusal(error))


def _refusal(error: Exception) -> EngramError:
    """Return what a command is answered over which writing broke."""
    known = told(error) if isinstance(error, lmdb.Error) else error
    refusal = known if isinstance(known, EngramError) else StoreUnavailable(f"aborted: {type(error).__name__}")
    refusal.__cause__ = error if refusal is not error else error.__cause__
    return refusal
