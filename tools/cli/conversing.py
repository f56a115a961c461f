"""Opening what a command on conversations works on: the scope in which they lie, and the person's own call there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from journal import limits
from tools.cli.opening import Bound, opened_engine
from tools.cli.options import workspace_name

if TYPE_CHECKING:
    from journal.scope import Scope
    from tools.memory.call import Call
    from tools.memory.engine import Engine


@contextmanager
def opened_conversation(
    *, readonly: bool, client_name: str | None = None, quiet: bool = False
) -> Iterator[tuple[Engine, Call]]:
    """Yield the engine, and the call of the person at the terminal about the conversations.

    ``client_name`` is the agent for which the person asks, where there is one; with ``quiet`` nothing is logged.

    Raises:
        HostFileError: the host file cannot be used. StoreUnavailable, JournalCorrupt: the store cannot be opened.
    """
    with ExitStack() as stack:
        engine, bound = stack.enter_context(opened_engine(readonly=readonly, quiet=quiet))
        if readonly and not _are_begun(engine, bound):
            stack.close()  # such a scope has no keys yet, and looking into it makes them
            engine, bound = stack.enter_context(opened_engine(readonly=False, quiet=quiet))
        yield engine, person_call(engine, bound, client_name)


def _are_begun(engine: Engine, bound: Bound) -> bool:
    """Whether anything was ever written to the scope of the conversations, and to that of the records."""
    return all(engine.journal.store.head(scope).cursor for scope in (conversation_scope(bound), bound.scope))


def conversation_scope(bound: Bound) -> Scope:
    """Return the scope in which the conversations lie: the one that ``--workspace`` names, else its tenant's."""
    return bound.binding.conversation.scope if workspace_name() is None else bound.scope


def person_call(engine: Engine, bound: Bound, client_name: str | None = None) -> Call:
    """Return the person's call about the conversations.

    Its events belong to the bound principal, as an agent's own do, and name the person as their agent.
    """
    from journal.events import Actor
    from tools.memory.call import Call

    binding, scope = bound.binding, conversation_scope(bound)
    return Call(
        binding=replace(binding, scope=scope, conversation=replace(binding.conversation, scope=scope)),
        actor=Actor(binding.principal, f"operator:{bound.operator}"),
        now=engine.clock.now(),
        deadline=time.monotonic() + limits.CALL_DEADLINE_SECONDS,
        client_name=client_name,
    )
