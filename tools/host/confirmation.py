"""Confirmation: a human's approval of one operation, executed by the approving process (CONTRACT §1).

A request is a control event whose content part holds the arguments under a key of its own. Approving commits the
approval and the operation in one transaction; whoever waits only watches for the outcome. So an approval survives
restarts, serves once, and needs no second clock. Deciding or expiring destroys the request's key.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from journal import limits
from journal.clock import instant
from journal.errors import (
    AuthorizationRevoked,
    Cancelled,
    GateFailed,
    MutationOutcomeUnknown,
    NotFound,
    RateLimited,
)
from journal.events import Actor, Draft, EventType, RequestState
from journal.systemfaults import faults_told
from tools.host import forms
from tools.host.grants import still_authorized
from tools.host.guard import Guarded, Outcome, replayed, standing
from tools.host.requests import Request, is_over, is_voided, read_request
from tools.server.service import Asking, Form, FormAnswer

if TYPE_CHECKING:
    from journal.keyring import DataKey
    from journal.scope import Scope
    from journal.store.port import View
    from tools.memory.call import Call
    from tools.memory.engine import Engine

PREFIX = "confirmation_"
_ID_BYTES = 16
_STEP_SECONDS = 1.0
_ASKING_STEP_SECONDS = 0.1  # a form's answer comes past the journal, so that it is looked for
CONSOLE = "console"
ELICITATION = forms.CHANNEL
_VOIDED = (
    "authority was revoked or its epoch raised (engram grants rotate) since it was asked for; the agent may ask anew"
)


# --- the caller's side ----------------------------------------------------------------------------


Decide = Callable[[str, FormAnswer], None]
"""Carries out what a client's user decided by a form: the id of the request, and the decision."""


def obtain(engine: Engine, call: Call, mutation: Guarded, arguments: dict[str, Any], decide: Decide) -> Outcome:
    """Open or join the operation's request, wait for a human, and return what the approving process did.

    Where the client's user can be asked by a form, it is; whoever is first decides, at the console or by the form.

    Raises:
        GateFailed: no channel, denied, expired, or not decided in time. No key is reserved: the same call may come
        again. FormNeeded: the client has to show a form, and to come again with the answer. AuthorizationRevoked: the
        authorization epoch was raised while the request was open.
    """
    asking = call.form_asking
    if CONSOLE not in call.binding.confirmation.channels and asking is None:
        raise GateFailed("no confirmation channel is configured, or none that this client has")
    if asking is not None and asking.answers is not None:
        _check_still_open(engine, call, asking.answers)
    confirmation_id = _open_or_join(engine, call, mutation, arguments)
    if CONSOLE in call.binding.confirmation.channels:
        engine.notify("confirmation")
    if not engine.waiting.acquire(blocking=False):
        raise GateFailed("too many calls wait for a person here; the request stays open")
    try:
        if asking is None:
            return _wait(engine, call, mutation, confirmation_id, decide, None)
        return _wait_with_form(engine, call, mutation, confirmation_id, decide)
    finally:
        engine.waiting.release()


def _check_still_open(engine: Engine, call: Call, confirmation_id: str) -> None:
    """Refuse an answer to a request that ended meanwhile, at the console or by its time: it must not open another."""
    with engine.journal.store.view(call.scope) as view:
        known = confirmation_id.startswith(PREFIX) and view.subject(confirmation_id) is not None
        voided = known and is_voided(view, confirmation_id)
        request = read_request(engine.journal, view, confirmation_id) if known else None
    if voided:
        _refuse_voided(engine, call.scope)
    if known and (request is None or is_over(request, engine.clock.now())):
        raise GateFailed("the confirmation was denied or has expired")


def _form(engine: Engine, call: Call, confirmation_id: str) -> Form:
    with engine.journal.store.view(call.scope) as view:
        return forms.form_of(call, confirmation_id, read_request(engine.journal, view, confirmation_id))


