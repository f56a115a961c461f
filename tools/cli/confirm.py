"""engram confirm: what an agent asked for and only a person may let happen."""

from __future__ import annotations

import json

import click

from tools.cli import terminal
from tools.cli.opening import opened_engine
from tools.cli.options import config_option, json_option, workspace_option
from tools.cli.output import give
from tools.host import confirmation
from tools.memory import approval


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
    with opened_engine(readonly=True) as (engine, bound):
        requests = confirmation.list_requests(engine, bound.scope)
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
        lambda: "\n".join(_told(request) for request in requests) if requests else "Nothing waits.",
    )


def _told(request: confirmation.Request) -> str:
    """Show a request with its arguments: a person approves what they have seen."""
    arguments = {name: value for name, value in request.arguments.items() if name != "idempotency_key"}
    return terminal.fields(
        [
            ("confirmation", request.confirmation_id),
            ("asks for", request.capability),
            ("target", request.target or "(none)"),
            ("for", request.principal),
            ("arguments", json.dumps(arguments, ensure_ascii=False)),
            ("expires", terminal.local_time(request.expires_at)),
        ]
    )


@command.command("approve")
@click.argument("confirmation_id", metavar="ID")
@config_option
@json_option
@workspace_option
def approve(confirmation_id: str) -> None:
    """Approve a request and run it at once."""
    with opened_engine(readonly=False) as (engine, bound):
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
        confirmation.deny(engine, bound.scope, confirmation_id, bound.operator)
    give({"confirmation_id": confirmation_id, "decision": "denied"}, lambda: "denied")
