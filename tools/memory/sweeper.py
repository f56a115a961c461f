"""The sweeper: what a server finishes behind its calls, for itself and for processes that died."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from journal import layout, limits
from journal.errors import EngramError
from journal.store.lmdb.engine import LmdbStore
from journal.systemfaults import described
from projections.pagescrub import ProjectionScrub
from replay.scrub import scrub
from tools.damage import DAMAGED, DO
from tools.host.confirmation import expire_requests
from tools.lazylog import LazyLog
from tools.memory.erasure import Gathering, finish_erasures
from tools.memory.expiry import expire_records

if TYPE_CHECKING:
    from journal.scope import Scope
    from tools.host.binding import Binding
    from tools.memory.engine import Engine
    from tools.memory.semantic import Semantic

_log = LazyLog()


class Sweeper:
    """A thread that finishes what was left: destructions, erasures, stale confirmation requests, expired records."""

    def __init__(self, engine: Engine, beside: Sequence[Binding] = ()) -> None:
        """Begin; ``beside`` are bindings that the same store is served to, whose scopes are swept too."""
        self._engine = engine
        self._scopes: tuple[Scope, ...] = ()
        self._all_scopes: tuple[Scope, ...] = ()
        self.include((engine.binding, *beside))
        self._gathering = Gathering()
        self._expiry_at = 0.0
        self._wake = threading.Event()
        self._closing = False
        self._began_at = time.time()
        self._projection_scrub: ProjectionScrub | None = None
        self._thread = threading.Thread(target=self._run, name="engram-sweeper", daemon=True)
        self._thread.start()
        engine.nudge = self.nudge

    def include(self, bindings: Sequence[Binding]) -> None:
        """Sweep the scopes of these bindings too, from the next round on."""
        self._scopes = tuple(dict.fromkeys((*self._scopes, *(binding.scope for binding in bindings))))
        spoken = (binding.conversation.scope for binding in bindings)
        self._all_scopes = tuple(dict.fromkeys((*self._all_scopes, *self._scopes, *spoken)))

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
        engine = self._engine
        self._expire()
        self._attempt("pages", self._scrub_pages)
        self._attempt("projected pages", self._scrub_projections)
        for scope in self._all_scopes:
            self._attempt("requests", partial(expire_requests, engine, scope))
            self._attempt("erasures", partial(self._erase, scope))
            self._attempt("projections", engine.projections(scope).refresh)
            self._attempt("upkeep", engine.projections(scope).upkeep)
            if engine.semantic is not None:
                self._attempt("embeddings", partial(self._embed, engine.semantic, scope))
            if engine.checkpoints is not None:
                self._attempt("checkpoint", partial(engine.checkpoints.write_due, scope))
                self._attempt("scrub", partial(scrub, engine.journal, scope, engine.checkpoints.folder(scope)))

    def _scrub_pages(self) -> None:
        """Let the walk over the journal's pages go on; once it found damage, every call is answered with its code."""
        store = self._engine.journal.store
        if isinstance(store, LmdbStore):
            try:
                store.scrub_pages()
            except EngramError as error:
                _log.warning("journal_damaged", code=error.code, detail=error.detail, do=DO)

    def _scrub_projections(self) -> None:
        """Let the walk over the projections' pages go on; what it found damaged is built anew when it is next asked."""
        if self._projection_scrub is None:
            path = self._engine.journal.path / layout.PROJECTIONS
            if not os.access(path, os.W_OK):  # nothing is projected yet, or nothing may be written
                return
            with suppress(OSError):  # there is no room for a lock file, say: it is tried again
                self._projection_scrub = ProjectionScrub(path, self._began_at)
        if self._projection_scrub is None:
            return
        for name, why in self._projection_scrub.step().items():
            _log.warning("projection_damaged", projection=name, detail=why, do="nothing: it is built anew")

    def _erase(self, scope: Scope) -> None:
        if self._gathering.is_due(self._engine, scope):
            finish_erasures(self._engine, scope, time.monotonic() + limits.ERASURE_BOUND_SECONDS)
        else:
            self._engine.journal.finish_destructions(scope, time.monotonic() + limits.ERASURE_BOUND_SECONDS)

    def _embed(self, semantic: Semantic, scope: Scope) -> None:
        """Embed for a while; what is left has its turn soon, after whatever else is due."""
        until = time.monotonic() + limits.SEMANTIC_SWEEP_SECONDS
        left = 1
        while left and time.monotonic() < until and not self._closing:
            left = semantic.step(self._engine.projections(scope), until)
        if left:
            self.nudge()

    def _expire(self) -> None:
        """Look for expired records now and then; where a round was full, in every round."""
        now = time.monotonic()
        if now < self._expiry_at:
            return
        self._expiry_at = now + limits.EXPIRY_INTERVAL_SECONDS
        for scope in self._scopes:
            self._attempt("expiry", partial(self._expire_in, scope, now))

    def _expire_in(self, scope: Scope, now: float) -> None:
        if expire_records(self._engine, scope, now + limits.ERASURE_BOUND_SECONDS):
            self._expiry_at = now

    @staticmethod
    def _attempt(step: str, act: Callable[[], object]) -> None:
        try:
            act()
        except EngramError as error:
            say = _log.info if error.retriable else _log.warning
            mend = {"do": DO} if isinstance(error, DAMAGED) else {}
            say("sweep_postponed", step=step, code=error.code, detail=error.detail, **mend)
        except Exception as error:  # noqa: BLE001 - a sweeper that dies would leave erasures pending for ever
            _log.warning("sweep_failed", step=step, **described(error))

    def close(self) -> None:
        """End the thread; a round under way is finished."""
        self._closing = True
        self._wake.set()
        self._thread.join()
        if self._projection_scrub is not None:
            self._projection_scrub.close()
