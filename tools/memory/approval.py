"""Approving a confirmation request: the approval and the operation are committed in one transaction (CONTRACT §1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from journal.errors import BlobMissing, EngramError, GateFailed, JournalCorrupt, Unauthorized
from journal.events import Draft, EventType, RequestState
from journal.systemfaults import faults_told
from tools.host.confirmation import (
    CONSOLE,
    ELICITATION,
    ENGINE,
    Decider,
    decidable,
    deny,
    end,
    ending,
    refuse_voided,
)
from tools.host.exceptions import UntrustedContext
from tools.host.requests import Request, is_over
from tools.memory.mutation import execute
from tools.memory.mutations import mutation_of
from tools.server.service import FormAnswer

if TYPE_CHECKING:
    from journal.scope import Scope
    from journal.store.port import Committed, View
    from tools.memory.call import Call
    from tools.memory.engine import Engine


@faults_told()
def approve(
    engine: Engine, scope: Scope, confirmation_id: str, operator: str, *, channel: str = CONSOLE
) -> Committed:  # fmt: skip
    """Approve a request: commit the approval and the operation in one transaction; return the operation's event.

    Raises:
        NotFound: there is no such request. GateFailed: it is decided or expired. Unauthorized: it is another
        principal's, or the host does not allow the operation any more. EngramError: the operation itself is refused,
        because its target changed since. AuthorizationRevoked: the authorization epoch was raised since it was asked
        for. BlobMissing: its arguments are lost. A request that can never run is ended.
    """
    request = decidable(engine, scope, confirmation_id)
    if not request.readable:
        raise BlobMissing("the request's arguments are lost: deny it; the agent may ask again")
    if request.principal != engine.binding.principal:
        raise Unauthorized("the request is another principal's: approve it under that one's host file")
    try:
        return _approved(engine, scope, request, Decider(operator, channel))
    except UntrustedContext:
        _refuse(engine, scope, confirmation_id, Unauthorized.code)
        raise Unauthorized("the host does not bind the operation's purpose any more") from None
    except EngramError as error:
        if not error.retriable and not isinstance(error, GateFailed):
            _refuse(engine, scope, confirmation_id, error.code)
        raise


def decide_by_form(engine: Engine, call: Call, confirmation_id: str, answer: FormAnswer) -> None:
    """Carry out what the user of a call's client decided by a form; nothing where somebody else was first.

    Raises:
        EngramError: the operation is refused, or cannot be run now.
    """
    client_name = call.client_name or ""
    try:
        if answer is FormAnswer.APPROVED:
            approve(engine, call.scope, confirmation_id, client_name, channel=ELICITATION)
        else:
            deny(engine, call.scope, confirmation_id, client_name, channel=ELICITATION)
    except GateFailed:
        pass  # who waits sees what the other decided


def _approved(engine: Engine, scope: Scope, request: Request, decider: Decider) -> Committed:
    """Run a request's operation, the approval in the same transaction, and return the operation's event."""
    call = engine.call_of(request.header.actor, request.principal, scope)
    mutation = mutation_of(engine, request.capability, request.arguments, call)
    if mutation.operation.intent != request.header.intent or request.header.guards != (mutation.operation.request_id,):
        raise JournalCorrupt("a confirmation request is not bound to the operation that it holds")

    def approval(view: View) -> list[Draft]:
        row = view.subject(request.confirmation_id)
        refuse_voided(view, request.confirmation_id)
        if row is None or row.state != RequestState.OPEN or is_over(request, engine.clock.now()):
            raise GateFailed("the request was decided or expired meanwhile")
        ledger = {**decider.ledger, "operation_digest": mutation.operation.digest}
        kind = EventType.CONFIRMATION_APPROVED
        return [ending(engine, scope, request.confirmation_id, kind, decider.actor, ledger)]

    outcome = execute(engine, call, mutation, approval)
    if outcome.first:
        mutation.settle(outcome.event)
    engine.settle(scope)  # the request's own key
    return outcome.event


def _refuse(engine: Engine, scope: Scope, confirmation_id: str, code: str) -> None:
    """End a request that was approved and cannot run, and destroy its key."""
    end(engine, scope, confirmation_id, EventType.CONFIRMATION_EXPIRED, ENGINE, {"refused": code})
    engine.settle(scope)
