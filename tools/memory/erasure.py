"""Erasure to the end: after a forgetting, no projection may hold a byte from which text or words can be read.

LMDB keeps deleted bytes in free pages, so the projections are compacted into new generations and the old ones removed,
which needs everybody who has them open to let go. Only then is the erasure-done event written, with a receipt that
binds each projection and its cursor. Forgettings are batched: one compaction serves all that wait.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from journal import failpoints, identity, limits
from journal.digests import sealed_receipt
from journal.errors import EngramError
from journal.events import Actor, Draft, EventType
from replay.rebuild import Progress, compact
from tools.host.confirmation import expire_requests

if TYPE_CHECKING:
    from journal.scope import Scope
    from journal.store.port import View
    from tools.memory.engine import Engine

_log = structlog.get_logger()
_SYSTEM = Actor("engram:system")


def finish_erasures(
    engine: Engine, scope: Scope, deadline: float | None = None, progress: Progress = lambda _done, _total: None
) -> bool:
    """Bring every forgetting of a scope to its end; return whether none is left.

    Safe to repeat, to interrupt and to run from several processes. ``deadline`` is in ``time.monotonic`` seconds.
    ``progress`` is told (cursor, head) of each projection that is built anew.

    Raises:
        EngramError: the projections could not be compacted now.
    """
    with engine.journal.store.view(scope) as view:
        waiting = view.pending_erasures()
    # After that look, so that every key up to the last that waits is destroyed before its mark is taken away below.
    engine.journal.finish_destructions(scope, deadline)
    if not waiting:
        return True
    result = compact(engine.projections(scope), floor=waiting[-1][0], progress=progress, deadline=deadline)
    failpoints.reach("erasure.compacted")
    if not result.complete:
        return False
    coverage = sealed_receipt("coverage", {"schema_version": 1, "scope_ref": scope.ref, "projections": result.coverage})
    for start in range(0, len(waiting), limits.BATCH_MAX_EVENTS):
        part = waiting[start : start + limits.BATCH_MAX_EVENTS]
        engine.journal.commit(scope, partial(_done_drafts, engine, scope, part, coverage), deadline=deadline)
    return True


def _done_drafts(
    engine: Engine, scope: Scope, waiting: Sequence[tuple[int, str]], coverage: dict[str, Any], view: View
) -> Sequence[Draft]:
    """Return the events that end those of these erasures that nobody has ended yet."""
    key = engine.journal.keyring.identity_key(scope)
    left = {subject for _, subject in view.pending_erasures()}
    drafts = []
    for cursor, subject in waiting:
        if subject in left:
            event_id = identity.erasure(key, subject)
            ledger = engine.journal.seal_ledger(scope, event_id, subject, {"coverage": coverage})
            drafts.append(
                Draft(
                    type=EventType.ERASURE_DONE, event_id=event_id, actor=_SYSTEM, subject=subject,
                    related=str(cursor), ledger=ledger,
                )
            )  # fmt: skip
    return drafts


def erase_now(engine: Engine, scope: Scope) -> None:
    """Bring forgettings to their end at once where the scope is small enough for it; else the sweeper does."""
    if engine.journal.store.head(scope).cursor > limits.ERASURE_INLINE_MAX_EVENTS:
        return
    try:
        finish_erasures(engine, scope, time.monotonic() + limits.ERASURE_INLINE_SECONDS)
    except EngramError as error:
        _log.info("erasure_postponed", code=error.code)


class Sweeper:
    """A thread that finishes what was left: destructions, erasures, stale confirmation requests."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._wake = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="engram-sweeper", daemon=True)
        self._thread.start()
        engine.nudge = self.nudge

    def nudge(self) -> None:
        """Say that there is something to do; it is done soon."""
        self._wake.set()

    def _run(self) -> None:
        while not self._closing:
            self._wake.wait(limits.SWEEP_INTERVAL_SECONDS)
            if self._closing:
                return
            self._wake.clear()
            self.sweep()

    def sweep(self) -> None:
        """Do one round. What fails is tried again in the next one, and keeps nothing else from being done."""
        engine, binding = self._engine, self._engine.binding
        for scope in {binding.scope: None, binding.conversation.scope: None}:
            deadline = time.monotonic() + limits.ERASURE_BOUND_SECONDS
            self._attempt("requests", partial(expire_requests, engine, scope))
            self._attempt("erasures", partial(finish_erasures, engine, scope, deadline))
            self._attempt("projections", engine.projections(scope).refresh)
            self._attempt("upkeep", engine.projections(scope).upkeep)

    @staticmethod
    def _attempt(step: str, act: Callable[[], object]) -> None:
        try:
            act()
        except EngramError as error:
            _log.info("sweep_postponed", step=step, code=error.code)
        except Exception as error:  # noqa: BLE001 - a sweeper that dies would leave erasures pending for ever
            _log.warning("sweep_failed", step=step, error=type(error).__name__)

    def close(self) -> None:
        """End the thread; a round under way is finished."""
        self._closing = True
        self._wake.set()
        self._thread.join()
