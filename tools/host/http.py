"""What the host binds of HTTP: the section of the host file, checked, and what it names, read.

Nothing here opens a port. No token is read here either: a secret stands in memory only where it is compared.
"""

from __future__ import annotations

import ipaddress
import unicodedata
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from journal import limits
from journal.actors import RESERVED, is_reserved
from projections.address import Address, address_of

if TYPE_CHECKING:
    from tools.host.sections import HttpPrincipalSection, HttpSection

NO_AGENTS_NAME = ("begins like the name of nobody that is an agent", f"begin it with none of {', '.join(RESERVED)}")
"""Reason and mend of a name that would pass for a person at the machine or the engine."""


class Flaw(NamedTuple):
    """What is wrong with a key of the section."""

    key: str
    reason: str
    mend: str


@dataclass(frozen=True, slots=True)
class TokenSource:
    """Where a static token stands: in a file, or in a variable of the environment."""

    name: str
    file: Path | None  # absolute
    env: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpPrincipal:
    """Who is bound to the calls that bring one token."""

    token: str | None  # the name of a static one
    claims: tuple[tuple[str, str], ...]  # of a JWT: all of them
    tenant: str | None  # None: the host's
    tenant_enabled: bool  # of a tenant that is not the host's
    workspace: str | None  # None: the host's
    principal: str
    agent_id: str | None
    tools: frozenset[str]
    purposes: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Http:
    """Streamable HTTP, as the host file says it."""

    host: str
    port: int
    allowed_hosts: tuple[str, ...]
    allowed_origins: tuple[str, ...]
    audience: str | None  # with issuer and jwks, or none of the three
    issuer: str | None
    jwks: Address | Path | None
    tokens: tuple[TokenSource, ...]
    principals: tuple[HttpPrincipal, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """What the rest of the host file allows at most."""

    tenant: str
    workspaces: Collection[str]
    tools: Collection[str]
    purposes: Collection[str]


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens at an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def exposure_flaw(host: str, *, has_tokens: bool, has_hosts: bool) -> Flaw | None:
    """Return what does not go with listening at an address, or None.

    Args:
        host: the address, of the host file or of the command line.
        has_tokens: whether there are static tokens.
        has_hosts: whether there are allowed hosts.
    """
    if is_loopback(host):
        return None
    if has_tokens:
        mend = 'listen at "127.0.0.1", or take tokens of an issuer (audience, issuer, jwks)'
        return Flaw("http.tokens", "are for a loopback address alone, and this is none", mend)
    if not has_hosts:
        mend = 'list the names by which clients reach this server, such as "memory.example.org"'
        return Flaw("http.allowed_hosts", "is empty, but others than this machine are to be served", mend)
    return None


def flaw_of(section: HttpSection, ceiling: Ceiling) -> Flaw | None:
    """Return the first thing that the section's types cannot say is wrong, or None."""
    found = _verifier_flaw(section) or _tokens_flaw(section)
    if found is not None:
        return found
    seen: set[object] = set()
    for position, principal in enumerate(section.principals):
        key = f"http.principals[{position}]"
        found = _identity_flaw(key, principal, section) or _binding_flaw(key, principal, ceiling)
        if found is not None:
            return found
        identity = principal.token or frozenset(principal.claims.items())
        if identity in seen:
            return Flaw(key, "is known by what an earlier one is known by", "one token is bound to one principal")
        seen.add(identity)
    return None


def http_of(section: HttpSection, absolute: Callable[[str], Path]) -> Http:
    """Return what a section without a flaw says; ``absolute`` makes a path absolute."""
    jwks = section.jwks
    return Http(
        host=section.host,
        port=section.port,
        allowed_hosts=section.allowed_hosts,
        allowed_origins=section.allowed_origins,
        audience=section.audience,
        issuer=section.issuer,
        jwks=None if jwks is None else address_of(jwks) if _is_url(jwks) else absolute(jwks),
        tokens=tuple(
            TokenSource(token.name, None if token.file is None else absolute(token.file), token.env)
            for token in section.tokens
        ),
        principals=tuple(map(_principal, section.principals)),
    )


def _principal(section: HttpPrincipalSection) -> HttpPrincipal:
    return HttpPrincipal(
        token=section.token,
        claims=tuple(sorted(section.claims.items())),
        tenant=section.tenant,
        tenant_enabled=section.tenant_enabled,
        workspace=section.workspace,
        principal=section.principal,
        agent_id=section.agent_id,
        tools=frozenset(section.tools),
        purposes=frozenset(section.purposes),
    )


def _is_url(text: str) -> bool:
    return "://" in text


def _verifier_flaw(section: HttpSection) -> Flaw | None:
    given = {"audience": section.audience, "issuer": section.issuer, "jwks": section.jwks}
    missing = [name for name, value in given.items() if value is None]
    if missing and len(missing) < len(given):
        return Flaw(f"http.{missing[0]}", "is missing", "tokens of an issuer need audience, issuer and jwks")
    if section.jwks is None or not _is_url(section.jwks):
        return None
    address = address_of(section.jwks)
    if address is None:
        return Flaw("http.jwks", "is no plain address", "write one without a user, a query or a key")
    if not address.is_private:
        return Flaw("http.jwks", "would be fetched in the clear", "write https:// (http:// is for this machine alone)")
    return None


def _tokens_flaw(section: HttpSection) -> Flaw | None:
    names = [token.name for token in section.tokens]
    if len(set(names)) != len(names):
        return Flaw("http.tokens", "names a token twice", "name each once")
    for position, token in enumerate(section.tokens):
        if (token.file is None) == (token.env is None):
            return Flaw(f"http.tokens[{position}]", "needs one source", "give exactly one of file, env")
    return exposure_flaw(section.host, has_tokens=bool(names), has_hosts=True)


def _identity_flaw(key: str, principal: HttpPrincipalSection, section: HttpSection) -> Flaw | None:
    if (principal.token is None) == (not principal.claims):
        return Flaw(key, "needs what it is known by", "give exactly one of token, claims")
    if principal.token is not None and principal.token not in {token.name for token in section.tokens}:
        return Flaw(f"{key}.token", "names no token of this file", "list it under [[http.tokens]]")
    if principal.claims and section.jwks is None:
        return Flaw(f"{key}.claims", "are of tokens that nobody verifies", "write audience, issuer and jwks")
    return None


def _binding_flaw(key: str, principal: HttpPrincipalSection, ceiling: Ceiling) -> Flaw | None:
    for name, text in (
        ("principal", principal.principal), ("agent_id", principal.agent_id), ("tenant", principal.tenant),
        ("workspace", principal.workspace),
    ):  # fmt: skip
        if text is not None and not _is_reference(text):
            return Flaw(f"{key}.{name}", "is over 512 bytes or not NFC", "write a shorter name in NFC")
        if name in ("principal", "agent_id") and text is not None and is_reserved(text):
            return Flaw(f"{key}.{name}", *NO_AGENTS_NAME)
    is_hosts_tenant = principal.tenant in (None, ceiling.tenant)
    if is_hosts_tenant and principal.workspace is not None and principal.workspace not in ceiling.workspaces:
        mend = "list it under [[workspaces]]"
        return Flaw(f"{key}.workspace", "names a workspace that this file does not list", mend)
    for name, named, known in (
        ("tools", principal.tools, ceiling.tools),
        ("purposes", principal.purposes, ceiling.purposes),
    ):
        if len(set(named)) != len(named):
            return Flaw(f"{key}.{name}", "names one twice", "name each once")
        if not set(named) <= set(known):
            mend = "name out of grants.tools" if name == "tools" else "name out of [[purposes]]"
            return Flaw(f"{key}.{name}", "goes beyond what this file grants", mend)
    return None


def _is_reference(text: str) -> bool:
    return len(text.encode()) <= limits.REF_MAX_BYTES and unicodedata.normalize("NFC", text) == text
