"""Who comes over HTTP: their tokens, the keys of their issuer, and what they are bound to."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress

from tools.cli.checkup.finding import Finding, fault, note, warning
from tools.host.bearer import TokenPlace, Unreadable
from tools.host.exceptions import HostFileError
from tools.host.file import HostFile
from tools.host.principals import bind_principal


def tokens(host_file: HostFile, environ: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """Yield which static tokens the server cannot read, or would not take."""
    from tools.server.http.tokens import verifier_of  # with it comes a library for JWTs

    is_whole = True
    for position, source in enumerate(host_file.http.tokens):
        try:
            TokenPlace(source.file, source.env).read(environ)
        except Unreadable as error:
            is_whole = False
            # The server's environment may be another than this one; its files are the same.
            of_kind = warning if error.key == "env" else fault
            where = "no server over HTTP starts" + (" where it is so for the server too" if error.key == "env" else "")
            detail = f"{error.reason}, and {where}: not for the other principals either"
            yield of_kind("HTTP_TOKEN_REFUSED", f"http.tokens[{position}].{error.key}", detail, error.mend)
    if is_whole:
        try:
            verifier_of(host_file.http, host_file.path, environ)
        except HostFileError as error:
            reason, _, mend = str(error).removeprefix(f"{error.file}:").strip().partition("; ")
            yield fault("HTTP_TOKEN_REFUSED", "http.tokens", reason, mend)


def keys(host_file: HostFile) -> Iterator[Finding]:
    """Yield why tokens of the issuer cannot be verified. Its keys are asked for, and nothing is sent."""
    from projections.exchange import Unanswered
    from tools.server.http.keysets import KeysUnavailable, read_keys

    source = host_file.http.jwks
    if source is None:
        return
    mend = "see that the issuer answers there, or mend http.jwks; until then nobody with its tokens is let in"
    try:
        found = read_keys(source)
    except (Unanswered, KeysUnavailable) as error:
        yield fault("JWKS_UNAVAILABLE", "http.jwks", f"the issuer's keys cannot be had: {error}", mend)
    except OSError as error:
        why = error.strerror or type(error).__name__
        yield fault("JWKS_UNAVAILABLE", "http.jwks", f"the issuer's keys cannot be read: {why}", mend)
    else:
        if not found:
            yield fault(
                "JWKS_EMPTY", "http.jwks", "the set holds no key of RS256, ES256 or EdDSA with an id of its own",
                "have the issuer publish one",
            )  # fmt: skip


def principals(host_file: HostFile) -> Iterator[Finding]:
    """Yield which principals can do nothing, and that there are none though somebody set up tokens."""
    http = host_file.http
    if not http.principals:
        yield note(
            "NO_HTTP_PRINCIPALS", "http.principals", "nobody is bound to a token, so that every call over HTTP is 401",
            "write [[http.principals]]",
        )  # fmt: skip
    known = {principal.token for principal in http.principals}
    for token in http.tokens:
        if token.name not in known:
            yield warning(
                "HTTP_TOKEN_UNUSED", "http.tokens", f'nobody is bound to the token "{token.name}"',
                "bind it under [[http.principals]], or remove it",
            )  # fmt: skip
    for position, principal in enumerate(http.principals):
        subject = f"http.principals[{position}]"
        with suppress(HostFileError):
            binding = bind_principal(host_file, principal)
            if not binding.enabled:
                yield warning(
                    "HTTP_PRINCIPAL_OFF", subject, "its tenant has not opted in, so that no tool is listed",
                    "set tenant_enabled = true there, or host.tenant_enabled where it is the host's tenant",
                )  # fmt: skip
            elif not binding.listed_tools:
                yield warning("HTTP_PRINCIPAL_OFF", subject, "no tool is granted to it", "name some in its tools")
            elif binding.never_confirmed and host_file.confirmation.channels:
                yield warning(
                    "HTTP_NEVER_CONFIRMED", subject,
                    f"{', '.join(sorted(binding.never_confirmed))} always fail: over HTTP no client shows a form",
                    'add "console" to confirmation.channels, or take them out of its tools',
                )  # fmt: skip
