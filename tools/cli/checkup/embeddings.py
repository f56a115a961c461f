"""A scope's embeddings on disk, looked at without a key: how much of what is in force has one, and what rests.

An embedding of a message counts, whichever revision it is of: only a key tells.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path

import lmdb

from journal import layout, limits
from journal.errors import EngramError, StoreUnavailable
from journal.foreign import UNREADABLE
from journal.scope import Scope
from journal.slots import SlotState
from journal.store.port import View
from projections import environment, marks
from projections.vector.cache import Failure, cursors_in, failures_in
from projections.vector.folders import TABLES, Folders
from projections.vector.progress import Progress, in_force, progress, resting
from tools.cli.checkup import keyslots, reading
from tools.cli.checkup.finding import Finding, note, ok, warning

OpenView = Callable[[Scope], AbstractContextManager[View]]

_ATTEMPTS = 3
_PAUSE_SECONDS = 0.05

REBUILD = "run engram projections rebuild vector"
_MENDS = {
    "unavailable": f"see that its source answers (engram doctor), then {REBUILD}",
    "refused": f"{REBUILD} to try those again; a source that refuses them for good leaves them to words alone",
    "lost": "run engram audit, which names what is lost; keys/ from a backup may have it",
}


@dataclass(frozen=True, slots=True)
class Found:
    """How the embeddings of one model stand on disk."""

    progress: Progress
    resting: Counter[str]  # by why
    serves: bool  # whether this model is the one that was last complete
    others: int  # folders of other models
    readable: bool

    @property
    def mend(self) -> str:
        """What a person can do about what rests; "" where nothing does."""
        return "; ".join(_MENDS[why] for why in _MENDS if self.resting[why])


def found(store: Path, scope: Scope, folder: str, view_of: OpenView) -> Found:
    """Look at what is embedded of a scope into a model's folder."""
    folders = Folders(store / layout.PROJECTIONS, scope)
    live = None
    with suppress(OSError, *UNREADABLE, EngramError):  # what is wrong with the keys is told by their own check
        slots = keyslots.all_slots(store, scope).slots
        live = {slot.key_id for slot in slots if slot is not None and slot.state is SlotState.LIVE}
    embedded: frozenset[int] = frozenset()
    failures: dict[int, Failure] = {}
    names, readable = folders.names(), True
    for _ in range(_ATTEMPTS if folder in names else 0):
        try:
            embedded, failures = _rows(folders.path / folder)
            readable = True
            break
        except (OSError, EngramError, lmdb.Error):  # whoever closes it has it to themselves for a moment
            readable = not (folders.path / folder).exists()
            time.sleep(_PAUSE_SECONDS)
    with view_of(scope) as view:
        wanted = in_force(view.subjects(), live)
    return Found(
        progress(wanted, embedded, failures), resting(wanted, embedded, failures),
        folders.current() == folder, sum(name != folder for name in names), readable,
    )  # fmt: skip


def _rows(directory: Path) -> tuple[frozenset[int], dict[int, Failure]]:
    """Return the cursors that have a row, and what is noted of others; nothing of a folder that is made anew."""
    # Its shared lock, as everybody takes it who opens one: it is not removed under our hands.
    with (directory / environment.DATA).open("rb") as file:
        fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
        if not marks.trusted(directory):
            if marks.changed(directory):
                raise StoreUnavailable("the folder was changed since it was closed")
            return frozenset(), {}
        size_bytes = max(limits.PROJECTION_MAP_SIZE_BYTES, os.fstat(file.fileno()).st_size)
        with (
            reading.opened(directory, max_dbs=len(TABLES), map_size_bytes=size_bytes) as env,
            env.begin() as txn,
        ):
            tables = {name: env.open_db(name, txn=txn, create=False) for name in TABLES}
            return frozenset(cursors_in(txn, tables).tolist()), failures_in(txn, tables)


def check(store: Path, scope: Scope, folder: str, model: str, view_of: OpenView) -> Iterator[Finding]:
    """Yield how far the embeddings of a scope are, and what keeps some from being made.

    ``model`` is how the provider and its model are named to a person.
    """
    looked = found(store, scope, folder, view_of)
    done = looked.progress
    subject, told = f"{scope.tenant_id} / {scope.workspace_id}", f"{model}: {done}"
    if not looked.readable:
        yield warning("EMBEDDINGS_BROKEN", subject, f"{model}: what is embedded cannot be read", REBUILD)
    elif done.failed:
        why = ", ".join(f"{count} {name}" for name, count in sorted(looked.resting.items()))
        yield warning("EMBEDDINGS_FAILED", subject, f"{told} ({why})", looked.mend)
    elif done.wanted:
        yield note("EMBEDDINGS_WANTED", subject, told, f"engram serve makes them behind its calls, or {REBUILD}")
    else:
        yield ok("EMBEDDINGS", subject, told)
