"""Mutations that compute and nothing else, prepared beside those of other callers by whoever writes (decision 0007).

They come to the same as ``tools.memory.mutation.run``: replay, check, commit, answer. A retry is answered by what
stands, before anything is sealed and whether or not the journal's lock can be had.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from journal.errors import MutationOutcomeUnknown
from tools.host.capabilities import CAPTURE
from tools.host.grants import check_authorized
from tools.host.guard import standing

if TYPE_CHECKING:
    from journal.events import Draft
    from journal.store.port import Committed, View
    from tools.memory.call import Call
    from tools.memory.engine import Engine
    from tools.memory.mutation import Mutation


def is_gathered(engine: Engine, call: Call, tool: str) -> bool:
    """Whether the calls of a tool compute and nothing else: nobody is asked, no program of the host's is waited for."""
    return tool == CAPTURE and engine.verifier is None and not call.binding.confirms(tool)


def run_gathered(engine: Engine, call: Call, make: Callable[[], Mutation]) -> dict[str, Any]:
    """Run a mutation to its value; ``make`` validates its arguments and authorises the call.

    Raises:
        EngramError: as ``make`` and ``tools.memory.mutation.run`` do.
    """
    return _Gathered(engine, call, make).run()


class _Standing(Exception):
    """The mutation was done before: nothing is written."""


class _Gathered:
    """One call. Its caller may leave it while somebody else still prepares it."""

    def __init__(self, engine: Engine, call: Call, make: Callable[[], Mutation]) -> None:
        self._engine = engine
        self._call = call
        self._make = make
        self._mutation: Mutation | None = None
        self._found: Committed | None = None
        self._is_left = False

    def run(self) -> dict[str, Any]:
        try:
            committed = self._engine.journal.commit(
                self._call.scope, self._decide, deadline=self._call.deadline, prepare=self._prepare
            )
        except _Standing:
            committed = []
        except MutationOutcomeUnknown:
            raise
        except Exception:
            self._abandon()
            raise
        mutation, found = self._mutation, self._found
        assert mutation is not None
        if found is not None:
            mutation.abandon()
            return mutation.value(found, first=False)
        event = next(event for event in committed if event.header.event_id == mutation.operation.event_id)
        mutation.settle(event)
        return mutation.value(event, first=True)

    def _prepare(self) -> None:
        mutation = self._mutation = self._make()
        with self._engine.journal.store.view(self._call.scope) as view:
            self._found = standing(view, mutation)
        if self._found is not None:
            raise _Standing
        self._call.refuse_cancelled()
        mutation.prepare()
        if self._is_left:
            mutation.abandon()

    def _decide(self, view: View) -> Sequence[Draft]:
        """Check everything again under the scope's lock: what another process did since counts."""
        engine, call, mutation = self._engine, self._call, self._mutation
        assert mutation is not None
        self._found = standing(view, mutation)
        if self._found is not None:
            return []
        check_authorized(engine.authority, call.binding, mutation.authorization, engine.clock.now(), view)
        return mutation.drafts(view)

    def _abandon(self) -> None:
        """Give back what was taken: at once, or, where it is being prepared still, as soon as it is."""
        self._is_left = True
        if self._mutation is not None:
            self._mutation.abandon()
