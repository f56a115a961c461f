"""A scope's keys as one process has them open, with the data keys that it has at hand."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from journal import limits
from journal.datakeys import DataKey, Drawn

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    from journal.keyringfile import ScopeKeys
    from journal.scope import Scope
    from journal.slots import SlotFile


@dataclass(slots=True)
class OpenedKeys:
    """A scope's opened keys in this process."""

    file: bytes  # the keyring file as it was read: another process's rotation shows here
    keys: ScopeKeys
    slots: SlotFile
    wrapping: AESGCM  # made once: a page of contents opens as many slots
    ahead: deque[DataKey] = field(default_factory=deque, repr=False)
    ahead_at: float = float("-inf")  # when keys were last written ahead, in time.monotonic seconds
    ahead_count: int = limits.SLOTS_AHEAD  # how many were

    def count_ahead(self) -> int:
        """Return how many keys to write ahead: more where the last ones were used up at once, for a flush is dear."""
        if time.monotonic() - self.ahead_at >= limits.SLOTS_AHEAD_SECONDS:
            return limits.SLOTS_AHEAD
        return min(2 * self.ahead_count, limits.SLOTS_AHEAD_MAX)

    def write_ahead(self, scope: Scope, made: Sequence[Drawn]) -> list[DataKey]:
        """Write new keys' slots, durably, and return the keys; the scope's key lock is held."""
        first, generation = self.slots.append([each.slot(scope, self.wrapping) for each in made])
        self.ahead_at, self.ahead_count = time.monotonic(), len(made)
        return [DataKey(each.key_id, each.key, first + n, generation) for n, each in enumerate(made)]
