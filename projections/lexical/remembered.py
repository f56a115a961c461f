"""Lists that queries ask for again and again: a copy of each token's lists over the same segments, joined."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from journal import limits
from projections.lexical.postings import POSTING_BYTES, Buffer


class JoinedLists(NamedTuple):
    """A token's lists, one after the other; no posting where it has none."""

    postings: int = 0
    greatest: int = 0  # impact
    ids: Buffer = b""  # u32
    impacts: Buffer = b""  # u8

    @classmethod
    def of(cls, postings: int, greatest: int, ids: Sequence[Buffer], impacts: Sequence[Buffer]) -> JoinedLists:
        """Join lists: copied, but for a single one that is too large to be remembered."""
        if len(ids) == 1 and POSTING_BYTES * postings > _list_bytes_max():
            return cls(postings, greatest, ids[0], impacts[0])
        return cls(postings, greatest, b"".join(ids), b"".join(impacts))

    @property
    def size_bytes(self) -> int:
        """What it takes in memory, with its token."""
        return limits.LEXICAL_REMEMBERED_LIST_BYTES + POSTING_BYTES * self.postings


def _list_bytes_max() -> int:
    """Return how large a list may be: none that would push out most of the others."""
    return limits.LEXICAL_REMEMBERED_BYTES // 16


class RememberedLists:
    """Joined lists by token; those that were not asked for longest are dropped first. Safe for several threads."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._lists: OrderedDict[bytes, JoinedLists] = OrderedDict()
        self._bytes = 0

    def of(self, tokens: Sequence[bytes]) -> list[JoinedLists | None]:
        """Return the lists of tokens, None for those that are not remembered."""
        known, used = self._lists.get, self._lists.move_to_end
        found = []
        with self._mutex:
            for token in tokens:
                lists = known(token)
                if lists is not None:
                    used(token)
                found.append(lists)
        return found

    def remember(self, fresh: Mapping[bytes, JoinedLists]) -> None:
        """Remember lists that are not too large."""
        most = _list_bytes_max()
        with self._mutex:
            for token, one in fresh.items():
                if POSTING_BYTES * one.postings <= most and token not in self._lists:
                    self._lists[token] = one
                    self._bytes += one.size_bytes
            while self._bytes > limits.LEXICAL_REMEMBERED_BYTES:
                _, gone = self._lists.popitem(last=False)
                self._bytes -= gone.size_bytes
