"""The page cursor: where the next page of a search begins, authenticated and bound to its search.

    0   version u8 = 1
    1   position u32, big-endian: how many records came before
    5   cursor u64: the journal's head as the first page saw it
    13  instant u64: the first page's instant, epoch milliseconds
    21  search digest, 16 bytes: keyed BLAKE3 of query, purpose, policy and principal
    37  MAC, 16 bytes: keyed BLAKE3 of bytes 0..37

It is base64url without padding, 71 characters. limit and max_packet_bytes are not in it: they may change from page to
page. The key derives per lexical projection version, so that no cursor outlives a change of the ranking.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from blake3 import blake3

from journal.canonical import canonical_bytes
from journal.errors import StalePage
from journal.sealing import subkey

VERSION = 1
_BODY = struct.Struct(">BIQQ16s")
_MAC_BYTES = 16


@dataclass(frozen=True, slots=True)
class PagePosition:
    """What a cursor says."""

    position: int
    first_cursor: int
    first_instant: int  # epoch milliseconds


class PageCursors:
    """Makes and reads the cursors of one search."""

    def __init__(self, key: bytes, *, query: str, purpose_ref: str, policy: Sequence[str], principal: str) -> None:
        self._mac_key = subkey(key, "page-cursor/mac")
        search = canonical_bytes([query, purpose_ref, list(policy), principal])
        self._search = blake3(search, key=subkey(key, "page-cursor/search")).digest(16)

    def encode(self, page: PagePosition) -> str:
        """Return the cursor's text."""
        body = _BODY.pack(VERSION, page.position, page.first_cursor, page.first_instant, self._search)
        return base64.urlsafe_b64encode(body + self._mac(body)).rstrip(b"=").decode()

    def decode(self, text: str) -> PagePosition:
        """Return what a cursor says.

        Raises:
            StalePage: it is not ours, or another search's.
        """
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            raise StalePage("the page cursor is not ours") from None
        body, mac = raw[: _BODY.size], raw[_BODY.size :]
        if len(raw) != _BODY.size + _MAC_BYTES or not hmac.compare_digest(mac, self._mac(body)):
            raise StalePage("the page cursor is not ours")
        version, position, first_cursor, first_instant, search = _BODY.unpack(body)
        if (
            version != VERSION
            or search != self._search
            or self.encode(PagePosition(position, first_cursor, first_instant)) != text
        ):
            raise StalePage("the page cursor is another search's")
        return PagePosition(position, first_cursor, first_instant)

    def _mac(self, body: bytes) -> bytes:
        return blake3(body, key=self._mac_key).digest(_MAC_BYTES)
