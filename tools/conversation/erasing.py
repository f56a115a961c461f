"""Erasing a message for good: a human's approval, the end of its key, and projections that never held it.

The operation's identity is principal, erase and message id, so that a retry, under whatever circumstances, joins the
open request or replays the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from journal import identity
from journal.chain import has_ended
from journal.errors import AlreadyTerminal
from journal.events import EventType
from tools.conversation.arguments import manage_knowledge_arguments
from tools.conversation.platforms import canonical_platform
from tools.conversation.save_message import actor_of
from tools.conversation.utterances import message_row, standing_message, state_draft
from tools.host.capabilities import MANAGE_KNOWLEDGE
from tools.host.grants import authorize
from tools.host.guard import Operation
from tools.memory.erasure import erase_now
from tools.memory.mutation import run

if TYPE_CHECKING:
    from journal.events import Draft
    from journal.store.port import Committed, View
    from tools.memory.call import Call
    from tools.memory.engine import Engine


def erase(engine: Engine, call: Call, raw: dict[str, Any]) -> dict[str, Any]:
    """Erase a message, once a human has approved it; return the tool's value.

    Raises:
        NotFound: no such message of this user. GateFailed: no channel, denied, expired, or not decided yet.
    """
    return run(engine, call, EraseMessage(engine, call, raw), raw)


class EraseMessage:
    """One erasure (``tools.memory.mutation.Mutation``)."""

    def __init__(self, engine: Engine, call: Call, raw: dict[str, Any]) -> None:
        """Validate the arguments and authorise the call; InvalidSchema where they do not fit."""
        self._engine = engine
        self._call = call
        self._message_id = str(manage_knowledge_arguments(raw).memory_id)
        event_id, intent = erasure_identity(engine, call, self._message_id)
        request_id = identity.request(engine.journal.keyring.identity_key(call.scope), event_id, intent)
        self.operation = Operation(MANAGE_KNOWLEDGE, self._message_id, event_id, intent, request_id)
        self.authorization = authorize(
            call.binding, MANAGE_KNOWLEDGE, engine.resource_digest(call.scope, self._message_id), call.now,
            randomness=engine.randomness, authority=engine.authority,
        )  # fmt: skip

    def check(self, view: View) -> None:
        """Refuse an unknown message, another user's, and one that is erased already."""
        row = message_row(view, self._message_id, self._call.binding.conversation.user)
        if has_ended(self._message_id, row.state):
            raise AlreadyTerminal("the message was erased")

    def answered(self, view: View) -> Committed | None:
        """An erasure has no duplicate under another identity."""
        return None

    def prepare(self) -> None:
        """Nothing takes time here."""

    def drafts(self, view: View) -> list[Draft]:
        """Return the terminal event."""
        row = standing_message(view, self._message_id, self._call.binding.conversation.user)
        actor = actor_of(self._call, canonical_platform(self._call.client_name))
        operation = self.operation
        return [
            state_draft(
                self._engine.journal, self._call.scope, actor, EventType.MESSAGE_ERASED, self._message_id, row.state,
                event_id=operation.event_id, intent=operation.intent,
            )
        ]  # fmt: skip

    def abandon(self) -> None:
        """Nothing was taken."""

    def settle(self, event: Committed) -> None:
        """Destroy the key and clean the projections; what is left of it is finished by the sweeper."""
        settle_erasure(self._engine, self._call)

    def value(self, event: Committed, *, first: bool) -> dict[str, Any]:
        """Return the tool's value; destruction and invalidation tell the present."""
        engine, scope = self._engine, self._call.scope
        coverage = engine.coverage(scope, self._message_id)
        destroyed = engine.journal.key_is_destroyed(scope, self._message_id)
        return {
            "erased": True,
            "id": self._message_id,
            "key_destruction": "complete" if destroyed else "pending",
            "projection_invalidation": "pending" if coverage is None else "complete",
        }


def erasure_identity(engine: Engine, call: Call, message_id: str) -> tuple[bytes, bytes]:
    """Return the event id and the intent of a message's erasure: one for whoever asks for it, and however."""
    key = engine.journal.keyring.identity_key(call.scope)
    event_id = identity.message_erasure(key, call.binding.principal, message_id)
    return event_id, identity.intent(key, MANAGE_KNOWLEDGE, message_id, {"action": "remove", "erase": True})


def settle_erasure(engine: Engine, call: Call) -> None:
    """Finish what follows the commit of an erasure; a failure here is never the commit's."""
    engine.settle(call.scope)
    erase_now(engine, call.scope)
