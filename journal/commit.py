"""Group commit: one writer at a time in a process gathers commands and commits them in batches.

An LMDB commit costs two flushes, so commands that wait together share one. Preparation (validation, canonical form,
sealing) comes before the lock; under it only ``decide`` runs and what needs the cursor. The writer is a thread of its
own, or a caller that asks to lead and finds nobody writing.

Who comes first prepares with its own hands; who comes while others write, wait or prepare leaves that to the writer
too. The interpreter runs one thread at a time: where many callers prepare at once, most of the processor's time goes
into changing between them, and one thread that does it for all in a row takes half of it.

A command is *queued*, then *begun*, then answered. A queued one can be withdrawn (its deadline passed, its call was
cancelled) and then certainly never runs. One begun is shielded: who stops waiting for it gets MUTATION_OUTCOME_UNKNOWN.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from journal import limits, patience
from journal.errors import (
    DeadlineExceeded,
    EngramError,
    MutationOutcomeUnknown,
    RateLimited,
    StoreUnavailable,
)
from journal.latches import Latch, Mark
from journal.scope import Scope
from journal.store.port import Committed, Decide

_GRACE_SECONDS = 0.25  # a begun command that will end in a moment is worth a clear answer
_PATIENCE_SECONDS = 1.0  # how long the lock is tried for in one go: so soon a closing store is noticed
_OTHERS_SECONDS = 0.5  # how long a caller leaves its preparation to a writer that may be waiting for the lock


@dataclass(slots=True, eq=False)
class Command:
    """One caller's wish, and where its answer is put."""

    scope: Scope
    decide: Decide
    deadline: float | None
    prepare: Callable[[], None] | None = None  # what comes first, until somebody does it
    done: Latch | Mark = field(default_factory=Mark)
    ready: bool = True  # there is nothing to prepare, or not any more
    returned: bool = False  # to its caller: to prepare it, somebody would have had to be waited for
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


def _left(deadline: float | None, most_seconds: float = threading.TIMEOUT_MAX) -> float:
    """Return how many seconds are left until a deadline, and at most so many."""
    return most_seconds if deadline is None else min(most_seconds, max(0.0, deadline - time.monotonic()))


class BatchWriter(Protocol):
    """What an engine gives the writer thread."""

    def acquire(self, deadline: float | None) -> bool:
        """Take the engine's inter-process lock before the deadline; return whether it was had."""
        ...

    def release(self) -> None:
        """Let another process have a turn."""
        ...

    def run(self, commands: Iterator[Command]) -> None:
        """Run the commands in one durable transaction and answer each; each is begun when the iterator yields it."""
        ...


