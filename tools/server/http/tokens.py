"""Who brings a call: a bearer token, verified, and the one principal that the host file binds to it.

A token that is refused is refused in the same words whatever is wrong with it; the reason goes to the log, and nothing
of the token does.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import jwt

from journal import limits
from tools.host.bearer import VISIBLE, TokenPlace, Unreadable
from tools.host.exceptions import HostFileError
from tools.host.http import Http, HttpPrincipal, TokenSource
from tools.server.http.keysets import ALGORITHMS, KeySet

_JWT: Final = re.compile(r"[\w-]+\.[\w-]+\.[\w-]*", re.ASCII)
_REASONS: Final[Sequence[tuple[type[Exception], str]]] = (
    (jwt.ExpiredSignatureError, "expired"),
    (jwt.ImmatureSignatureError, "not valid yet"),
    (jwt.InvalidAudienceError, "foreign audience"),
    (jwt.InvalidIssuerError, "foreign issuer"),
    (jwt.MissingRequiredClaimError, "claim missing"),
    (jwt.InvalidAlgorithmError, "algorithm"),
    (jwt.InvalidSignatureError, "signature"),
)


class TokenRefused(Exception):
    """The token is none that this server verifies; the text is the reason, for the log."""


class NotBound(Exception):
    """The token is good, and nobody here is bound to it."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What a verified token says of who brought it."""

    token: str | None = None  # the name of a static one
    claims: Mapping[str, Any] = field(default_factory=dict)  # of a JWT

    @property
    def issuer(self) -> str | None:
        """The issuer of a JWT."""
        return self.claims.get("iss")

    @property
    def subject(self) -> str | None:
        """The subject of a JWT, where it names one."""
        subject = self.claims.get("sub")
        return subject if isinstance(subject, str) else None


class StaticTokens:
    """Tokens that the host made itself, kept as digests."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        """Take tokens by their names."""
        self._digests = {name: _digest(secret) for name, secret in secrets.items()}

    def name_of(self, token: str) -> str | None:
        """Return the name of a token, or None. How long it takes says nothing of how near one was."""
        digest, found = _digest(token), None
        for name, known in self._digests.items():
            if hmac.compare_digest(digest, known):
                found = name
        return found

    def differs(self, other: StaticTokens, name: str | None) -> bool:
        """Whether the token of a name is another one there."""
        return name is not None and self._digests.get(name) != other._digests.get(name)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


class JwtVerifier:
    """Verifies what one issuer signed for this server."""

    def __init__(self, audience: str, issuer: str, keys: KeySet) -> None:
        self._audience = audience
        self._issuer = issuer
        self._keys = keys

    async def claims(self, token: str) -> dict[str, Any]:
        """Return the claims of a token.

        Raises:
            TokenRefused: it is not this issuer's, not for this server, or its time is not now.
            KeysUnavailable: the issuer's keys cannot be had.
        """
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            raise TokenRefused("malformed") from None
        if header.get("alg") not in ALGORITHMS:
            raise TokenRefused("algorithm")
        key_id = header.get("kid")
        if not isinstance(key_id, str):
            raise TokenRefused("no key id")
        key = await self._keys.key(key_id)
        if key is None:
            raise TokenRefused("unknown key")
        try:
            return jwt.decode(
                token, key, algorithms=[key.algorithm_name], audience=self._audience, issuer=self._issuer,
                leeway=limits.TOKEN_LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud"], "enforce_minimum_key_length": True},
            )  # fmt: skip
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            reason = next((words for kind, words in _REASONS if isinstance(error, kind)), "malformed")
        raise TokenRefused(reason)


class TokenVerifier:
    """All the ways in which a token can be good. Without any of them, none is."""

    def __init__(self, static: StaticTokens, signed: JwtVerifier | None) -> None:
        self._static = static
        self._signed = signed

    def take(self, static: StaticTokens) -> None:
        """Take other static tokens in the place of those that there are."""
        self._static = static

    async def identity(self, authorization: str | None) -> Identity:
        """Return who brings an Authorization header.

        Raises:
            TokenRefused: nobody that is known here. KeysUnavailable: the issuer's keys cannot be had.
        """
        if authorization is None:
            raise TokenRefused("no token")
        scheme, _, token = authorization.partition(" ")
        token = token.strip(" ")
        if scheme.lower() != "bearer" or not VISIBLE.fullmatch(token):
            raise TokenRefused("no bearer token")
        if len(token) > limits.TOKEN_MAX_BYTES:
            raise TokenRefused("too long")
        name = self._static.name_of(token)
        if name is not None:
            return Identity(token=name)
        if self._signed is None or not _JWT.fullmatch(token):
            raise TokenRefused("unknown token")
        return Identity(claims=await self._signed.claims(token))


def bound_to(principals: Sequence[HttpPrincipal], identity: Identity) -> int:
    """Return the place of the one principal that is bound to an identity.

    Raises:
        NotBound: there is none, or more than one.
    """
    found = [place for place, principal in enumerate(principals) if _is_bound(principal, identity)]
    if len(found) != 1:
        raise NotBound
    return found[0]


def _is_bound(principal: HttpPrincipal, identity: Identity) -> bool:
    if identity.token is not None:
        return principal.token == identity.token
    if not principal.claims:
        return False
    # Only a string equals what the host file says: a list that holds the name is another claim.
    return all(identity.claims.get(name) == value for name, value in principal.claims)


def verifier_of(http: Http, host_file: Path, environ: Mapping[str, str] = os.environ) -> TokenVerifier:
    """Return the verifier that a host file asks for; the static tokens are read now.

    Raises:
        HostFileError: a static token cannot be read, is open to others, or too short.
    """
    signed = None
    if http.audience is not None and http.issuer is not None and http.jwks is not None:
        signed = JwtVerifier(http.audience, http.issuer, KeySet(http.jwks))
    return TokenVerifier(static_tokens_of(http, host_file, environ), signed)


def static_tokens_of(http: Http, host_file: Path, environ: Mapping[str, str] = os.environ) -> StaticTokens:
    """Return the static tokens that a host file names, read now.

    Raises:
        HostFileError: one cannot be read, is open to others, or too short.
    """
    secrets: dict[str, str] = {}
    for position, source in enumerate(http.tokens):
        key = f"http.tokens[{position}]"
        secret = _secret(host_file, key, source, environ)
        if len(secret) < limits.TOKEN_SECRET_MIN_CHARACTERS:
            mend = f"make one of {limits.TOKEN_SECRET_MIN_CHARACTERS} or more letters and digits (openssl rand -hex 32)"
            raise HostFileError(host_file, key, "is too short to be a token", mend)
        if secret in secrets.values():
            raise HostFileError(host_file, key, "is the token of another name too", "make one for each")
        secrets[source.name] = secret
    return StaticTokens(secrets)


def _secret(host_file: Path, key: str, source: TokenSource, environ: Mapping[str, str]) -> str:
    try:
        return TokenPlace(source.file, source.env).read(environ)
    except Unreadable as error:
        raise HostFileError(host_file, f"{key}.{error.key}", error.reason, error.mend) from None
