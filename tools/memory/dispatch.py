"""Which tool a call is of, and what runs it. Imported when the first call comes: no greeting needs it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tools.conversation.tools import CONVERSATION
from tools.host.capabilities import GET, SEARCH
from tools.memory.call import Call
from tools.memory.engine import Engine
from tools.memory.gathered import is_gathered, run_gathered
from tools.memory.get import get
from tools.memory.mutation import run
from tools.memory.mutations import mutation_of
from tools.memory.search import search

Calls = Callable[[], Call]
"""Makes the call, bound to its scope: made only once it is known which scope that is."""

_READS: dict[str, Callable[[Engine, Call, dict[str, Any]], dict[str, Any]]] = {SEARCH: search, GET: get}


def value_of(
    engine: Engine, tool_name: str, arguments: dict[str, Any], bound: Calls, speaking: Calls
) -> dict[str, Any]:
    """Return the value of a tool's call: ``bound`` makes one about the host's scope, ``speaking`` about conversations.

    Raises:
        EngramError: the tool refuses. UntrustedContext: a purpose that the host did not bind.
    """
    conversation = CONVERSATION.get(tool_name)
    if conversation is not None:
        return conversation(engine, speaking(), arguments)
    call = bound()
    read = _READS.get(tool_name)
    if read is not None:
        return read(engine, call, arguments)
    if is_gathered(engine, call, tool_name):
        return run_gathered(engine, call, partial(mutation_of, engine, tool_name, arguments, call))
    return run(engine, call, mutation_of(engine, tool_name, arguments, call), arguments)
