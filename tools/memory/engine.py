"""The engine: journal, projections and the host's decisions under one roof, for one binding."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from journal import identity, layout, limits
from journal.checkpointing import Checkpoints
from journal.digests import digest
from journal.errors import EngramError
from journal.log import Journal
from journal.rootchange import root_key_in_force
from journal.systemfaults import faults_told
from projections.catchup import Projections
from projections.serving import make_projections
from tools.host.authority import Authority
from tools.host.forms import FormsShown
from tools.host.notice import Notice
from tools.host.outside import tell_outside
from tools.host.policies.builtin import policy_named, policy_of
from tools.host.rates import RateLimiter, Rates
from tools.host.telemetry.spans import NO_TRACING
from tools.host.verifiers.builtin import verifier_of
from tools.lazylog import LazyLog
from tools.memory.call import Call
from tools.memory.semantic import Semantic, channel

if TYPE_CHECKING:
    from journal.clock import Clock, Randomness
    from journal.events import Actor
    from journal.scope import Scope
    from tools.host.binding import Binding
    from tools.host.file import HostFile
    from tools.host.policies.port import Policy
    from tools.host.verifiers.port import Verifier
    from tools.memory.assertions import Assertions

_log = LazyLog()


class Engine:
    """What the six tools stand on."""

    policy_timeout_milliseconds = limits.POLICY_TIMEOUT_SECONDS * 1000

    def __init__(
        self,
        journal: Journal,
        binding: Binding,
        *,
        policy: Policy | None = None,
        notify: Callable[[str], None] = lambda kind: None,
        checkpoints: Checkpoints | None = None,
        semantic: Semantic | None = None,
        verifier: Verifier | None = None,
    ) -> None:
        self.journal = journal
        self.binding = binding
        self.policy = policy if policy is not None else policy_named(binding.policy, journal.clock)
        self.notify = notify
        self.checkpoints = checkpoints
        self.verifier = verifier  # None: what is captured is asserted, and no more
        self.semantic = semantic  # None: the host names no provider
        self.tracing = NO_TRACING
        self.authority = Authority(journal)
        self.rates = RateLimiter(Rates())
        self._projections: dict[bytes, Projections] = {}
        self._assertions: dict[bytes, Assertions] = {}
        self._mutex = threading.Lock()
        self.waiting = threading.BoundedSemaphore(limits.WAITING_CALLS_MAX)  # calls that wait for a person
        self.forms_shown = FormsShown()
        self.nudge: Callable[[], None] = lambda: None  # tells a sweeper, where there is one, that something is left

    @classmethod
    def open(cls, host_file: HostFile, binding: Binding, *, readonly: bool = False) -> Engine:
        """Open a host's store.

        Raises:
            StoreUnavailable: the store or its root key cannot be used. JournalCorrupt: the store's files are broken.
        """
        in_force = partial(root_key_in_force, host_file.store_path, host_file.root_key)
        journal = Journal.open(host_file.store_path, in_force(), readonly=readonly, reread_root=in_force)
        tell_outside(journal)
        checkpoints = Checkpoints(journal, host_file.anchor, host_file.checkpoint_every_events)
        notify, semantic = Notice(binding.confirmation).tell, channel(journal, host_file.semantic)
        engine = cls(
            journal, binding, policy=policy_of(host_file.admission, journal.clock), notify=notify,
            checkpoints=checkpoints, semantic=semantic, verifier=verifier_of(host_file.verification),
        )  # fmt: skip
        engine.rates = RateLimiter(host_file.rates)
        engine.policy_timeout_milliseconds = host_file.admission.timeout_seconds * 1000
        return engine

    def bound_to(self, binding: Binding) -> Engine:
        """Return a view of this engine for another binding: one store, one set of projections, one of everything.

        It is not closed; closing this one closes what both stand on.
        """
        view = copy(self)
        view.binding = binding
        return view

    def projections(self, scope: Scope) -> Projections:
        """Return a scope's projections, opened when first asked for."""
        if scope.tag not in self._projections:
            with faults_told():
                self.journal.keyring.identity_key(scope)  # it may have to wait, which nobody does who has the mutex
        with self._mutex:
            found = self._projections.get(scope.tag)
            if found is None:
                with faults_told():
                    found = Projections(self.journal, scope, self.journal.path / layout.PROJECTIONS, make_projections)
                self._projections[scope.tag] = found
            return found

    def assertions(self, scope: Scope) -> Assertions:
        """Return what a scope's records assert, made when first asked for."""
        from tools.memory.assertions import Assertions

        with self._mutex:
            return self._assertions.setdefault(scope.tag, Assertions(self.journal, scope))

    @property
    def clock(self) -> Clock:
        """The clock of every check."""
        return self.journal.clock

    @property
    def randomness(self) -> Randomness:
        """Where nonces, keys and audit ids are drawn."""
        return self.journal.randomness

    def call_of(self, actor: Actor, principal: str, scope: Scope) -> Call:
        """Return the call that runs an approved operation in its scope: its actor is the one who asked."""
        assert principal == self.binding.principal
        deadline = time.monotonic() + limits.CALL_DEADLINE_SECONDS
        return Call(binding=replace(self.binding, scope=scope), actor=actor, now=self.clock.now(), deadline=deadline)

    def resource_digest(self, scope: Scope, target: str) -> str:
        """Return the digest by which an authorization receipt names a target."""
        return digest(b"engram/resource/v1\0", {"scope_ref": scope.ref, "target": target})

    # --- what follows a commit --------------------------------------------------------------------

    def settle(self, scope: Scope) -> None:
        """Destroy what a terminal event left to destroy. A failure is never the commit's: the sweeper comes again."""
        try:
            with faults_told():
                self.journal.finish_destructions(scope, time.monotonic() + limits.ERASURE_INLINE_SECONDS)
        except EngramError as error:
            _log.warning("destruction_postponed", code=error.code)
        self.nudge()

    def coverage(self, scope: Scope, candidate_id: str) -> str | None:
        """Return the digest of the coverage receipt of a forgetting, or None while its erasure is not complete."""
        event_id = identity.erasure(self.journal.keyring.identity_key(scope), candidate_id)
        with self.journal.store.view(scope) as view:
            done = view.outcome(event_id)
            return None if done is None else str(self.journal.ledger(view, done.header)["coverage"]["receipt_digest"])

    def close(self) -> None:
        """Release the projections, close the journal."""
        if self.semantic is not None:
            self.semantic.close()
        for projections in self._projections.values():
            projections.close()
        self.journal.close()
        self.tracing.close()
