"""Whose hand an event was made by: an agent's, of the principal that the host bound; or one that no agent has.

The others are told by what an actor's name begins with, so no principal, agent or client may have a name of that kind.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from journal.events import Actor

OPERATOR: Final = "operator:"
CLIENT: Final = "client:"
ENGINE: Final = "engram:"
RESERVED: Final = (OPERATOR, CLIENT, ENGINE)
"""What no name of a principal, an agent or a client may begin with."""


class Hand(Enum):
    """Whose hand an event was made by. The value is its name for people and scripts."""

    AGENT = "agent"  # of the principal that the host bound
    OPERATOR = "operator"  # somebody at the machine, by the command line
    CLIENT = "client"  # the user of a client, who answered a form
    ENGINE = "engine"  # the engine itself: what is due, or follows from what was done


def hand_of(actor: Actor) -> Hand:
    """Return whose hand an actor is; what a person does to conversations is a principal's, by the person's hand."""
    if actor.principal.startswith(OPERATOR) or (actor.agent_id or "").startswith(OPERATOR):
        return Hand.OPERATOR
    if actor.principal.startswith(CLIENT):
        return Hand.CLIENT
    return Hand.ENGINE if actor.principal.startswith(ENGINE) else Hand.AGENT


def is_reserved(name: str) -> bool:
    """Whether a name would pass for somebody that no agent is."""
    return name.startswith(RESERVED)
