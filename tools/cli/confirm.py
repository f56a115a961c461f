"""engram confirm: what an agent asked for and only a person may let happen."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import click

from journal.errors import NotFound
from tools.cli import subjects, terminal
from tools.cli.masking import masked
from tools.cli.opening import opened_engine, opened_journal
from tools.cli.options import config_option, json_option, workspace_option
from tools.cli.output import give
from tools.cli.shortids import CONFIRMATION, whole
from tools.host import confirmation

if TYPE_CHECKING:
    from journal.log import Journal
    from journal.scope import Scope
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
    """List the requests that are open."""
    with opened_journal() as (journal, scope):
        # Looking needs the engine's journal and clock alone; the rest of it takes long to import.
        looking = cast("Engine", SimpleNamespace(journal=journal, clock=journal.clock))
        requests = confirmation.list_requests(looking, scope)
        give(
            [
                {
                    "confirmation_id": request.confirmation_id,
                    "capability": request.capability,
                    "target": request.target,
                    "principal": request.principal,
                    "requested_at": request.requested_at,
                    "expires_at": request.expires_at,
                }
                for request in requests
            ],
            lambda: "\n\n".join(_told(journal, scope, request) for request in requests) or "Nothing waits.",
        )


def _told(journal: Journal, scope: Scope, request: confirmation.Request) -> str:
    """Show a request with its arguments and its target's words: a person approves what they have seen."""
    arguments = {name: value for name, value in request.arguments.items() if name != "idempotency_key"}
    return terminal.fields(
        [
            ("confirmation", request.confirmation_id),
            ("asks for", request.capability),
            ("for", request.principal),
            *([("target", request.target)] if request.target is not None else []),
            *([("which says", _words_of(journal, scope, request.target))] if request.target is not None else []),
            ("arguments", json.dumps(arguments, ensure_ascii=False)),
            ("expires", terminal.local_time(request.expires_at)),
        ]
    )


def _words_of(journal: Journal, scope: Scope, target: str) -> str:
    from replay.history import find_subject

    with journal.store.view(scope) as view:
        try:
            row = subjects.row_of(view, *find_subject(view, target))
        except NotFound:
            return "(not there any more)"
        content = journal.content(view, row.capture)
    if content is not None and row.subject.record_id is None:
        content = masked(content).content  # nobody admitted it yet
    return subjects.excerpt(content)


@command.command("approve")
@click.argument("confirmation_id", metavar="ID")
@config_option
@json_option
@workspace_option
def approve(confirmation_id: str) -> None:
    """Approve a request and run it at once."""
    from tools.memory import approval

    with opened_engine(readonly=False) as (engine, bound):
        confirmation_id = _whole(engine, bound.scope, confirmation_id)
        event = approval.approve(engine, bound.scope, confirmation_id, bound.operator)
        value = {
            "confirmation_id": confirmation_id,
            "decision": "approved",
            "operation": event.header.kind.label,
            "subject": event.header.subject,
            "record_id": event.header.record_id,
            "cursor": str(event.header.cursor),
        }
        give(value, lambda: f"approved and done: {event.header.kind.label}, cursor {event.header.cursor}")


@command.command("deny")
@click.argument("confirmation_id", metavar="ID")
@config_option
@json_option
@workspace_option
def deny(confirmation_id: str) -> None:
    """Deny a request; nothing happens, and its arguments are destroyed."""
    with opened_engine(readonly=False) as (engine, bound):
        confirmation_id = _whole(engine, bound.scope, confirmation_id)
        confirmation.deny(engine, bound.scope, confirmation_id, bound.operator)
    give({"confirmation_id": confirmation_id, "decision": "denied"}, lambda: "denied")


def _whole(engine: Engine, scope: Scope, confirmation_id: str) -> str:
    with engine.journal.store.view(scope) as view:
        return whole(view, confirmation_id, CONFIRMATION)
