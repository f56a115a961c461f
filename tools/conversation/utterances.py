"""What conversation events are made of: the content of a message, and the drafts of everything that is said about it.

A message, its tags and its revisions are sealed under one data key, so that erasing takes all of them. What is about no
message (project tags, aliases, profiles) is ledger, under the scope's key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from journal.chain import has_ended
from journal.errors import BlobMissing, NotFound
from journal.events import Draft, EventType
from journal.messages import LEGAL, MessageState, message_id_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from journal.events import Actor
    from journal.keyring import DataKey
    from journal.log import Journal
    from journal.scope import Scope
    from journal.store.port import Subject, View

FIELDS: Final = (
    "message", "role", "agent_platform", "client_name", "agent_key", "agent_model", "subagent", "subagent_model",
    "subagent_role", "device_name", "session_id", "cwd", "external_id", "created_at",
)  # fmt: skip
"""The fields of a message's content, as docs/design.md draws them. One that is not known is left out."""


def content_of(**fields: Any) -> dict[str, Any]:
    """Return a message's content: the fields that are known, in their order."""
    return {name: fields[name] for name in FIELDS if fields.get(name) is not None}


def message_draft(
    journal: Journal, scope: Scope, actor: Actor, key: DataKey, content: dict[str, Any], *,
    state: MessageState = MessageState.ACTIVE, event_id: bytes | None = None, intent: bytes | None = None,
) -> Draft:  # fmt: skip
    """Return the draft of a message, sealed under its data key.

    ``event_id`` and ``intent`` belong together: those of a message that may come twice and is to be kept once.
    """
    if event_id is None:
        event_id = journal.random_event_id(scope)
    message_id = message_id_of(event_id)
    return Draft(
        type=EventType.MESSAGE, event_id=event_id, actor=actor, subject=message_id, to_state=state, key_id=key.key_id,
        slot=key.slot, slot_generation=key.generation, intent=intent,
        content=journal.seal_content(scope, event_id, message_id, key, content),
    )  # fmt: skip


def state_draft(
    journal: Journal, scope: Scope, actor: Actor, kind: EventType, message_id: str, from_state: int, *,
    event_id: bytes | None = None, intent: bytes | None = None,
) -> Draft:  # fmt: skip
    """Return the draft of a pin, unpin, archive, restore or erasure of a message in a state.

    Where the state forbids it, the commit refuses the draft: AlreadyTerminal, IllegalTransition.
    """
    leads = LEGAL.get((kind, MessageState(from_state)), (MessageState(from_state),))
    return Draft(
        type=kind, event_id=journal.random_event_id(scope) if event_id is None else event_id, actor=actor,
        subject=message_id, from_state=from_state, to_state=leads[0], intent=intent,
    )  # fmt: skip


def content_draft(
    journal: Journal, view: View, scope: Scope, actor: Actor, kind: EventType, message_id: str, row: Subject,
    content: dict[str, Any],
) -> Draft:  # fmt: skip
    """Return the draft of a revision or of tags, sealed under the message's own key.

    Raises:
        BlobMissing: the message's key is lost, or was destroyed since the view began.
    """
    event_id = journal.random_event_id(scope)
    sealed = journal.seal_under(view, scope, event_id, message_id, row.key_id, content)
    return Draft(
        type=kind, event_id=event_id, actor=actor, subject=message_id, from_state=row.state, to_state=row.state,
        key_id=row.key_id, content=sealed,
    )  # fmt: skip


def ledger_draft(journal: Journal, scope: Scope, actor: Actor, kind: EventType, said: dict[str, Any]) -> Draft:
    """Return the draft of a project tag, an alias or a profile."""
    event_id = journal.random_event_id(scope)
    return Draft(type=kind, event_id=event_id, actor=actor, ledger=journal.seal_ledger(scope, event_id, None, said))


def standing_message(view: View, message_id: str, user: Collection[str]) -> Subject:
    """Return a message of this user that is not erased.

    Raises:
        NotFound: there is none, it is another user's, or it was erased: indistinguishable.
    """
    row = message_row(view, message_id, user)
    if has_ended(message_id, row.state):
        raise NotFound("the message was erased")
    return row


def message_row(view: View, message_id: str, user: Collection[str]) -> Subject:
    """Return a message of this user, whatever its state.

    Raises:
        NotFound: there is none, or it is another user's.
    """
    row = view.subject(message_id) if message_id.startswith("message_") else None
    event = None if row is None else view.event(row.born)
    if row is None or event is None or event.header.actor.principal not in user:
        raise NotFound("there is no such message of this user")
    return row


def read_message(journal: Journal, view: View, message_id: str) -> dict[str, Any] | None:
    """Return a message's content with its newest text and ``created_at``, or None where it was erased.

    Raises:
        BlobMissing: it is lost. JournalCorrupt: it is not what the journal says.
    """
    row = view.subject(message_id)
    event = None if row is None else view.event(row.born)
    if row is None or event is None:
        raise BlobMissing("a message's event is missing")
    content: dict[str, Any] | None = journal.content(view, event.header)
    if content is None:
        return None
    content.setdefault("created_at", event.header.recorded_at)
    if not row.decided:
        return content
    revision = view.event(row.decided)
    if revision is None or revision.header.subject != message_id:
        raise BlobMissing("a message's revision is missing")
    revised = journal.content(view, revision.header)
    return None if revised is None else {**content, "message": revised["message"]}