def _open_or_join(engine: Engine, call: Call, mutation: Guarded, arguments: dict[str, Any]) -> str:
    scope, journal = call.scope, engine.journal
    with journal.store.view(scope) as view:
        joined = _joinable(engine, view, mutation)
        crowded = len(view.open_requests()) >= limits.OPEN_REQUESTS_MAX
    if joined is not None:
        return joined
    if crowded:
        expire_requests(engine, scope)  # those whose time is up must not keep others out
    key = journal.take_key(scope)
    confirmation_id = PREFIX + engine.randomness.draw(scope, _ID_BYTES).hex()
    draft = _request_draft(engine, call, mutation, arguments, confirmation_id, key)
    joined_late: list[str] = []

    def decide(view: View) -> Sequence[Draft]:
        joined_late.clear()
        if standing(view, mutation) is not None:
            return []  # answered meanwhile; who waits will see it
        present = _joinable(engine, view, mutation)
        if present is not None:
            joined_late.append(present)
            return []
        if len(view.open_requests()) >= limits.OPEN_REQUESTS_MAX:
            raise RateLimited("too many confirmation requests are open")
        still_authorized(engine.authority, call.binding, mutation.authorization, engine.clock.now(), view)
        stale = view.open_request(mutation.operation.request_id)
        ended = [] if stale is None else [ending(engine, scope, stale, EventType.CONFIRMATION_EXPIRED, ENGINE, {})]
        return [*ended, draft]

    try:
        committed = journal.commit(scope, decide, deadline=call.deadline)
    except MutationOutcomeUnknown:
        raise
    except Exception:
        journal.keyring.give_back(scope, key)
        raise
    if not committed:
        journal.keyring.give_back(scope, key)
    return joined_late[0] if joined_late else confirmation_id


def _joinable(engine: Engine, view: View, mutation: Guarded) -> str | None:
    """Return the operation's open request that may still be approved."""
    confirmation_id = view.open_request(mutation.operation.request_id)
    if confirmation_id is None:
        return None
    request = read_request(engine.journal, view, confirmation_id)
    good = request is not None and request.readable and not _is_past(request, engine.clock.now())
    return confirmation_id if good else None


def _request_draft(
    engine: Engine, call: Call, mutation: Guarded, arguments: dict[str, Any], confirmation_id: str, key: DataKey
) -> Draft:
    operation, journal, scope = mutation.operation, engine.journal, call.scope
    now = engine.clock.now()
    content = {
        "capability": operation.tool,
        "target": operation.target,
        "arguments": arguments,
        "operation_digest": operation.digest,
        "principal": call.binding.principal,
        "expires_at": instant(now + call.binding.confirmation.ttl_seconds * 1000),
    }
    event_id = journal.random_event_id(scope)
    asked = {"capability": operation.tool, "expires_at": content["expires_at"]}  # what is told once the key is gone
    return Draft(
        type=EventType.CONFIRMATION_REQUESTED, event_id=event_id, actor=call.actor, subject=confirmation_id,
        related=operation.target, to_state=RequestState.OPEN, key_id=key.key_id, slot=key.slot,
        slot_generation=key.generation, intent=operation.intent, guards=(operation.request_id,),
        content=journal.seal_content(scope, event_id, confirmation_id, key, content),
        ledger=journal.seal_ledger(scope, event_id, confirmation_id, asked),
    )  # fmt: skip


