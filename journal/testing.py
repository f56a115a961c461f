"""Time and randomness to hold in one's hand: for the tests of those who embed the journal.

With both injected, everything that a scope's journal writes is a function of what is asked of that scope: its frames,
its sealed parts, its tokens. What other scopes do meanwhile changes no byte of it.
"""

from __future__ import annotations

import threading

from blake3 import blake3

from journal import limits
from journal.scope import Scope


class ManualClock:
    """A wall clock that stands until it is moved. Starts at 2025-11-29T12:00:00.000Z unless told otherwise."""

    def __init__(self, epoch_milliseconds: int = 1_764_417_600_000) -> None:
        self._now = epoch_milliseconds

    def now(self) -> int:
        """Return epoch milliseconds."""
        return self._now

    def advance(self, *, days: float = 0, seconds: float = 0, milliseconds: int = 0) -> None:
        """Move the clock; negative values move it back."""
        self._now += round(days * 86_400_000 + seconds * 1_000) + milliseconds

    def set(self, epoch_milliseconds: int) -> None:
        """Set the clock."""
        self._now = epoch_milliseconds


class SeededRandomness:
    """A stream of bytes for each scope, derived from a seed: BLAKE3's output, keyed by the seed, over the scope tag.

    Thread-safe. It repeats itself by design, so it is for tests alone: never draw a key for real content from it.
    """

    def __init__(self, seed: bytes) -> None:
        self._key = blake3(seed).digest(limits.KEY_BYTES)
        self._drawn: dict[bytes, int] = {}
        self._mutex = threading.Lock()

    def draw(self, scope: Scope, size_bytes: int) -> bytes:
        """Return the scope's next bytes."""
        with self._mutex:
            position = self._drawn.get(scope.tag, 0)
            self._drawn[scope.tag] = position + size_bytes
        return blake3(scope.tag, key=self._key).digest(size_bytes, seek=position)
