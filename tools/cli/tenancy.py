"""The scopes that the host file binds, of its own tenant and of others, and the binding of a person in one of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from journal.scope import Scope
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
    known = workspaces_of(host_file, tenant)
    if not known:
        raise HostFileError(
            host_file.path, "http.principals", "binds nobody of that tenant", "bind one there with tenant"
        )
    if workspace is None and len(known) > 1:
        listed = ", ".join(known)
        raise HostFileError(
            host_file.path, "http.principals", "binds several workspaces of that tenant",
            f"name one with --workspace: {listed}",
        )  # fmt: skip
    if workspace is not None and workspace not in known:
        raise HostFileError(
            host_file.path, "http.principals", "binds nobody to that workspace of that tenant", "bind one there"
        )
    return _bind_others(host_file, Scope.of(tenant, known[0] if workspace is None else workspace))


def _bind_own(host_file: HostFile, workspace: str | None) -> Binding:
    if workspace is None:
        return bind(host_file, Path.cwd())
    if workspace not in host_file.workspaces:
        theirs = [each.tenant for each in host_file.http.principals if each.tenant is not None]
        elsewhere = [tenant for tenant in dict.fromkeys(theirs) if workspace in workspaces_of(host_file, tenant)]
        mend = (
            f"add it there, or name its tenant with --tenant: {', '.join(elsewhere)}" if elsewhere else "add it there"
        )
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
