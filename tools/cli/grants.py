"""engram grants: which tools a principal has in a workspace, within what the host file allows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from journal import limits
from journal.authority import GrantState
from tools.cli import terminal
from tools.cli.bindings import Place, opened_bindings, places, scopes
from tools.cli.choices import known
from tools.cli.counting import counted
from tools.cli.failures import Refused
from tools.cli.options import check_size, config_option, json_option, workspace_option
from tools.cli.output import give, note
from tools.host.capabilities import ALL_TOOLS

if TYPE_CHECKING:
    from journal.scope import Scope
    from journal.store.port import Committed
    from tools.memory.authority_orders import KnownGrant
    from tools.memory.engine import Engine

_UNITS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000}  # milliseconds
_ALL = "all"


class _End(click.ParamType[tuple[int, bool]]):
    """When a grant ends: an instant (epoch milliseconds) and False, or a length from now on (milliseconds) and True."""

    name = "end"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, bool]:
        """Return it; an instant without a zone is the machine's own."""
        text = str(value)
        length = re.fullmatch(r"([1-9][0-9]{0,5})([mhd])", text, re.ASCII)
        if length is not None:
            milliseconds = int(length[1]) * _UNITS[length[2]]
            if milliseconds <= limits.GRANT_MAX_DAYS * _UNITS["d"]:
                return milliseconds, True
            self.fail(f"at most {limits.GRANT_MAX_DAYS}d", param, ctx)
        try:
            moment = datetime.fromisoformat(text if len(text) > len("YYYY-MM-DD") else "")  # a date alone is no instant
            return int(moment.astimezone().timestamp() * 1000), False
        except (ValueError, OverflowError, OSError):
            self.fail('write an instant such as "2026-11-29 14:00", or a length such as 90m, 8h or 30d', param, ctx)


def _reason(_context: click.Context, _parameter: click.Parameter, given: str | None) -> str | None:
    check_size("--reason", given, limits.REF_MAX_BYTES)
    return given


_principal_option = click.option("--principal", metavar="NAME", required=True, help="Whose grants they are.")
_tool_option = click.option(
    "--tool", "tools", metavar="NAME", multiple=True, required=True, type=click.Choice([*ALL_TOOLS, _ALL]),
    help='A tool, or "all" that the host file allows there; may be given again.',
)  # fmt: skip
_reason_option = click.option("--reason", metavar="TEXT", callback=_reason, help="Kept in the journal for good.")


@click.group()
@config_option
@json_option
@workspace_option
def command() -> None:
    """Grant tools to principals, revoke them, and void what was authorised so far.

    Without --tenant, every tenant's workspaces are meant.
    """


@command.command("list")
@config_option
@json_option
@workspace_option
def list_grants() -> None:
    """List who may use which tool, where, until when, and by what."""
    with opened_bindings(readonly=True) as (engine, bound):
        found = [
            row
            for place in _with_the_unbound(engine, places(bound.host_file, everywhere=True))
            for row in _rows(engine, place)
        ]
    give(found, lambda: _table(found) if found else "The host file grants nothing.")


@command.command("add")
@_principal_option
@_tool_option
@click.option("--expires", "end", metavar="WHEN", type=_End(), help='An instant, or a length such as "8h", "30d".')
@_reason_option
@config_option
@json_option
@workspace_option
def add(principal: str, tools: Sequence[str], end: tuple[int, bool] | None, reason: str | None) -> None:
    """Grant a principal tools that the host file allows it, for good or until an instant."""
    from tools.memory.authority_orders import Orders

    with opened_bindings(readonly=False) as (engine, bound):
        by_scope = _allowed(places(bound.host_file), principal, tools)
        now = engine.clock.now()
        expires_at = None if end is None else end[0] + (now if end[1] else 0)
        if expires_at is not None and expires_at <= now:
            raise Refused("the grant would have expired already: --expires is not in the future")
        by_itself = (
            [] if end is not None or bound.host_file.grants_by_events else _untouched(engine, by_scope, principal)
        )
        done = [
            (scope, event)
            for scope, names in by_scope.items()
            for event in Orders(engine, scope, bound.operator, reason=reason).grant(
                principal, names, expires_at=expires_at
            )
        ]
    _say(done, "granted")
    if by_itself:
        note(
            f"the host file grants {', '.join(by_itself)} by itself: a grant is needed after a revocation or an end, "
            'or where it says [grants] mode = "events"'
        )


