"""How long a thread waits for what others hold: at most until the deadline of the call that it serves.

A process that was stopped keeps its locks for as long as it stands. Whoever waits for one asks here until when, so that
every wait on a call's way ends by the call's deadline, in the contract's word for that; a thread that serves no call
waits as long as the lock's own bound says. A thread that works for many callers at once waits for nobody: what it would
have to wait for is its caller's to wait for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from journal.errors import DeadlineExceeded, EngramError, StoreUnavailable

_LEAST_SECONDS = 0.05  # who comes at its deadline still gets a lock that is in use, and not one that is stuck


class WouldWait(DeadlineExceeded):
    """Somebody else holds what is needed, and this thread waits for nobody."""


class _Bound(threading.local):
    """Until when this thread waits (``time.monotonic`` seconds; None: it serves no call), and whether it waits."""

    deadline: float | None = None
    waits: bool = True


_bound = _Bound()


@contextmanager
def bounded(deadline: float | None) -> Iterator[None]:
    """Have this thread wait until a deadline at most (``time.monotonic`` seconds); an earlier one stays in force."""
    before = _bound.deadline
    if deadline is not None:
        _bound.deadline = deadline if before is None else min(before, deadline)
    try:
        yield
    finally:
        _bound.deadline = before


@contextmanager
def waiting_for_nobody() -> Iterator[None]:
    """Have this thread take what is free, and refuse the rest with ``WouldWait``."""
    before, _bound.waits = _bound.waits, False
    try:
        yield
    finally:
        _bound.waits = before


def until(most_seconds: float) -> float:
    """Return until when this thread waits for a lock (``time.monotonic`` seconds).

    ``most_seconds`` is the lock's own bound, for who serves no call.
    """
    now = time.monotonic()
    if not _bound.waits:
        return now
    return now + most_seconds if _bound.deadline is None else max(_bound.deadline, now + _LEAST_SECONDS)


def left(most_seconds: float) -> float:
    """Return for how many seconds this thread waits; ``until`` in another form."""
    return max(0.0, until(most_seconds) - time.monotonic())


def given_up(what: str) -> EngramError:
    """Return the refusal of one who waited as long as ``until`` said; ``what`` says for what, in the log."""
    if not _bound.waits:
        return WouldWait(what)
    return StoreUnavailable(what) if _bound.deadline is None else DeadlineExceeded(what)
