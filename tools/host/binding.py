"""The binding: who calls, in which scope, for which purposes, with which grants. The host makes it, never a caller."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from journal.events import Actor
from journal.scope import Scope
from tools.host.capabilities import ALL_TOOLS, CAPABILITIES, CONFIRMABLE
from tools.host.conversation import ConversationBinding, bind_conversation
from tools.host.exceptions import UntrustedContext
from tools.host.file import HostFile, workspace_of
from tools.host.sections import ConfirmationSection, PurposeSection

_DAY_MILLISECONDS = 24 * 3_600 * 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """What the host binds to every call. Immutable; default deny."""

    scope: Scope
    principal: str
    agent_id: str | None
    enabled: bool  # both host and tenant opted in
    purposes: tuple[PurposeSection, ...]
    granted: frozenset[str]  # tool names
    policy: str
    confirmation: ConfirmationSection
    retention_ceiling_milliseconds: int
    allow_retain: bool
    packet_cap_bytes: int
    families: frozenset[str]
    conversation: ConversationBinding
    destroy_expired: bool = False  # what expired is forgotten too
    by_events: bool = False  # a tool is granted only while a grant event stands, too

    @property
    def purpose_refs(self) -> tuple[str, ...]:
        """The purposes that a call may name, in the host file's order."""
        return tuple(purpose.ref for purpose in self.purposes)

    @property
    def listed_tools(self) -> tuple[str, ...]:
        """The tools that an agent sees: granted, and none at all while memory is off."""
        if not self.enabled:
            return ()
        return tuple(name for name in ALL_TOOLS if name in self.granted)

    def lists(self, tool: object) -> bool:
        """Whether ``listed_tools`` has this one."""
        return self.enabled and isinstance(tool, str) and tool in self.granted and tool in ALL_TOOLS

    def readable(self, purpose_ref: str) -> frozenset[str]:
        """Return the purposes whose records may be read under this one: itself, and those that list it as compatible.

        Raises:
            UntrustedContext: the host did not bind this purpose.
        """
        self.require_purpose(purpose_ref)
        compatible = (purpose.ref for purpose in self.purposes if purpose_ref in purpose.compatible)
        return frozenset({purpose_ref, *compatible})

    def require_purpose(self, purpose_ref: str) -> None:
        """Refuse a well-formed purpose that the host did not bind.

        Raises:
            UntrustedContext: it did not.
        """
        if not any([purpose.ref == purpose_ref for purpose in self.purposes]):  # noqa: C419 - sooner done for a few
            raise UntrustedContext

    def confirms(self, tool: str) -> bool:
        """Whether this tool needs a human's confirmation here."""
        return CAPABILITIES[tool].confirmed or tool in {CONFIRMABLE[name] for name in self.confirmation.require}

    @property
    def never_confirmed(self) -> frozenset[str]:
        """The tools that always fail here: they need a human's confirmation, and there is no channel for it."""
        return frozenset() if self.confirmation.channels else frozenset(filter(self.confirms, self.listed_tools))

    def elicits(self, client_name: str | None) -> bool:
        """Whether the user of a client of this name may approve by a form that the client shows."""
        return "elicitation" in self.confirmation.channels and client_name in self.confirmation.trusted_clients

    def elicited(self, client_name: str | None) -> frozenset[str]:
        """Return the tools whose calls may have such a client show a form."""
        return frozenset(filter(self.confirms, CAPABILITIES)) if self.elicits(client_name) else frozenset()

    def actor(self, session: bytes | None = None) -> Actor:
        """Return who an event names as its maker; ``session`` is a keyed digest of 16 bytes."""
        return Actor(self.principal, self.agent_id, session)


def bind(
    host_file: HostFile,
    directory: Path | None = None,
    *,
    workspace: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Binding:
    """Return the binding that a host file makes.

    Args:
        host_file: the host file.
        directory: the working directory, in which ``.engram-scope`` may choose among the listed workspaces; None: do
            not look.
        workspace: the workspace that a person chose, one of the listed; None: the directory's, else the host's own.
        environ: what the conversation's settings are taken from where the host file is silent.

    Raises:
        HostFileError: ``.engram-scope`` cannot be used.
    """
    host = host_file.host
    if workspace is None:
        workspace = host.workspace if directory is None else workspace_of(host_file, directory)
    scope = Scope.of(host.tenant, workspace)
    return Binding(
        scope=scope,
        principal=host.principal,
        agent_id=host.agent_id,
        enabled=host.enabled and host.tenant_enabled,
        purposes=host_file.purposes,
        granted=host_file.granted,
        by_events=host_file.grants_by_events,
        policy=host_file.policy,
        confirmation=host_file.confirmation,
        retention_ceiling_milliseconds=host_file.retention.ceiling_days * _DAY_MILLISECONDS,
        allow_retain=host_file.retention.allow_retain,
        destroy_expired=host_file.retention.destroy_expired,
        packet_cap_bytes=host_file.packet_cap_bytes,
        families=host_file.families,
        conversation=bind_conversation(host_file.conversation, scope, host.principal, environ),
    )
