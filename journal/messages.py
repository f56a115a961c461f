"""The states of a conversation message, and which event leads from which to which.

A pinned message is never archived as it stands: it is unpinned first, so that an archive can never take a pin away
unsaid. Erasing is the one end; a revision and a tag change what a message says, not its state.
"""

from __future__ import annotations

from enum import IntEnum

from journal.errors import AlreadyTerminal, IllegalTransition
from journal.events import EventType

PREFIX = "message_"
_ID_BYTES = 16


class MessageState(IntEnum):
    """The state of a message. ABSENT is where one begins; ERASED is terminal."""

    ABSENT = 0
    ACTIVE = 1
    PINNED = 2
    ARCHIVED = 3
    ERASED = 4

    @property
    def label(self) -> str:
        """The state's name in lower case."""
        return self.name.lower()


_STANDING = (MessageState.ACTIVE, MessageState.PINNED, MessageState.ARCHIVED)

LEGAL: dict[tuple[EventType, MessageState], tuple[MessageState, ...]] = {
    (EventType.MESSAGE, MessageState.ABSENT): (MessageState.ACTIVE, MessageState.PINNED),
    (EventType.MESSAGE_PIN, MessageState.ACTIVE): (MessageState.PINNED,),
    (EventType.MESSAGE_UNPIN, MessageState.PINNED): (MessageState.ACTIVE,),
    (EventType.MESSAGE_ARCHIVE, MessageState.ACTIVE): (MessageState.ARCHIVED,),
    (EventType.MESSAGE_RESTORE, MessageState.ARCHIVED): (MessageState.ACTIVE,),
    **{(EventType.MESSAGE_REVISION, state): (state,) for state in _STANDING},
    **{(EventType.MESSAGE_TAG, state): (state,) for state in _STANDING},
    **{(EventType.MESSAGE_ERASED, state): (MessageState.ERASED,) for state in _STANDING},
}
"""Every legal cell: (event, from) -> where it may lead."""

MESSAGE_EVENTS = frozenset(kind for kind, _ in LEGAL)
"""The events whose subject is a message."""

UNDER_MESSAGE_KEY = frozenset({EventType.MESSAGE_REVISION, EventType.MESSAGE_TAG})
"""Events whose content is sealed under the key that their message brought, so that erasing takes them along."""

UNDER_SCOPE_KEY = frozenset({EventType.PROJECT_TAG, EventType.PROJECT_ALIAS, EventType.PROFILE})
"""Conversation events about no message: all that they say is ledger, under the scope's key."""


def message_id_of(event_id: bytes) -> str:
    """Return the id of the message that an event brings."""
    return PREFIX + event_id[:_ID_BYTES].hex()


def check_move(kind: EventType, current: int, to_state: int) -> None:
    """Check that an event may lead a message from its current state to another.

    Raises:
        AlreadyTerminal: the message was erased. IllegalTransition: another state forbids it.
    """
    state = MessageState(current)
    if to_state in LEGAL.get((kind, state), ()):
        return
    if state is MessageState.ERASED:
        raise AlreadyTerminal("the message was erased")
    raise IllegalTransition(f"{kind.label} of a message in state {state.label}")
