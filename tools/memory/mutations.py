"""The mutations that pass the guard, by their tools' names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tools.conversation.erasing import EraseMessage
from tools.host.capabilities import CAPTURE, FORGET, MANAGE_KNOWLEDGE, REQUEST_ADMISSION, WITHDRAW
from tools.memory.admission import Admission
from tools.memory.call import Call
from tools.memory.capture import Capture
from tools.memory.engine import Engine
from tools.memory.mutation import Mutation
from tools.memory.transition import Forget, Withdraw

_MUTATIONS: dict[str, Callable[[Engine, Call, dict[str, Any]], Mutation]] = {
    CAPTURE: Capture,
    REQUEST_ADMISSION: Admission,
    WITHDRAW: Withdraw,
    FORGET: Forget,
    MANAGE_KNOWLEDGE: EraseMessage,  # what of it destroys
}


def mutation_of(engine: Engine, tool: str, arguments: dict[str, Any], call: Call) -> Mutation:
    """Return the mutation of a tool's call, its arguments validated and the call authorised."""
    return _MUTATIONS[tool](engine, call, arguments)
