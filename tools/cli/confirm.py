"""engram confirm: what an agent asked for and only a person may let happen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import click

from journal.errors import AuthorizationRevoked, BlobMissing, GateFailed, JournalCorrupt, NotFound
from journal.events import EventType
from tools.cli import subjects, terminal
from tools.cli.conversing import conversation_scope
from tools.cli.masking import masked
from tools.cli.opening import Bound, bound, opened_engine, reading
from tools.cli.options import config_option, json_option, tenant_name, workspace_name, workspace_option
from tools.cli.output import give
from tools.cli.shortids import CONFIRMATION, MESSAGE, whole
from tools.host import confirmation
from tools.host.principals import bind_principal, binding_of

if TYPE_CHECKING:
    from journal.log import Journal
    from journal.scope import Scope
    from journal.store.port import View
    from tools.host.requests import Request
    from tools.memory.engine import Engine


@click.group()
@config_option
@json_option
@workspace_option
def command() -> None:
    """Approve or deny what waits for a person."""


@command.command("list")
@config_option
@json_option
@workspace_option
def list_requests() -> None:
    """List the requests that are open, those about conversations among them."""
    command_bound = bound()
    with reading(command_bound.host_file) as journal:
        # Looking needs the engine's journal and clock alone; the rest of it takes long to import.
        looking = cast("Engine", SimpleNamespace(journal=journal, clock=journal.clock))
        requests = [
            (scope, request, _words_of(journal, scope, request.target))
            for scope in _scopes(command_bound)
            if journal.store.head(scope).cursor  # a scope without an event has no keys to look with
            for request in confirmation.list_requests(looking, scope)
        ]
        give(
            [
                {
                    "confirmation_id": request.confirmation_id,
                    "tenant_id": scope.tenant_id,
                    "workspace_id": scope.workspace_id,
                    "capability": request.capability,
                    "target": request.target,
                    "principal": request.principal,
                    "says": says,
                    "arguments": _arguments(request),
                    "requested_at": request.requested_at,
                    "expires_at": request.expires_at,
                }
                for scope, request, says in requests
            ],
            lambda: "\n\n".join(_told(*one) for one in requests) or "Nothing waits.",
        )


def _scopes(command_bound: Bound) -> list[Scope]:
    """Return where requests may wait: in the scope of the records, and in that of the conversations.

    Unless a workspace or a tenant is named, those of whoever comes over HTTP are among them.
    """
    own = (command_bound.scope, conversation_scope(command_bound))
    if workspace_name() is not None or tenant_name() is not None:
        return list(dict.fromkeys(own))
    bindings = [bind_principal(command_bound.host_file, each) for each in command_bound.host_file.http.principals]
    theirs = (scope for binding in bindings for scope in (binding.scope, binding.conversation.scope))
    return list(dict.fromkeys((*own, *theirs)))


def _arguments(request: Request) -> dict[str, Any]:
    return {name: value for name, value in request.arguments.items() if name != "idempotency_key"}


def _told(scope: Scope, request: Request, says: str | None) -> str:
    """Show a request with its arguments and its target's words: a person approves what they have seen."""
    return terminal.fields(
        [
            ("confirmation", request.confirmation_id),
            ("scope", f"{scope.tenant_id} / {scope.workspace_id}"),
            ("asks for", request.capability),
            ("for", request.principal),
            *([("target", request.target)] if request.target is not None else []),
            *([("which says", says)] if says is not None else []),
            ("arguments", json.dumps(_arguments(request), ensure_ascii=False)),
            ("expires", terminal.local_time(request.expires_at)),
        ]
    )


def _words_of(journal: Journal, scope: Scope, target: str | None) -> str | None:
    from replay.history import find_subject

    if target is None:
        return None
    with journal.store.view(scope) as view:
        if target.startswith(MESSAGE):
            return _words_said(journal, view, target)
        try:
            row = subjects.row_of(view, *find_subject(view, target))
        except NotFound:
            return "(not there any more)"
        content = journal.content(view, row.capture)
    if content is not None and row.subject.record_id is None:
        content = masked(content).content  # nobody admitted it yet
    return subjects.excerpt(content)


