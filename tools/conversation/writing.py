"""Committing what the conversation tools write: grants looked at again, keys given back where nothing was written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from journal.errors import MutationOutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from journal.events import Draft
    from journal.keyring import DataKey
    from journal.store.port import Committed, View
    from tools.memory.call import Call
    from tools.memory.engine import Engine


def commit_with_key(engine: Engine, call: Call, tool: str, draft: Callable[[DataKey], Draft]) -> Committed:
    """Commit one event under a fresh data key.

    Raises:
        EngramError: it was refused and nothing was written. MutationOutcomeUnknown: it may have been.
    """
    granted = engine.authority.permitted(call.binding, tool, call.now)
    call.refuse_cancelled()
    scope, journal = call.scope, engine.journal
    key = journal.take_key(scope)
    try:
        made = [draft(key)]

        def decide(view: View) -> Sequence[Draft]:
            engine.authority.still_permitted(call.binding, tool, granted, engine.clock.now(), view)
            return made

        return journal.commit(scope, decide, deadline=call.deadline, leading=True)[0]
    except MutationOutcomeUnknown:
        raise
    except Exception:
        journal.keyring.give_back(scope, key)
        raise


def commit_drafts(engine: Engine, call: Call, tool: str, decide: Callable[[View], Sequence[Draft]]) -> list[Committed]:
    """Commit what ``decide`` returns; it may run again.

    Raises:
        EngramError: it was refused and nothing was written. MutationOutcomeUnknown: it may have been.
    """
    granted = engine.authority.permitted(call.binding, tool, call.now)
    call.refuse_cancelled()

    def checked(view: View) -> Sequence[Draft]:
        engine.authority.still_permitted(call.binding, tool, granted, engine.clock.now(), view)
        return decide(view)

    return engine.journal.commit(call.scope, checked, deadline=call.deadline)
