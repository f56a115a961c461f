"""Where time and randomness come from. Both are injected, so that a test or a replay can hold them still."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Protocol

from journal import limits
from journal.errors import StoreUnavailable
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


class SteadyClock:
    """A wall clock that refuses to have jumped.

    A wall clock that moves by more than a day against the time since boot would poison recorded_at, which never
    decreases. Starting afresh is the operator's consent; a weekend's idleness or a suspend is no jump (decision 0015).
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset = clock.now() - _boot_milliseconds()

    def now(self) -> int:
        """Return epoch milliseconds.

        Raises:
            StoreUnavailable: the wall clock jumped.
        """
        now = self._clock.now()
        if abs(now - _boot_milliseconds() - self._offset) > limits.CLOCK_JUMP_MAX_MILLISECONDS:
            raise StoreUnavailable("the wall clock jumped by more than a day; restart to consent")
        return now


def _boot_milliseconds() -> int:
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1_000_000


class SystemRandomness:
    """The operating system's random source."""

    def draw(self, scope: Scope, size_bytes: int) -> bytes:
        """Return so many random bytes; the scope does not matter here."""
        return os.urandom(size_bytes)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_SECOND = timedelta(seconds=1)


def instant(epoch_milliseconds: int) -> str:
    """Return the contract's instant text, ``YYYY-MM-DDTHH:mm:ss.sssZ``."""
    seconds, milliseconds = divmod(epoch_milliseconds, 1_000)
    return f"{_second(seconds)}.{milliseconds:03d}Z"


@lru_cache(maxsize=1_024)
def _second(epoch_seconds: int) -> str:
    """Return an instant's text up to its seconds; remembered, for a call writes several instants of one second."""
    return (_EPOCH + epoch_seconds * _SECOND).isoformat(timespec="seconds").removesuffix("+00:00")


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
