"""manage_knowledge: memories that a person wants kept, revised, put away or erased, and the sub profile.

A memory is a message that is pinned from birth. It is stored whatever a model does: where none has tagged or embedded
it yet, the answer says pending.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from journal.errors import IllegalTransition
from journal.events import EventType
from journal.messages import MessageState
from tools.conversation import profile_writing
from tools.conversation.arguments import ManageKnowledgeArguments, manage_knowledge_arguments
from tools.conversation.erasing import erase
from tools.conversation.platforms import canonical_platform
from tools.conversation.save_message import UNKNOWN_MODEL, actor_of, surroundings, write_message
from tools.conversation.utterances import content_draft, content_of, standing_message, state_draft
from tools.conversation.writing import commit_drafts
from tools.host.capabilities import MANAGE_KNOWLEDGE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from journal.events import Draft
    from journal.store.port import Committed, Subject, View
    from tools.memory.call import Call
    from tools.memory.engine import Engine


def manage_knowledge(engine: Engine, call: Call, raw: dict[str, Any]) -> dict[str, Any]:
    """Return the tool's value.

    memory: add and update give {stored, id, tagged, embedded}, of an archived one {archived} too; remove gives
    {archived, id}, or with ``erase`` {erased, id, key_destruction, projection_invalidation}. sub_profile: {stored,
    sub_profile}.

    Raises:
        InvalidSchema: the arguments do not fit, or the profile would get too long. NotFound: no such memory of this
        user. IllegalTransition: the memory is archived already. GateFailed: an erasure that nobody approved.
        Unauthorized, AuthorizationRevoked: it is not granted (any more). MutationOutcomeUnknown: it may have happened.
    """
    arguments = manage_knowledge_arguments(raw)
    if arguments.target == "sub_profile":
        return profile_writing.change_sub_profile(engine, call, arguments.action, arguments.content or "")
    if arguments.action == "add":
        return _add(engine, call, str(arguments.content))
    if arguments.action == "update":
        return _update(engine, call, arguments)
    if arguments.erase is True:
        return erase(engine, call, raw)
    return _archive(engine, call, str(arguments.memory_id))


def _add(engine: Engine, call: Call, text: str) -> dict[str, Any]:
    platform = canonical_platform(call.client_name)
    content = content_of(
        message=text, role="assistant", agent_platform=platform, agent_model=UNKNOWN_MODEL, **surroundings(call)
    )
    event = write_message(engine, call, MANAGE_KNOWLEDGE, content, MessageState.PINNED)
    return {"stored": True, "id": event.header.subject, **_modelled(engine, call, event.header.cursor, event)}


def _update(engine: Engine, call: Call, arguments: ManageKnowledgeArguments) -> dict[str, Any]:
    message_id, said = str(arguments.memory_id), {"message": arguments.content}
    actor = actor_of(call, canonical_platform(call.client_name))

    rows: list[Subject] = []

    def decide(view: View) -> Sequence[Draft]:
        row = standing_message(view, message_id, call.binding.conversation.user)
        rows[:] = [row]
        kind = EventType.MESSAGE_REVISION
        return [content_draft(engine.journal, view, call.scope, actor, kind, message_id, row, said)]

    [event] = commit_drafts(engine, call, MANAGE_KNOWLEDGE, decide)
    value = {"stored": True, "id": message_id, **_modelled(engine, call, rows[0].born, event)}
    if rows[0].state == MessageState.ARCHIVED:  # else nobody would know why it is not found
        value["archived"] = True
    return value


def _modelled(engine: Engine, call: Call, born: int, event: Committed) -> dict[str, str]:
    """Return {tagged, embedded} of a text that an event has just brought: what a model has done, or has still to do."""
    embedded = False
    if engine.semantic is not None:
        embedded = engine.semantic.embed(engine.projections(call.scope), born, event.header.cursor)
    return {"tagged": "pending", "embedded": "ok" if embedded else "pending"}


def _archive(engine: Engine, call: Call, message_id: str) -> dict[str, Any]:
    """Put a memory away losslessly; a pinned one is unpinned first, both events in one transaction."""
    actor = actor_of(call, canonical_platform(call.client_name))

    def decide(view: View) -> Sequence[Draft]:
        state = standing_message(view, message_id, call.binding.conversation.user).state
        if state == MessageState.ARCHIVED:
            raise IllegalTransition("the message is archived already")
        return archive_drafts(engine, call, message_id, state, actor)

    commit_drafts(engine, call, MANAGE_KNOWLEDGE, decide)
    return {"archived": True, "id": message_id}


def archive_drafts(engine: Engine, call: Call, message_id: str, state: int, actor: Any) -> list[Draft]:
    """Return the events that archive a message which stands in this state."""
    journal, scope = engine.journal, call.scope
    drafts = []
    if state == MessageState.PINNED:
        drafts.append(state_draft(journal, scope, actor, EventType.MESSAGE_UNPIN, message_id, state))
        state = MessageState.ACTIVE
    return [*drafts, state_draft(journal, scope, actor, EventType.MESSAGE_ARCHIVE, message_id, state)]
