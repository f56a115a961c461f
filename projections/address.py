"""Where a request goes: a plain http or https address, taken apart. Nothing here opens a connection."""

from __future__ import annotations

import ipaddress
import re
from typing import Final, NamedTuple
from urllib.parse import urlsplit


class Address(NamedTuple):
    """Where requests go."""

    secure: bool
    host: str
    port: int
    path: str

    @property
    def is_loopback(self) -> bool:
        """Whether the host is this machine. What listens there may still send text on; that is not ours to see."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def is_private(self) -> bool:
        """Whether nobody on the way can read what is sent: over TLS, or to this machine."""
        return self.secure or self.is_loopback


_ADDRESS: Final = re.compile(r"[!-~]+")  # ASCII, nothing that is not shown


def address_of(url: str) -> Address | None:
    """Return where requests go, or None for what is no plain http or https address.

    Plain means: no user, no password, no query, no fragment; each of them is where people put keys.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if not _ADDRESS.fullmatch(url) or parts.scheme not in {"http", "https"} or not parts.hostname or port == 0:
        return None
    if parts.username is not None or parts.password is not None or "?" in url or "#" in url:
        return None
    return Address(
        secure=parts.scheme == "https",
        host=parts.hostname,
        port=port or (443 if parts.scheme == "https" else 80),
        path=parts.path or "/",
    )
