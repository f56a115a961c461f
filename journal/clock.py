"""Where time and randomness come from. Both are injected, so that a test or a replay can hold them still."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

from journal.scope import Scope


class Clock(Protocol):
    """A wall clock."""

    def now(self) -> int:
        """Return epoch milliseconds."""
        ...


class Randomness(Protocol):
    """A source of random bytes, one stream a scope, so that one scope's draws never move another's."""

    def draw(self, scope: Scope, size_bytes: int) -> bytes:
        """Return so many random bytes for this scope."""
        ...


class SystemClock:
    """The machine's wall clock."""

    def now(self) -> int:
        """Return epoch milliseconds."""
        return time.time_ns() // 1_000_000


class SystemRandomness:
    """The operating system's random source."""

    def draw(self, scope: Scope, size_bytes: int) -> bytes:
        """Return so many random bytes; the scope does not matter here."""
        return os.urandom(size_bytes)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def instant(epoch_milliseconds: int) -> str:
    """Return the contract's instant text, ``YYYY-MM-DDTHH:mm:ss.sssZ``."""
    moment = _EPOCH + epoch_milliseconds * _MILLISECOND
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_instant(text: str) -> int:
    """Return the epoch milliseconds of a canonical instant.

    Raises:
        ValueError: not canonical UTC with milliseconds, or no real calendar date.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("no zone")
    milliseconds = (moment - _EPOCH) // _MILLISECOND
    if instant(milliseconds) != text:  # fromisoformat takes many forms, one is canonical
        raise ValueError("not the canonical form")
    return milliseconds
