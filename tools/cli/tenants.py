"""engram tenants: whether a tenant's memory is on, within what the host file allows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from journal import limits
from journal.authority import OPT_IN, OptIn
from journal.clock import instant
from journal.scope import Scope
from tools.cli import terminal
from tools.cli.bindings import opened_bindings, places, scopes
from tools.cli.choices import known
from tools.cli.failures import Refused
from tools.cli.options import check_size, config_option, json_option, tenant_name, tenant_option
from tools.cli.output import give

if TYPE_CHECKING:
    from tools.host.file import HostFile
    from tools.memory.engine import Engine


def _reason(_context: click.Context, _parameter: click.Parameter, given: str | None) -> str | None:
    check_size("--reason", given, limits.REF_MAX_BYTES)
    return given


_reason_option = click.option("--reason", metavar="TEXT", callback=_reason, help="Kept in the journal for good.")
_tenant_argument = click.argument("named", metavar="[TENANT]", required=False)


@click.group()
@config_option
@json_option
@tenant_option
def command() -> None:
    """Turn a tenant's memory off, and on again."""


@command.command("list")
@config_option
@json_option
@tenant_option
def list_tenants() -> None:
    """List the tenants of the host file and of the store, workspace by workspace."""
    with opened_bindings(readonly=True) as (engine, bound):
        among = _scopes(engine, bound.host_file)
        value = [_told(engine, bound.host_file, each) for each in among if tenant_name() in (None, each.tenant_id)]
    give(
        value,
        lambda: terminal.table(
            ("tenant", "workspace", "on", "host file", "event"),
            [
                (
                    each["tenant_id"], each["workspace_id"], "yes" if each["enabled"] else "no",
                    "yes" if each["host_file"] else "no", each["opt_in"],
                )
                for each in value
            ],
        ),
    )  # fmt: skip


@command.command("enable")
@_tenant_argument
@_reason_option
@config_option
@json_option
@tenant_option
def enable(named: str | None, reason: str | None) -> None:
    """Turn a tenant's memory on again where an event turned it off; the host's own tenant where none is named."""
    _opt(_meant(named), reason, enabled=True)


@command.command("disable")
@_tenant_argument
@_reason_option
@config_option
@json_option
@tenant_option
def disable(named: str | None, reason: str | None) -> None:
    """Turn a tenant's memory off at once in all of its workspaces; what was authorised before is void."""
    _opt(_meant(named), reason, enabled=False)


def _meant(named: str | None) -> str | None:
    """Return the tenant that is named, by the argument or by ``--tenant`` as with every other command.

    Raises:
        click.UsageError: each of them names another one.
    """
    by_option = tenant_name()
    if named is not None and by_option not in (None, named):
        raise click.UsageError("TENANT and --tenant name two tenants: give one of them")
    return by_option if named is None else named


def _opt(tenant: str | None, reason: str | None, *, enabled: bool) -> None:
    from tools.memory.authority_orders import Orders

    with opened_bindings(readonly=False) as (engine, bound):
        name = bound.host_file.host.tenant if tenant is None else tenant
        among = _scopes(engine, bound.host_file)
        chosen = [scope for scope in among if scope.tenant_id == name]
        if not chosen:
            hint = known(name, (each.tenant_id for each in among))
            raise Refused(f"neither the host file nor the store knows that tenant; {hint}")
        if enabled and not any(_allows(bound.host_file, scope) for scope in chosen):
            raise Refused("the host file does not let that tenant in: write tenant_enabled = true there")
        done = [(scope, Orders(engine, scope, bound.operator, reason=reason).opt(enabled=enabled)) for scope in chosen]
    value = [
        {
            "tenant_id": scope.tenant_id,
            "workspace_id": scope.workspace_id,
            "opt_in": "enabled" if enabled else "disabled",
            "cursor": None if event is None else str(event.header.cursor),  # None: it was so already
        }
        for scope, event in done
    ]
    changed = [terminal.scope_name(each) for each in value if each["cursor"] is not None]
    word = "on" if enabled else "off"
    give(value, lambda: f"{word} in {', '.join(changed)}" if changed else f"nothing was changed: it is {word} already")


def _scopes(engine: Engine, host_file: HostFile) -> list[Scope]:
    """Return the scopes that the host file names, those of tenants not let in among them, and those of the store."""
    named = [
        *(Scope.of(host_file.host.tenant, name) for name in host_file.workspaces),
        *scopes(places(host_file, everywhere=True)),
    ]
    found = {*named, *engine.journal.store.scopes()}
    return sorted(found, key=lambda scope: (scope.tenant_id, scope.workspace_id))


def _allows(host_file: HostFile, scope: Scope) -> bool:
    """Whether the host file lets a scope's tenant in, for whoever it binds there."""
    if scope.tenant_id == host_file.host.tenant:
        return host_file.host.tenant_enabled
    return any(each.tenant == scope.tenant_id and each.tenant_enabled for each in host_file.http.principals)


def _told(engine: Engine, host_file: HostFile, scope: Scope) -> dict[str, Any]:
    with engine.journal.store.view(scope) as view:
        row = view.subject(OPT_IN)
        event = None if row is None else view.event(row.changed)
    state = OptIn.ABSENT if row is None else OptIn(row.state)
    allowed = _allows(host_file, scope)
    return {
        "tenant_id": scope.tenant_id,
        "workspace_id": scope.workspace_id,
        "enabled": host_file.host.enabled and allowed and state is not OptIn.DISABLED,
        "host_file": allowed,
        "opt_in": state.name.lower(),
        "by": None if event is None else event.header.actor.principal,
        "at": None if event is None else instant(event.header.recorded_at),
    }