@command.command("revoke")
@_principal_option
@_tool_option
@_reason_option
@config_option
@json_option
@workspace_option
def revoke(principal: str, tools: Sequence[str], reason: str | None) -> None:
    """Revoke tools of a principal at once, wherever it has them; what was authorised before is void."""
    from tools.memory.authority_orders import Orders

    names = ALL_TOOLS if _ALL in tools else tools
    with opened_bindings(readonly=False) as (engine, bound):
        among = _with_the_unbound(engine, places(bound.host_file, everywhere=True))
        theirs = [place for place in among if place.principal == principal]
        if not theirs:
            hint = known(principal, (place.principal for place in among))
            raise Refused(f"neither the host file nor an event knows that principal there; {hint}")
        done = [
            (place.scope, event)
            for place in theirs
            for event in Orders(engine, place.scope, bound.operator, reason=reason).revoke(
                principal, names, by_file=() if place.by_events else place.tools
            )
        ]
    _say(done, "revoked")


@command.command("rotate")
@_reason_option
@config_option
@json_option
@workspace_option
def rotate(reason: str | None) -> None:
    """Void whatever was authorised so far, calls under way among it, in every workspace or the named one.

    No grant is taken away: the next call is authorised anew.
    """
    from tools.memory.authority_orders import Orders

    with opened_bindings(readonly=False) as (engine, bound):
        chosen = scopes(places(bound.host_file))
        if not chosen:
            raise Refused("the host file binds nobody there")
        done = [(scope, Orders(engine, scope, bound.operator, reason=reason).raise_epoch()) for scope in chosen]
    value = [{**_where(scope), "epoch": str(event.header.cursor)} for scope, event in done]
    give(value, lambda: "\n".join(f"raised in {terminal.scope_name(each)}: epoch {each['epoch']}" for each in value))


@command.command("history")
@config_option
@json_option
@workspace_option
def history() -> None:
    """Tell every grant, revocation and rotation, and every opting in and out, oldest first."""
    from tools.memory.authority_orders import authority_history

    with opened_bindings(readonly=True) as (engine, bound):
        value = [
            {**_where(scope), **each}
            for scope in scopes(places(bound.host_file, everywhere=True))
            for each in authority_history(engine.journal, scope)
        ]
    give(value, lambda: _history_table(value) if value else "No event changed anybody's authority.")


# --- what is meant --------------------------------------------------------------------------------


def _allowed(found: list[Place], principal: str, tools: Sequence[str]) -> dict[Scope, list[str]]:
    """Return the tools to grant in each scope.

    Raises:
        Refused: the host file binds no such principal, does not allow it a tool, or binds it in several workspaces.
    """
    theirs = [place for place in found if place.principal == principal]
    if not theirs:
        hint = known(principal, (place.principal for place in found))
        raise Refused(f"the host file binds no such principal there; {hint}")
    names = [
        tool for tool in ALL_TOOLS if tool in tools or (_ALL in tools and any(tool in each.tools for each in theirs))
    ]
    chosen: dict[Scope, list[str]] = {}
    for tool in names:
        allowing = [place.scope for place in theirs if tool in place.tools]
        if not allowing:
            raise Refused(
                f"the host file does not allow {tool} to that principal: name it there first, under [grants] tools, "
                "and of [[http.principals]] under its tools"
            )
        if len(allowing) > 1:
            raise Refused(f"the principal has {tool} in several workspaces: name one by --workspace (and --tenant)")
        chosen.setdefault(allowing[0], []).append(tool)
    return chosen


def _untouched(engine: Engine, by_scope: Mapping[Scope, list[str]], principal: str) -> list[str]:
    """Return the tools that no event ever granted or took from a principal, in the order of the tools."""
    from tools.memory.authority_orders import known_grants

    touched = {
        (scope, each.tool)
        for scope in by_scope
        for each in known_grants(engine.journal, scope)
        if each.principal == principal
    }
    untouched = {tool for scope, names in by_scope.items() for tool in names if (scope, tool) not in touched}
    return [tool for tool in ALL_TOOLS if tool in untouched]


