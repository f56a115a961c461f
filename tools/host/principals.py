"""The bindings of those who come over HTTP: one each, out of what the host file allows at most."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import structs

from journal.scope import Scope
from tools.host.binding import Binding, bind
from tools.host.conversation import bind_conversation

if TYPE_CHECKING:
    from tools.host.file import HostFile
    from tools.host.http import HttpPrincipal


def bind_principal(host_file: HostFile, principal: HttpPrincipal) -> Binding:
    """Return the binding of one who comes over HTTP.

    The environment is not asked: it is the server's, not that of whoever calls. Nor may a client show the form by which
    its own call is approved: whoever has a token can give itself a client's name.
    """
    base = bind(host_file, environ={})
    tenant = principal.tenant or host_file.host.tenant
    scope = Scope.of(tenant, principal.workspace or host_file.host.workspace)
    is_hosts_tenant = tenant == host_file.host.tenant
    tenant_enabled = host_file.host.tenant_enabled if is_hosts_tenant else principal.tenant_enabled
    return replace(
        base,
        scope=scope,
        principal=principal.principal,
        agent_id=principal.agent_id,
        enabled=host_file.host.enabled and tenant_enabled,
        purposes=tuple(purpose for purpose in base.purposes if purpose.ref in principal.purposes),
        granted=base.granted & principal.tools,
        confirmation=structs.replace(
            base.confirmation, channels=tuple(name for name in base.confirmation.channels if name == "console")
        ),
        conversation=bind_conversation(host_file.conversation, scope, principal.principal, {}),
    )


def binding_of(host_file: HostFile, scope: Scope, principal: str) -> Binding | None:
    """Return the binding under which a principal comes to a scope over HTTP, or None where the host names none.

    Where several tokens are bound to one principal there, the grants are those of all of them: whoever asks is a person
    who approves what one of them asked for.
    """
    found = [
        binding
        for binding in (bind_principal(host_file, each) for each in host_file.http.principals)
        if binding.principal == principal and scope in (binding.scope, binding.conversation.scope)
    ]
    if not found:
        return None
    granted = frozenset[str]().union(*(binding.granted for binding in found if binding.enabled))
    refs = {ref for binding in found for ref in binding.purpose_refs}
    purposes = tuple(purpose for purpose in host_file.purposes if purpose.ref in refs)
    return replace(found[0], granted=granted, purposes=purposes)