def _words_said(journal: Journal, view: View, message_id: str) -> str:
    from tools.conversation.utterances import read_message

    try:
        content = read_message(journal, view, message_id)
    except (BlobMissing, JournalCorrupt) as error:  # erasing it is the mend
        return subjects.unopened(error)
    return subjects.ERASED if content is None else subjects.beginning(content["message"])


def _for_whoever_asked(engine: Engine, command_bound: Bound, scope: Scope, confirmation_id: str) -> Engine:
    """Return the engine under the binding of whoever asked: the host's own, or that of one who comes over HTTP."""
    asked_by = confirmation.decidable(engine, scope, confirmation_id).principal
    own, is_hosts_tenant = engine.binding, scope.tenant_id == command_bound.host_file.host.tenant
    if asked_by == own.principal and is_hosts_tenant and scope in (own.scope, own.conversation.scope):
        return engine
    binding = binding_of(command_bound.host_file, scope, asked_by)
    return engine if binding is None else engine.bound_to(binding)


_ERASING = frozenset({EventType.TOMBSTONE, EventType.MESSAGE_ERASED})


@command.command("approve")
@click.argument("confirmation_id", metavar="ID")
@config_option
@json_option
@workspace_option
def approve(confirmation_id: str) -> None:
    """Approve a request and run it at once."""
    from tools.memory import approval

    with opened_engine(readonly=False) as (engine, command_bound):
        scope, confirmation_id = _found(engine, _scopes(command_bound), confirmation_id)
        with _plainly():
            bound_engine = _for_whoever_asked(engine, command_bound, scope, confirmation_id)
            event = approval.approve(bound_engine, scope, confirmation_id, command_bound.operator)
        value = {
            "confirmation_id": confirmation_id,
            "tenant_id": scope.tenant_id,
            "workspace_id": scope.workspace_id,
            "decision": "approved",
            "operation": event.header.kind.label,
            "subject": event.header.subject,
            "record_id": event.header.record_id,
            "cursor": str(event.header.cursor),
        }
        told = f"approved and done: {event.header.kind.label}, cursor {event.header.cursor}"
        if event.header.kind in _ERASING and event.header.subject is not None:
            is_complete = engine.coverage(scope, event.header.subject) is not None
            value["erasure"] = "complete" if is_complete else "pending"
            told += f"; its erasure is {value['erasure']}"
        give(value, lambda: told)


@command.command("deny")
@click.argument("confirmation_id", metavar="ID")
@config_option
@json_option
@workspace_option
def deny(confirmation_id: str) -> None:
    """Deny a request; nothing happens, and its arguments are destroyed."""
    with opened_engine(readonly=False) as (engine, command_bound):
        scope, confirmation_id = _found(engine, _scopes(command_bound), confirmation_id)
        with _plainly():
            confirmation.deny(engine, scope, confirmation_id, command_bound.operator)
    value = {
        "confirmation_id": confirmation_id,
        "tenant_id": scope.tenant_id,
        "workspace_id": scope.workspace_id,
        "decision": "denied",
    }
    give(value, lambda: "denied")


@contextmanager
def _plainly() -> Iterator[None]:
    """Tell a person who comes too late what became of the request; the code of it is for agents.

    Raises:
        Refused: it is decided, expired or voided.
    """
    try:
        yield
    except (AuthorizationRevoked, GateFailed) as late:
        from tools.cli.failures import Refused

        raise Refused(f"{late.detail or late.message()}; nothing was done now") from late


def _found(engine: Engine, scopes: list[Scope], given: str) -> tuple[Scope, str]:
    """Return the scope in which a request waits, and its whole id; the first where it is in none, for others to refuse.

    Raises:
        Refused: several requests begin so.
    """
    found = []
    for scope in scopes:
        with engine.journal.store.view(scope) as view:
            name = whole(view, given, CONFIRMATION)
            if view.subject(name) is not None:
                found.append((scope, name))
    if len({name for _, name in found}) > 1:
        from tools.cli.failures import Refused  # which draws on the terminal, as tables of ids do

        raise Refused(f"{len(found)} ids begin so: {', '.join(name for _, name in found)}")
    return found[0] if found else (scopes[0], given)