def _with_the_unbound(engine: Engine, found: list[Place]) -> list[Place]:
    """Return the places, and those of principals that events know in the same scopes and the host file does not."""
    from tools.memory.authority_orders import known_grants

    bound = {(place.scope, place.principal) for place in found}
    mode = any(place.by_events for place in found)
    unbound = {
        (scope, grant.principal): Place(scope, grant.principal, frozenset(), enabled=False, by_events=mode)
        for scope in scopes(found)
        for grant in known_grants(engine.journal, scope)
        if (scope, grant.principal) not in bound
    }
    return [*found, *unbound.values()]


# --- what is told ---------------------------------------------------------------------------------


def _where(scope: Scope) -> dict[str, Any]:
    return {"tenant_id": scope.tenant_id, "workspace_id": scope.workspace_id}


def _rows(engine: Engine, place: Place) -> list[dict[str, Any]]:
    from tools.memory.authority_orders import known_grants

    by_tool = {
        each.tool: each for each in known_grants(engine.journal, place.scope) if each.principal == place.principal
    }
    standing = engine.authority.standing(place.scope, place.principal)
    now = engine.clock.now()
    return [
        {
            **_where(place.scope),
            "principal": place.principal,
            "tool": tool,
            "in_force": place.enabled
            and tool in place.tools
            and standing.allows(tool, now, by_events=place.by_events),
            "state": _state(
                by_tool.get(tool), place, tool, expired=standing.of(tool).has_expired(now), opted_out=standing.opted_out
            ),
            **_of_event(by_tool.get(tool)),
        }
        for tool in ALL_TOOLS
        if tool in place.tools or tool in by_tool
    ]  # fmt: skip


def _state(known: KnownGrant | None, place: Place, tool: str, *, expired: bool, opted_out: bool) -> str:
    if opted_out:
        return "the tenant is off"
    if known is None:
        return "not granted" if place.by_events else "by the host file"
    if known.state is GrantState.REVOKED:
        return "revoked"
    if tool not in place.tools:
        return "not allowed by the host file"
    return "expired" if expired else "granted"


def _of_event(known: KnownGrant | None) -> dict[str, Any]:
    if known is None:
        return dict.fromkeys(("expires_at", "by", "at", "reason", "cursor"))
    return {
        "expires_at": known.expires_at, "by": known.by, "at": known.at, "reason": known.reason,
        "cursor": str(known.cursor),
    }  # fmt: skip


def _table(found: list[dict[str, Any]]) -> str:
    return terminal.table(
        ("scope", "principal", "tool", "may", "state", "until"),
        [
            (
                terminal.scope_name(row), row["principal"], row["tool"], "yes" if row["in_force"] else "no",
                row["state"], "" if row["expires_at"] is None else terminal.local_time(row["expires_at"]),
            )
            for row in found
        ],
    )  # fmt: skip


def _say(done: list[tuple[Scope, Committed]], what: str) -> None:
    value = [
        {**_where(scope), "operation": event.header.kind.label, "cursor": str(event.header.cursor)}
        for scope, event in done
    ]
    where = ", ".join(dict.fromkeys(map(terminal.scope_name, value)))
    give(
        value,
        lambda: (
            f"{what}: {counted(len(done), 'tools')} in {where}" if done else "nothing was changed: it is so already"
        ),
    )


def _history_table(value: list[dict[str, Any]]) -> str:
    return terminal.table(
        ("scope", "cursor", "at", "what", "principal", "tool", "until", "by", "reason"),
        [
            (
                terminal.scope_name(each), each["cursor"], terminal.local_time(each["at"]), each["operation"],
                each["principal"] or "", each["tool"] or "",
                "" if each["expires_at"] is None else terminal.local_time(each["expires_at"]), each["by"],
                each["reason"] or "",
            )
            for each in value
        ],
    )  # fmt: skip
