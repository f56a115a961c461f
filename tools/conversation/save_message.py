"""save_message: what was said, stored as it was said, before anything thinks about it."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from journal import limits
from journal.clock import instant
from journal.events import Actor
from journal.messages import MessageState
from tools.conversation.arguments import SaveMessageArguments, save_message_arguments
from tools.conversation.platforms import canonical_platform
from tools.conversation.utterances import content_of, message_draft
from tools.conversation.writing import commit_with_key
from tools.host.capabilities import SAVE_MESSAGE

if TYPE_CHECKING:
    from journal.events import Draft
    from journal.keyring import DataKey
    from journal.store.port import Committed
    from tools.memory.call import Call
    from tools.memory.engine import Engine

UNKNOWN_MODEL = "unknown"


def save_message(engine: Engine, call: Call, raw: dict[str, Any]) -> dict[str, Any]:
    """Return the tool's value: {stored, id, role, created_at}.

    Raises:
        InvalidSchema: the arguments do not fit. Unauthorized, AuthorizationRevoked: it is not granted (any more).
        StoreUnavailable, DeadlineExceeded: nothing was written. MutationOutcomeUnknown: it may have been.
    """
    arguments = save_message_arguments(raw)
    content = _content(arguments, call)
    event = write_message(engine, call, SAVE_MESSAGE, content)
    return {
        "stored": True,
        "id": event.header.subject,
        "role": arguments.role,
        "created_at": instant(event.header.recorded_at),
    }


def write_message(
    engine: Engine, call: Call, tool: str, content: dict[str, Any], state: MessageState = MessageState.ACTIVE
) -> Committed:
    """Commit a message of this call and return its event."""
    actor = actor_of(call, content["agent_platform"])

    def draft(key: DataKey) -> Draft:
        return message_draft(engine.journal, call.scope, actor, key, content, state=state)

    return commit_with_key(engine, call, tool, draft)


def _content(arguments: SaveMessageArguments, call: Call) -> dict[str, Any]:
    """Return what is stored of a saved message: what was said, who said it, and where."""
    told: dict[str, Any] = {
        name: value
        for name in ("agent_model", "subagent_model", "subagent_role")
        if (value := getattr(arguments, name)) is not UNSET
    }
    if arguments.subagent:
        told["subagent"] = True
    if arguments.role == "assistant":
        told.setdefault("agent_model", UNKNOWN_MODEL)
    named = call.client_name if arguments.agent_platform is UNSET else arguments.agent_platform
    return content_of(
        message=arguments.message, role=arguments.role, agent_platform=canonical_platform(named), **told,
        **surroundings(call),
    )  # fmt: skip


def surroundings(call: Call) -> dict[str, Any]:
    """Return what the host knows of where something was said; never what a caller claims."""
    bound = call.binding.conversation
    return {
        "client_name": _name(call.client_name), "agent_key": bound.agent_key, "device_name": bound.device,
        "session_id": call.session_id, "cwd": working_directory(),
    }  # fmt: skip


def _name(text: str | None) -> str | None:
    """Return a name as the client sent it, cut where it is longer than any name."""
    return None if text is None else text.encode(errors="replace")[: limits.REF_MAX_BYTES].decode(errors="ignore")


@cache
def working_directory() -> str | None:
    """Return where the client started this process, or None where that place is gone; it never changes here."""
    try:
        path = os.getcwdb()  # noqa: PTH109 - the bytes, for a name need not be UTF-8
    except OSError:
        return None
    return path.decode(errors="replace")


def actor_of(call: Call, platform: str) -> Actor:
    """Return who an event names as its maker: the agent that the host bound, else the platform."""
    return Actor(call.actor.principal, call.actor.agent_id or platform, call.actor.session)