def _wait_with_form(engine: Engine, call: Call, mutation: Guarded, confirmation_id: str, decide: Decide) -> Outcome:
    """Have a form shown, or take the answer that the call brings, and wait; each step is an event.

    Raises:
        GateFailed: as ``_wait``, or no other way of asking is left. FormNeeded: the answer comes with another call.
    """
    asking = call.form_asking
    assert asking is not None
    brings_answer = asking.answers == confirmation_id
    if not brings_answer:
        if not engine.forms_shown.take(confirmation_id):
            if CONSOLE not in call.binding.confirmation.channels:
                raise GateFailed("a form was shown as often as one may be for this request; it stays open")
            return _wait(engine, call, mutation, confirmation_id, decide, None)
        forms.note_step(engine, call, confirmation_id, forms.SHOWN)
    asking.ask(_form(engine, call, confirmation_id))
    answered: list[FormAnswer] = []

    def take(confirmation_id: str, answer: FormAnswer) -> None:
        answered.append(answer)
        if answer.decides:
            decide(confirmation_id, answer)
        else:
            forms.note_answer(engine, call, confirmation_id, answer)

    try:
        return _wait(engine, call, mutation, confirmation_id, take, asking)
    except (GateFailed, Cancelled):
        if not answered:
            step = forms.TAKEN_BACK if call.cancelled.is_set() else forms.TIMED_OUT
            forms.note_step(engine, call, confirmation_id, step)
        raise


def _wait(
    engine: Engine, call: Call, mutation: Guarded, confirmation_id: str, take: Decide, asking: Asking | None
) -> Outcome:  # fmt: skip
    total = float(call.binding.confirmation.wait_seconds)
    began = told = time.monotonic()
    step_seconds = _STEP_SECONDS if asking is None else _ASKING_STEP_SECONDS
    while True:
        if asking is not None and (answer := asking.answer()) is not None:
            take(confirmation_id, answer)
        with engine.journal.store.view(call.scope) as view:
            seen = view.head.cursor
            request = read_request(engine.journal, view, confirmation_id)
            found = replayed(view, mutation.operation)
            voided = is_voided(view, confirmation_id)
        if voided and found is None:
            _refuse_voided(engine, call.scope)
        if request is None:
            # A decided request's operation was done, or is refused for what the approving process found changed. The
            # view may be older than the decision, so this needs another.
            with engine.journal.store.view(call.scope) as view:
                refuse_voided(view, confirmation_id)
                found = standing(view, mutation)
        if found is not None:
            return Outcome(found, first=found.header.event_id == mutation.operation.event_id)
        if request is None or is_over(request, engine.clock.now()):
            raise GateFailed("the confirmation was denied or has expired")
        call.refuse_cancelled(waiting=True)
        waited = time.monotonic() - began
        if waited >= total:
            raise GateFailed("nobody has decided yet; the request stays open")
        if time.monotonic() - told >= limits.PROGRESS_INTERVAL_SECONDS:
            told = time.monotonic()
            call.progress(waited, total, "waiting for a person to approve: engram confirm list")
        engine.journal.store.watch(call.scope, seen, min(step_seconds, total - waited))


# --- the human's side -----------------------------------------------------------------------------

ENGINE = Actor("engram:system")


@faults_told()
def list_requests(engine: Engine, scope: Scope) -> list[Request]:
    """Return the open requests that may still be approved, oldest first."""
    now = engine.clock.now()
    with engine.journal.store.view(scope) as view:
        requests = [read_request(engine.journal, view, confirmation_id) for confirmation_id in view.open_requests()]
    return [request for request in requests if request is not None and not _is_past(request, now)]


def expire_requests(engine: Engine, scope: Scope) -> int:
    """End every open request whose time is up or that is voided, and destroy its key; return how many there were."""
    now = engine.clock.now()
    with engine.journal.store.view(scope) as view:
        open_ones = [read_request(engine.journal, view, confirmation_id) for confirmation_id in view.open_requests()]
    over = [request for request in open_ones if request is not None and _is_past(request, now)]
    for request in over:
        why = {"refused": AuthorizationRevoked.code} if request.is_voided else {}
        end(engine, scope, request.confirmation_id, EventType.CONFIRMATION_EXPIRED, ENGINE, why)
    if over:
        engine.settle(scope)
    return len(over)


@dataclass(frozen=True, slots=True)
class Decider:
    """Who decides a request, and by which channel: a user of this machine at the console, or a client's user."""

    name: str  # the operating system's of the user; of an elicitation the client's own
    channel: str = CONSOLE

    @property
    def actor(self) -> Actor:
        """Who the decision's event names as its maker."""
        return Actor(f"{'operator' if self.channel == CONSOLE else 'client'}:{self.name}")

    @property
    def ledger(self) -> dict[str, Any]:
        """What the decision's event says of it."""
        return {"operator": self.name, "channel": self.channel}