class GroupCommit:
    """The queue and its writer thread."""

    def __init__(self, writer: BatchWriter) -> None:
        self._writer = writer
        self._queue: deque[Command] = deque()
        self._condition = threading.Condition()
        self._closing = False
        self._alone = False  # whether a caller that came first prepares
        self._crowd = 1  # how many stood in the last batch
        self._wanted = 1  # how many must be queued for the thread to be told
        self._turn = threading.Lock()  # whoever holds it writes: the writer thread, or a caller that leads
        self._writing = 0  # the thread that runs a batch
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._serve, name="engram-journal-writer", daemon=True)
        self._thread.start()

    def submit(
        self, scope: Scope, decide: Decide, deadline: float | None, *, leading: bool = False,
        prepare: Callable[[], None] | None = None,
    ) -> list[Committed]:  # fmt: skip
        """Run ``decide`` under the scope's lock and return what it committed (journal.store.port.Store.commit).

        A caller that is ``leading`` writes with its own hands where nobody is writing or waiting, and takes along
        whoever comes meanwhile: two changes of thread less. It cannot leave at its deadline once it began.
        """
        if os.getpid() != self._pid:
            raise StoreUnavailable("the store was opened before a fork; open it after")  # the thread is the parent's
        if threading.get_ident() in (self._writing, self._thread.ident):
            raise StoreUnavailable("a decision or preparation must not commit")  # it would wait for itself
        if prepare is not None and (leading or self._is_first()):
            self._prepare_alone(prepare)
            prepare = None
        command = Command(scope, decide, deadline, prepare, ready=prepare is None)
        if leading and self._lead(command):
            if command.error is not None:
                raise command.error
            return command.result
        command.done = done = Latch()
        self._enqueue(command)
        if prepare is not None and not done.wait(_left(deadline, _OTHERS_SECONDS)):
            self._prepare(command)
        self._await(command, done)
        if command.returned and prepare is not None:
            self._run_preparation(command, prepare)
            self._await(command, command.done)
        if command.error is not None:
            raise command.error
        return command.result

    def _is_first(self) -> bool:
        """Whether nobody writes, waits or prepares: there is nothing to gain by leaving it to another thread."""
        with self._condition:
            if self._queue or self._writing or self._alone:
                return False
            self._alone = True
            return True

    def _prepare_alone(self, prepare: Callable[[], None]) -> None:
        try:
            prepare()
        finally:
            self._alone = False

    def _enqueue(self, command: Command) -> None:
        with self._condition:
            if self._closing:
                raise StoreUnavailable("the store is closed")
            if len(self._queue) >= limits.QUEUE_MAX_COMMANDS:
                raise RateLimited("the commit queue is full")
            self._queue.append(command)
            if len(self._queue) >= self._wanted:
                self._condition.notify()

    def _lead(self, command: Command) -> bool:
        """Run a command, and those that were queued meanwhile, in its own thread; return whether that could be."""
        if self._queue or self._closing or not self._turn.acquire(blocking=False):
            return False
        try:
            if not self._try_acquire():
                return False
            with self._condition:
                self._queue.appendleft(command)
            self._run()
            with self._condition:
                if not command.done.is_set():  # the batch broke before it began: it goes the other way, and once only
                    self._queue.remove(command)  # while the turn is held: nobody else can have begun it
        finally:
            self._turn.release()
        with self._condition:
            if self._queue:
                self._condition.notify()
        return command.done.is_set()

    def _try_acquire(self) -> bool:
        """Take the inter-process lock if it is free; its faults are the writer thread's to tell."""
        try:
            return self._writer.acquire(time.monotonic())
        except Exception:  # noqa: BLE001 - the writer thread meets the same, and answers whoever waits
            return False

    def _await(self, command: Command, done: Latch | Mark) -> None:
        assert isinstance(done, Latch)
        if command.deadline is None:
            done.wait()
            return
        if done.wait(_left(command.deadline)):
            return
        with self._condition:
            if not command.begun and not done.is_set():
                command.withdrawn = True
                raise DeadlineExceeded("the command was still queued at its deadline")
        if not done.wait(_GRACE_SECONDS):
            raise MutationOutcomeUnknown("the commit was under way at the deadline")

    def _serve(self) -> None:
        try:
            while self._serve_once():
                pass
        except BaseException as error:  # noqa: BLE001 - nothing is known that does this; who comes must not wait for it
            with self._condition:
                self._closing = True
            self._refuse_queue(StoreUnavailable(type(error).__name__))

    def _serve_once(self) -> bool:
        """Wait for work and do a batch of it; return whether there can be more."""
        with self._condition:
            while not self._has_work() and not self._closing:
                self._condition.wait()
            if not self._queue:
                return False
            self._gather()
        self._prepare_queued()
        with self._condition:
            deadline = self._nearest_deadline()
        with self._turn:
            had = self._acquire(deadline)
            broken = self._run() if had else None
        if broken is not None:  # nobody can tell whose fault it is, and to try again without end would help nobody
            self._refuse_queue(StoreUnavailable(type(broken).__name__))
        if not had and self._closing:
            self._refuse_queue(StoreUnavailable("the store was closed before its lock could be had"))
        return True

    def _gather(self) -> None:
        """Wait a moment for those that the last batch answered; the condition is held.

        They are on their way, and each hand's breadth of this thread would have to be taken from them.
        """
        if len(self._queue) < self._crowd and not self._closing:
            self._wanted = self._crowd
            self._condition.wait(limits.BATCH_GATHER_SECONDS)
            self._wanted = 1

    def _has_work(self) -> bool:
        """Whether a queued command is ready, or waits to be prepared; what its own caller prepares is neither."""
        return any(command.ready or command.prepare is not None for command in self._queue)

    def _prepare_queued(self) -> None:
        """Prepare what is queued by now, for as long as a batch may take: it must not age in the hands of others.

        Nobody is waited for meanwhile: all of them would be.
        """
        with self._condition:
            waiting = [command for command in self._queue if command.prepare is not None]
        if not waiting:
            return
        ends_at = time.monotonic() + limits.BATCH_MAX_MILLISECONDS / 1000
        with patience.waiting_for_nobody():
            for command in waiting:
                self._prepare(command)
                if time.monotonic() >= ends_at:
                    return

    def _prepare(self, command: Command) -> None:
        """Prepare a command, unless somebody else does so."""
        with self._condition:
            prepare, command.prepare = command.prepare, None
            if prepare is None or command.withdrawn:
                return
        self._run_preparation(command, prepare)

    def _run_preparation(self, command: Command, prepare: Callable[[], None]) -> None:
        """Prepare a command. A failure is its answer: it never begins."""
        try:
            prepare()
        except patience.WouldWait:
            self._return(command)
            return
        except BaseException as error:  # noqa: BLE001 - whatever it was is its caller's answer and nobody else's
            with self._condition, suppress(ValueError):
                command.withdrawn = True
                if not command.done.is_set():
                    command.refuse(error)
                self._queue.remove(command)
            return
        with self._condition:
            command.ready = True
            self._condition.notify()

    def _return(self, command: Command) -> None:
        """Leave a command's preparation to its caller, who is woken for it."""
        with self._condition:
            command.returned = True
            woken, command.done = command.done, Latch()
        woken.set()

    def _nearest_deadline(self) -> float:
        """Return until when the lock is tried for in one go: no queued caller is kept beyond its deadline for it."""
        deadlines = [command.deadline for command in self._queue if command.deadline is not None]
        return min([*deadlines, time.monotonic() + _PATIENCE_SECONDS])

    def _acquire(self, deadline: float) -> bool:
        try:
            had = self._writer.acquire(deadline)
        except Exception as error:  # noqa: BLE001 - a writer thread that dies would leave every caller waiting
            self._refuse_queue(error if isinstance(error, EngramError) else StoreUnavailable(type(error).__name__))
            return False
        if not had:
            with self._condition:
                self._queue = deque(command for command in self._queue if not self._is_over(command))
        return had

    def _refuse_queue(self, error: EngramError) -> None:
        with self._condition:
            doomed, self._queue = list(self._queue), deque()
        for command in doomed:
            command.refuse(error)

    @staticmethod
    def _is_over(command: Command) -> bool:
        """Whether a queued command need not run any more; one whose deadline has passed is answered here."""
        if command.withdrawn:
            return True
        late = command.late
        if late:
            command.refuse(DeadlineExceeded("the store's lock could not be had before the deadline"))
        return late

    def _begin(self) -> Command | None:
        """Take the first that is ready from the queue; those that are still prepared are the next batch's."""
        with self._condition:
            at = 0
            while at < len(self._queue):
                command = self._queue[at]
                if not command.ready and not command.withdrawn:
                    at += 1
                    continue
                del self._queue[at]
                if not self._is_over(command):
                    command.begun = True
                    return command
        return None

    def _batch(self, begun: list[Command]) -> Iterator[Command]:
        """Yield queued commands, each begun as it is yielded, until the batch is full or has had its time."""
        ends_at = time.monotonic() + limits.BATCH_MAX_MILLISECONDS / 1000
        while len(begun) < limits.BATCH_MAX_EVENTS and (not begun or time.monotonic() < ends_at):
            command = self._begin()
            if command is None:
                return
            begun.append(command)
            yield command

    def _run(self) -> BaseException | None:
        """Run a batch; return what broke it before anything of it began."""
        begun: list[Command] = []
        broken: BaseException | None = None
        self._writing = threading.get_ident()
        try:
            with patience.waiting_for_nobody():  # a decision that waits would hold the lock meanwhile
                self._writer.run(self._batch(begun))
        except BaseException as error:  # noqa: BLE001 - a writer thread that dies would leave every caller waiting
            for command in begun:
                if not command.done.is_set():
                    command.refuse(MutationOutcomeUnknown(type(error).__name__))
            broken = None if begun else error
        self._writing = 0
        self._crowd = len(begun)
        try:
            self._writer.release()
        except Exception as error:  # noqa: BLE001 - as above; who cannot release a lock will not get it again
            self._refuse_queue(StoreUnavailable(type(error).__name__))
        return broken

    def close(self) -> None:
        """Answer what is queued, then end the thread. Where the lock cannot be had in a moment the queue is refused."""
        if os.getpid() != self._pid:
            return
        with self._condition:
            self._closing = True
            self._condition.notify()
        self._thread.join()
        with self._turn:  # a caller that leads is waited for too
            pass
