"""The scopes that the host file binds, of its own tenant and of others, and the binding of a person in one of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from journal.scope import Scope
from tools.cli.choices import known
from tools.host.binding import Binding, bind
from tools.host.conversation import bind_conversation
from tools.host.exceptions import HostFileError
from tools.host.file import HostFile


def workspaces_of(host_file: HostFile, tenant: str) -> tuple[str, ...]:
    """Return the workspaces of a tenant that the host file binds; none where it binds nobody of that tenant."""
    if tenant == host_file.host.tenant:
        return host_file.workspaces
    bound = [each.workspace or host_file.host.workspace for each in host_file.http.principals if each.tenant == tenant]
    talking = [host_file.conversation.workspace] if bound and host_file.conversation.workspace is not None else []
    return tuple(dict.fromkeys([*bound, *talking]))


def bind_place(host_file: HostFile, tenant: str | None, workspace: str | None) -> Binding:
    """Return the binding of the person at the terminal in the scope that they name, of those that the file binds.

    Args:
        host_file: the host file.
        tenant: the tenant; None: the host's.
        workspace: the workspace; None: in the host's tenant the working directory's, else the host's own; in another
            one the only workspace that is bound there.

    Raises:
        HostFileError: the host file does not bind the scope, or several and none is named.
    """
    if tenant is None or tenant == host_file.host.tenant:
        return _bind_own(host_file, workspace)
    workspaces = workspaces_of(host_file, tenant)
    if not workspaces:
        _refuse(
            host_file, "binds nobody of that tenant", "bind one there with tenant", known(tenant, _tenants(host_file))
        )
    if workspace is None and len(workspaces) > 1:
        _refuse(
            host_file, "binds several workspaces of that tenant", f"name one with --workspace: {', '.join(workspaces)}"
        )
    if workspace is not None and workspace not in workspaces:
        hint = known(workspace, workspaces)
        _refuse(host_file, "binds nobody to that workspace of that tenant", "bind one there", hint)
    return _bind_others(host_file, Scope.of(tenant, workspaces[0] if workspace is None else workspace))


def _refuse(host_file: HostFile, reason: str, *mends: str) -> NoReturn:
    raise HostFileError(host_file.path, "http.principals", reason, "; ".join(mends))


def _tenants(host_file: HostFile) -> list[str]:
    """Return the tenants that the host file binds somebody of, its own first."""
    named = (each.tenant for each in host_file.http.principals if each.tenant is not None)
    return list(dict.fromkeys([host_file.host.tenant, *named]))


def _bind_own(host_file: HostFile, workspace: str | None) -> Binding:
    if workspace is None:
        return bind(host_file, Path.cwd())
    if workspace not in host_file.workspaces:
        elsewhere = [tenant for tenant in _tenants(host_file) if workspace in workspaces_of(host_file, tenant)]
        named = f"name its tenant with --tenant: {', '.join(elsewhere)}"
        mend = f"add it there; {named if elsewhere else known(workspace, host_file.workspaces)}"
        raise HostFileError(host_file.path, "workspaces", "does not list that workspace", mend)
    return bind(host_file, workspace=workspace)


def _bind_others(host_file: HostFile, scope: Scope) -> Binding:
    own = bind(host_file)
    enabled = any(each.tenant == scope.tenant_id and each.tenant_enabled for each in host_file.http.principals)
    return replace(
        own,
        scope=scope,
        enabled=host_file.host.enabled and enabled,
        conversation=replace(
            own.conversation, scope=bind_conversation(host_file.conversation, scope, own.principal, {}).scope
        ),
    )