def deny(engine: Engine, scope: Scope, confirmation_id: str, operator: str, *, channel: str = CONSOLE) -> None:
    """Deny a request; its key is destroyed and nothing else is left of it.

    Raises:
        NotFound: there is no such request. GateFailed: it is decided or expired. AuthorizationRevoked: it is voided.
    """
    decidable(engine, scope, confirmation_id)
    decider = Decider(operator, channel)
    if not end(engine, scope, confirmation_id, EventType.CONFIRMATION_DENIED, decider.actor, decider.ledger):
        raise GateFailed("the request was decided meanwhile")
    engine.settle(scope)


def decidable(engine: Engine, scope: Scope, confirmation_id: str) -> Request:
    """Return a request that can be decided.

    Raises:
        NotFound: there is none of this id. GateFailed: it is decided or expired. AuthorizationRevoked: the
        authorization epoch was raised while it was open.
    """
    with engine.journal.store.view(scope) as view:
        known = view.subject(confirmation_id) if confirmation_id.startswith(PREFIX) else None
        request = None if known is None else read_request(engine.journal, view, confirmation_id)
        voided = known is not None and is_voided(view, confirmation_id)
    if known is None:
        raise NotFound("there is no such confirmation request in this scope")
    if voided:
        _refuse_voided(engine, scope)
    if request is None:
        state = RequestState(known.state)  # still open where it was decided since this view began
        raise GateFailed(f"the request is {'decided' if state is RequestState.OPEN else state.name.lower()} already")
    if is_over(request, engine.clock.now()):
        expire_requests(engine, scope)
        raise GateFailed("the request has expired")
    return request


def refuse_voided(view: View, confirmation_id: str) -> None:
    """Refuse to approve a request that is voided, under the scope's lock.

    Raises:
        AuthorizationRevoked: the authorization epoch was raised while it was open.
    """
    if is_voided(view, confirmation_id):
        raise AuthorizationRevoked(_VOIDED)


def _refuse_voided(engine: Engine, scope: Scope) -> NoReturn:
    """End what is voided, its form and its key with it, and refuse."""
    expire_requests(engine, scope)
    raise AuthorizationRevoked(_VOIDED)


def _is_past(request: Request, now: int) -> bool:
    return request.is_voided or is_over(request, now)


# --- the end of a request ------------------------------------------------------------------------


def end(
    engine: Engine, scope: Scope, confirmation_id: str, kind: EventType, actor: Actor, ledger: dict[str, Any]
) -> bool:
    """Commit the end of a request; return whether it was still open."""

    def decide(view: View) -> Sequence[Draft]:
        row = view.subject(confirmation_id)
        if row is None or row.state != RequestState.OPEN:
            return []
        return [ending(engine, scope, confirmation_id, kind, actor, ledger)]

    deadline = time.monotonic() + limits.CALL_DEADLINE_SECONDS
    return bool(engine.journal.commit(scope, decide, deadline=deadline))


_ENDS = {
    EventType.CONFIRMATION_APPROVED: RequestState.APPROVED,
    EventType.CONFIRMATION_DENIED: RequestState.DENIED,
    EventType.CONFIRMATION_EXPIRED: RequestState.EXPIRED,
}


def ending(
    engine: Engine, scope: Scope, confirmation_id: str, kind: EventType, actor: Actor, ledger: dict[str, Any]
) -> Draft:
    """Return the event that ends a request: approved, denied or expired, with who did it and why."""
    event_id = engine.journal.random_event_id(scope)
    return Draft(
        type=kind, event_id=event_id, actor=actor, subject=confirmation_id, from_state=RequestState.OPEN,
        to_state=_ENDS[kind], ledger=engine.journal.seal_ledger(scope, event_id, confirmation_id, ledger),
    )  # fmt: skip
