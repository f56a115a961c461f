"""A clock that moves when it is told to, and randomness that is a function of a seed and a scope."""

from __future__ import annotations

import threading

from blake3 import blake3

from journal.scope import Scope


class ManualClock:
    """Stands until it is moved."""

    def __init__(self, now: int) -> None:
        self._now = now

    def now(self) -> int:
        return self._now

    def set(self, now: int) -> None:
        self._now = now

    def advance(self, milliseconds: int) -> None:
        self._now += milliseconds


class SeededRandomness:
    """One stream a scope: the n-th draw of a scope is the same whatever others drew in between."""

    def __init__(self, seed: str) -> None:
        self._seed = seed.encode()
        self._drawn: dict[bytes, int] = {}
        self._mutex = threading.Lock()

    def draw(self, scope: Scope, size_bytes: int) -> bytes:
        with self._mutex:
            number = self._drawn.get(scope.tag, 0)
            self._drawn[scope.tag] = number + 1
        return blake3(self._seed + scope.tag + number.to_bytes(8, "big")).digest(size_bytes)
