"""Failpoints: named steps between which a process may die, driven by the crash tests from one table.

``ENGRAM_FAILPOINT=name`` or ``name:count`` kills this process by SIGKILL at that step (the count-th time it is passed).
It is an aid for tests; it can lose nothing, for a SIGKILL can come at any time anyway.
"""

from __future__ import annotations

import os
import signal
from collections import Counter

NAMES = (
    "slot.written",  # data key slots are flushed, nothing refers to them
    "commit.before",  # events are put, the transaction is not committed
    "commit.after",  # the events are durable, nobody was answered
    "destroy.before",  # a terminal event is durable, its key is not destroyed
    "destroy.after",  # the key is destroyed, the journal does not know it
    "erasure.compacted",  # new generations are in force, the erasure-done event is not written
    "rotate.slots_written",  # the next epoch's slots are whole, the keyring still names the old ones
    "rotate.switched",  # the keyring names the new slots, the old file is still there, the journal does not know it
    "root.planned",  # a root key is to be replaced, nothing is written under the new one
    "root.staged",  # every scope's keys stand under the new root key too, the old one is in force
    "root.switched",  # the new root key is in force, no file is in its place
    "root.keyrings_moved",  # keyrings are in their places, the root key's own file is not
    "root.key_moved",  # the root key's file is in its place, old slot files are still there
    "backup.written",  # every page is written, the file has neither end nor name
    "backup.checked",  # the file is whole and checked, and has no name yet
    "restore.loaded",  # the events stand in the new store, its indexes do not
    "restore.erased",  # what was forgotten since is forgotten in the new store, which has no name yet
    "restore.named",  # the new store has its name, the record outside does not say so
)

_VARIABLE = "ENGRAM_FAILPOINT"
_passed: Counter[str] = Counter()


def reach(name: str) -> None:
    """Pass a failpoint: die here if the environment says so."""
    wanted = os.environ.get(_VARIABLE)
    if wanted is None:
        return
    if name not in NAMES:
        raise KeyError(name)
    target, _, count = wanted.partition(":")
    if target == name:
        _passed[name] += 1
        if _passed[name] >= int(count or "1"):
            os.kill(os.getpid(), signal.SIGKILL)
