"""How a mutation runs: replay, check, confirmation, commit, settle, answer. One path for all four.

The duplicate check comes before every other: a retry is a replay, whatever has become of clock, policy or state since.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from journal.errors import MutationOutcomeUnknown
from tools.host import confirmation
from tools.host.grants import check_authorized
from tools.host.guard import Operation, Outcome, standing

if TYPE_CHECKING:
    from journal.events import Draft
    from journal.store.port import Committed, View
    from tools.memory.call import Call
    from tools.memory.engine import Engine


class Mutation(Protocol):
    """One mutation of one call."""

    operation: Operation
    authorization: dict[str, Any]

    def check(self, view: View) -> None:
        """Refuse what the state, the clock or the host's policy forbids."""
        ...

    def answered(self, view: View) -> Committed | None:
        """Return the earlier event that answers this call without a new one (CONTRACT §3: duplicate_exact), or None."""
        ...

    def prepare(self) -> None:
        """Do what takes time, before the scope's lock: policy, sealing."""
        ...

    def drafts(self, view: View) -> list[Draft]:
        """Return the events, the one with the operation's event id among them."""
        ...

    def abandon(self) -> None:
        """Give back what ``prepare`` took: nothing was written."""
        ...

    def settle(self, event: Committed) -> None:
        """Finish what follows the commit; a failure here is never the commit's."""
        ...

    def value(self, event: Committed, *, first: bool) -> dict[str, Any]:
        """Return the tool's value; ``first`` is whether this call made the event."""
        ...


def run(engine: Engine, call: Call, mutation: Mutation, arguments: dict[str, Any]) -> dict[str, Any]:
    """Run a mutation to its value."""
    with engine.journal.store.view(call.scope) as view:
        found = standing(view, mutation)
    if found is not None:
        return mutation.value(found, first=False)
    call.refuse_cancelled()
    if call.binding.confirms(mutation.operation.tool):
        from tools.memory.approval import decide_by_form  # here: it runs mutations itself

        outcome = confirmation.obtain(engine, call, mutation, arguments, partial(decide_by_form, engine, call))
    else:
        outcome = execute(engine, call, mutation)
    if outcome.first:
        mutation.settle(outcome.event)
    return mutation.value(outcome.event, first=outcome.first)


def execute(
    engine: Engine, call: Call, mutation: Mutation, before: Callable[[View], Sequence[Draft]] = lambda view: ()
) -> Outcome:
    """Commit a mutation, with the events of ``before`` (a confirmation's approval) in the very same transaction.

    Everything is checked again under the scope's lock: what another process did since counts.
    """
    mutation.prepare()
    seen: list[Committed] = []

    def decide(view: View) -> Sequence[Draft]:
        seen.clear()
        found = standing(view, mutation)
        if found is not None:
            seen.append(found)
            return before(view)  # an approval is used up, also where there is nothing left to do
        check_authorized(engine.authority, call.binding, mutation.authorization, engine.clock.now(), view)
        return [*before(view), *mutation.drafts(view)]

    try:
        committed = engine.journal.commit(call.scope, decide, deadline=call.deadline)
    except MutationOutcomeUnknown:
        raise
    except Exception:
        mutation.abandon()
        raise
    if seen:
        mutation.abandon()
        return Outcome(seen[0], first=False)
    event = next(event for event in committed if event.header.event_id == mutation.operation.event_id)
    return Outcome(event, first=True)
