"""Erasure to the end: after a forgetting, no projection may hold a byte from which text or words can be read.

LMDB keeps deleted bytes in free pages, so the projections are compacted into new generations and the old ones removed,
which needs everybody who has them open to let go. Only then is the erasure-done event written, with a receipt that
binds each projection and its cursor. One compaction serves all that wait; in a large scope they gather first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from journal import failpoints, identity, limits
from journal.digests import sealed_receipt
from journal.errors import EngramError
from journal.events import Actor, Draft, EventType
from journal.systemfaults import faults_told
from replay.rebuild import Progress, compact
from tools.lazylog import LazyLog

if TYPE_CHECKING:
    from journal.scope import Scope
    from journal.store.port import View
    from tools.memory.engine import Engine

_log = LazyLog()
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
        with faults_told():
            finish_erasures(engine, scope, time.monotonic() + limits.ERASURE_INLINE_SECONDS)
    except EngramError as error:
        _log.info("erasure_postponed", code=error.code)


class Gathering:
    """Which scopes' forgettings a sweeper finishes now, and which still gather: a compaction of a large scope is dear.

    Kept in memory: a process that starts anew lets them gather anew, and whichever process is first serves all.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._since: dict[bytes, float] = {}

    def is_due(self, engine: Engine, scope: Scope) -> bool:
        """Whether the forgettings that wait in a scope, if any do, need not gather any longer."""
        with engine.journal.store.view(scope) as view:
            waiting = len(view.pending_erasures())
            is_large = view.head.cursor > limits.ERASURE_INLINE_MAX_EVENTS
        now = self._monotonic()
        since = self._since.setdefault(scope.tag, now)
        if not waiting:
            del self._since[scope.tag]
        gathered = waiting >= limits.ERASURE_GATHER_MAX or now - since >= limits.ERASURE_GATHER_SECONDS
        return not is_large or gathered
