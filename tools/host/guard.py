"""The mutation guard: which operation a call is, and whether it was done before (CONTRACT §6).

Identity is {tenant, workspace, principal, idempotency_key}; intent is tool, target and content. Only keyed digests of
either are kept. An event whose id is the identity *is* the reservation: there is nothing else that could disagree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from journal import identity
from journal.errors import DigestConflict
from journal.log import Journal
from journal.scope import Scope
from journal.store.port import Committed, View


@dataclass(frozen=True, slots=True)
class Operation:
    """One logical operation of an agent."""

    tool: str
    target: str | None
    event_id: bytes
    intent: bytes
    request_id: bytes  # keyed digest of identity and intent: under which an open confirmation request is found

    @property
    def digest(self) -> str:
        """The operation digest that a confirmation is bound to."""
        return self.intent.hex()


def operation_of(
    journal: Journal, scope: Scope, principal: str, tool: str, idempotency_key: str, target: str | None, content: Any
) -> Operation:
    """Return the operation of a call."""
    key = journal.keyring.identity_key(scope)
    event_id = identity.event_id(key, scope, principal, idempotency_key)
    intent = identity.intent(key, tool, target, content)
    return Operation(tool, target, event_id, intent, identity.request(key, event_id, intent))


def replayed(view: View, operation: Operation) -> Committed | None:
    """Return the event that this operation made before, or None.

    Raises:
        DigestConflict: its key was used for another content, target or tool.
    """
    found = view.outcome(operation.event_id)
    if found is not None and found.header.intent != operation.intent:
        raise DigestConflict("the idempotency key made another event")
    return found


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an execution came to: the event that answers, and whether this execution made it."""

    event: Committed
    first: bool


class Guarded(Protocol):
    """A mutation as the guard sees it."""

    operation: Operation
    authorization: dict[str, Any]

    def check(self, view: View) -> None:
        """Refuse what the state, the clock or the host's policy forbids."""
        ...

    def answered(self, view: View) -> Committed | None:
        """Return the earlier event that answers this call without a new one, or None."""
        ...


def standing(view: View, mutation: Guarded) -> Committed | None:
    """Return the event that answers a mutation already, or None where it may be executed.

    The duplicate check comes first: a retry is a replay, whatever has become of clock, policy or state since.

    Raises:
        EngramError: the key was used for another operation, or state, clock or policy forbid the mutation.
    """
    found = replayed(view, mutation.operation)
    if found is None:
        mutation.check(view)
        found = mutation.answered(view)
    return found
