"""memory_startup: the brief with which an agent begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tools.conversation.arguments import memory_startup_arguments
from tools.conversation.brief import Asked, brief
from tools.conversation.platforms import canonical_platform
from tools.conversation.save_message import working_directory
from tools.host.capabilities import MEMORY_STARTUP

if TYPE_CHECKING:
    from tools.memory.call import Call
    from tools.memory.engine import Engine


def memory_startup(engine: Engine, call: Call, raw: dict[str, Any]) -> dict[str, Any]:
    """Return the tool's value: {brief}.

    Raises:
        InvalidSchema: the arguments do not fit. Unauthorized, AuthorizationRevoked: not granted.
        ProjectionStale: the projections could not be brought to the head before the deadline.
    """
    arguments = memory_startup_arguments(raw, short_term_days=call.binding.conversation.short_term_days)
    granted = engine.authority.permitted(call.binding, MEMORY_STARTUP, call.now)
    asked = Asked(
        platform=canonical_platform(call.client_name), days=arguments.short_term_days,
        is_separate=arguments.agent_platform_filter, place=working_directory(),
    )  # fmt: skip
    text = brief(engine, call, asked)
    engine.authority.still_permitted(call.binding, MEMORY_STARTUP, granted, engine.clock.now())
    return {"brief": text}
