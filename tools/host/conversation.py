"""What the host binds to every call of conversation memory: where it lies, whose it is, and how much is shown of it."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import tzinfo
from typing import TYPE_CHECKING, NamedTuple

from journal import limits
from journal.scope import Scope
from tools.host import environment

if TYPE_CHECKING:
    from tools.host.sections import ConversationSection


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationBinding:
    """What the host binds to every call of a conversation tool. Immutable."""

    scope: Scope  # of the host's tenant
    user: frozenset[str]  # the principals that are one person, the bound one among them
    zone: tzinfo | None  # None: the machine's
    device: str
    agent_key: str | None
    short_term_days: int
    short_term_tokens: int
    brief_max_chars: int

    @classmethod
    def of(cls, scope: Scope, principal: str) -> ConversationBinding:
        """Return the binding of a host file that says nothing of conversations, in an empty environment."""
        return cls(
            scope=scope,
            user=frozenset({principal}),
            zone=None,
            device=machine_name(),
            agent_key=None,
            short_term_days=limits.SHORT_TERM_DAYS_DEFAULT,
            short_term_tokens=limits.SHORT_TERM_TOKENS,
            brief_max_chars=limits.BRIEF_MAX_CHARACTERS,
        )


class Flaw(NamedTuple):
    """What is wrong with a key of the section."""

    key: str
    reason: str
    mend: str


def bind_conversation(
    section: ConversationSection, scope: Scope, principal: str, environ: Mapping[str, str]
) -> ConversationBinding:
    """Return the binding that a checked section makes.

    Args:
        section: what the host file says.
        scope: the scope of the calls; the conversation follows it unless the section names a workspace.
        principal: the bound principal.
        environ: the environment, which is asked where the section is silent.
    """
    told = environment.read(environ)
    return ConversationBinding(
        scope=scope if section.workspace is None else Scope.of(scope.tenant_id, section.workspace),
        user=next((frozenset(names) for names in section.users if principal in names), frozenset({principal})),
        zone=None if section.time_zone is None else zone_of(section.time_zone),
        device=section.device or machine_name(),
        agent_key=section.agent_key or told.agent_key,
        short_term_days=section.short_term_days or told.short_term_days or limits.SHORT_TERM_DAYS_DEFAULT,
        short_term_tokens=section.short_term_tokens or told.short_term_tokens or limits.SHORT_TERM_TOKENS,
        brief_max_chars=section.brief_max_chars,
    )


def flaw_of(section: ConversationSection, workspaces: Collection[str]) -> Flaw | None:
    """Return the first thing that the section's types cannot say is wrong, or None.

    Args:
        section: what the host file says.
        workspaces: the workspaces that the host file lists, its own among them.
    """
    if section.workspace is not None and section.workspace not in workspaces:
        return Flaw(
            "conversation.workspace", "names a workspace that this file does not list", "list it under [[workspaces]]"
        )
    seen: set[str] = set()
    for position, names in enumerate(section.users):
        key = f"conversation.users[{position}]"
        if not all(map(_is_reference, names)):
            return Flaw(key, "holds a name over 512 bytes or not in NFC", "write shorter names in NFC")
        if len(set(names)) != len(names) or seen & set(names):
            return Flaw(key, "names a principal for the second time", "a principal is one user's; name each once")
        seen |= set(names)
    for key, name in (("device", section.device), ("agent_key", section.agent_key)):
        if name is not None and not _is_reference(name):
            return Flaw(f"conversation.{key}", "is over 512 bytes or not NFC", "write a shorter name in NFC")
    if section.time_zone is not None and zone_of(section.time_zone) is None:
        return Flaw("conversation.time_zone", "is no time zone known here", 'write a name such as "Asia/Seoul"')
    return None


def zone_of(name: str) -> tzinfo | None:
    """Return the IANA time zone of a name, or None where this machine knows none of it."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # here: a host file that names no zone need not pay for it

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # a folder of zones, or a name too long, is an OSError
        return None


def machine_name() -> str:
    """Return the machine's own name: NFC, at most 512 bytes, never empty."""
    name = unicodedata.normalize("NFC", os.uname().nodename)
    return name.encode(errors="replace")[: limits.REF_MAX_BYTES].decode(errors="ignore") or "unnamed"


def _is_reference(text: str) -> bool:
    return len(text.encode()) <= limits.REF_MAX_BYTES and unicodedata.normalize("NFC", text) == text
