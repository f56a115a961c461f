"""``engram connect --transport http``: which address, which principal and which variable a client is told of."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

import click

from projections.address import address_of
from tools.cli.choices import known
from tools.cli.connect_ways import Reached
from tools.host.binding import Binding
from tools.host.file import HostFile
from tools.host.principals import bind_principal

TOKEN_VARIABLE: Final = "ENGRAM_TOKEN"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PATH: Final = "/mcp"


def reached(host_file: HostFile, url: str | None, token_variable: str) -> Reached:
    """Return how a client reaches the server.

    Args:
        host_file: the host file.
        url: what a person named; None: what the host file says of itself.
        token_variable: the name of the variable of the client's environment that holds its token.

    Raises:
        click.UsageError: the address cannot be told, or the token would go there in the clear.
    """
    if not _NAME.fullmatch(token_variable):
        raise click.UsageError("--token-variable takes a name of letters, digits and _")
    url = _own_address(host_file) if url is None else url
    address = address_of(url)
    if address is None:
        raise click.UsageError("--url takes an address such as https://memory.example.org/mcp, without a user or a key")
    if not address.is_private:
        raise click.UsageError("the token would go there in the clear: name an https address with --url")
    return Reached(url, token_variable)


def _own_address(host_file: HostFile) -> str:
    """Return the address by which the server is known: the audience of its tokens, where that is one."""
    http = host_file.http
    if http.audience is not None and urlsplit(http.audience).scheme in {"http", "https"}:
        return http.audience
    if not http.port:
        raise click.UsageError("http.port is 0, a free one at each start: name the address with --url")
    host = f"[{http.host}]" if ":" in http.host else http.host
    return f"http://{host}:{http.port}{_PATH}"


def tools_of(host_file: HostFile, principal: str | None) -> tuple[Binding, tuple[str, ...]]:
    """Return one binding of a principal, and the tools that are listed for it, whichever of its tokens comes.

    Args:
        host_file: the host file.
        principal: its name; None: the only one that is bound.

    Raises:
        click.UsageError: there is none of this name, or more than one and none is named.
    """
    bindings = [bind_principal(host_file, each) for each in host_file.http.principals]
    names = list(dict.fromkeys(binding.principal for binding in bindings))
    if not names:
        raise click.UsageError("nobody is bound to a token yet: write [[http.principals]] in the host file")
    if principal is None and len(names) > 1:
        raise click.UsageError(f"name one with --principal: {', '.join(names)}")
    found = [binding for binding in bindings if binding.principal == (principal or names[0])]
    if not found:
        raise click.UsageError(f"there is no such principal; {known(principal or '', names)}")
    listed = dict.fromkeys(tool for binding in found for tool in binding.listed_tools)
    return found[0], tuple(listed)
