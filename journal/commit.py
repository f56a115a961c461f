"""Group commit: one writer thread a process gathers commands and commits them in batches (DESIGN §3).

An LMDB commit costs two flushes, so commands that wait together share one. Preparation (validation, canonical form,
sealing) happens in the callers' threads; here only ``decide`` runs and what needs the cursor.

A command is *queued*, then *begun*, then answered. A queued one can be withdrawn (its deadline passed, its call was
cancelled) and then certainly never runs. One begun is shielded: who stops waiting for it gets MUTATION_OUTCOME_UNKNOWN.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from journal import limits
from journal.errors import (
    DeadlineExceeded,
    EngramError,
    MutationOutcomeUnknown,
    RateLimited,
    StoreUnavailable,
)
from journal.scope import Scope
from journal.store.port import Committed, Decide

_GRACE_SECONDS = 0.25  # a begun command that will end in a moment is worth a clear answer


@dataclass(slots=True)
class Command:
    """One caller's wish, and where its answer is put."""

    scope: Scope
    decide: Decide
    deadline: float | None
    done: threading.Event = field(default_factory=threading.Event)
    begun: bool = False
    withdrawn: bool = False
    result: list[Committed] = field(default_factory=list)
    error: BaseException | None = None

    def answer(self, result: list[Committed]) -> None:
        """Answer with events."""
        self.result = result
        self.done.set()

    def refuse(self, error: BaseException) -> None:
        """Answer with an error."""
        self.error = error
        self.done.set()

    @property
    def late(self) -> bool:
        """Whether its deadline has passed."""
        return self.deadline is not None and time.monotonic() >= self.deadline


class BatchWriter(Protocol):
    """What an engine gives the writer thread."""

    def acquire(self, deadline: float | None) -> bool:
        """Take the engine's inter-process lock before the deadline; return whether it was had."""
        ...

    def release(self) -> None:
        """Let another process have a turn."""
        ...

    def run(self, commands: list[Command]) -> None:
        """Run the commands in one durable transaction and answer each."""
        ...


class GroupCommit:
    """The queue and its writer thread."""

    def __init__(self, writer: BatchWriter) -> None:
        self._writer = writer
        self._queue: deque[Command] = deque()
        self._condition = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._serve, name="engram-journal-writer", daemon=True)
        self._thread.start()

    def submit(self, scope: Scope, decide: Decide, deadline: float | None) -> list[Committed]:
        """Run ``decide`` under the scope's lock and return what it committed (journal.store.port.Store.commit)."""
        command = Command(scope, decide, deadline)
        with self._condition:
            if self._closing:
                raise StoreUnavailable("the store is closed")
            if len(self._queue) >= limits.QUEUE_MAX_COMMANDS:
                raise RateLimited("the commit queue is full")
            self._queue.append(command)
            self._condition.notify()
        self._await(command)
        if command.error is not None:
            raise command.error
        return command.result

    def _await(self, command: Command) -> None:
        if command.deadline is None:
            command.done.wait()
            return
        if command.done.wait(max(0.0, command.deadline - time.monotonic())):
            return
        with self._condition:
            if not command.begun:
                command.withdrawn = True
                raise DeadlineExceeded("the command was still queued at its deadline")
        if not command.done.wait(_GRACE_SECONDS):
            raise MutationOutcomeUnknown("the commit was under way at the deadline")

    def _serve(self) -> None:
        while True:
            with self._condition:
                while not self._queue and not self._closing:
                    self._condition.wait()
                if not self._queue:
                    return
                deadline = self._nearest_deadline()
            if self._acquire(deadline):
                try:
                    batch = self._begin_batch()
                    if batch:
                        self._run(batch)
                finally:
                    self._writer.release()

    def _nearest_deadline(self) -> float:
        """Return until when the lock is tried for in one go: no queued caller is kept beyond its deadline for it."""
        deadlines = [command.deadline for command in self._queue if command.deadline is not None]
        return min([*deadlines, time.monotonic() + 1.0])

    def _acquire(self, deadline: float) -> bool:
        try:
            had = self._writer.acquire(deadline)
        except (EngramError, OSError) as error:
            failure = error if isinstance(error, EngramError) else StoreUnavailable(type(error).__name__)
            with self._condition:
                doomed, self._queue = list(self._queue), deque()
            for command in doomed:
                command.refuse(failure)
            return False
        if not had:
            with self._condition:
                self._queue = deque(
                    command for command in self._queue if not command.withdrawn and not self._expire(command)
                )
        return had

    @staticmethod
    def _expire(command: Command) -> bool:
        if not command.late:
            return False
        command.refuse(DeadlineExceeded("the store's lock could not be had before the deadline"))
        return True

    def _begin_batch(self) -> list[Command]:
        batch: list[Command] = []
        with self._condition:
            while self._queue and len(batch) < limits.BATCH_MAX_EVENTS:
                command = self._queue.popleft()
                if command.withdrawn or self._expire(command):
                    continue
                command.begun = True
                batch.append(command)
        return batch

    def _run(self, batch: list[Command]) -> None:
        try:
            self._writer.run(batch)
        except BaseException as error:  # noqa: BLE001 - a writer thread that dies would leave every caller waiting
            for command in batch:
                if not command.done.is_set():
                    command.refuse(MutationOutcomeUnknown(type(error).__name__))

    def close(self) -> None:
        """Answer what is queued, then end the thread."""
        with self._condition:
            self._closing = True
            self._condition.notify()
        self._thread.join()
