"""The walk over a store whose last user did not close it: nothing is written before it is known to be whole.

    python -m journal.store.lmdb.quarantine DIRECTORY [beside | idle]

runs in a process of its own, because reading a damaged map can end in SIGBUS, which no process outlives. It looks at
the file's structure page by page without mapping it, then maps it and walks: every event of every scope along its
chain, every sealed part, every index table against the sums in the commit records. It writes nothing and needs no key.

``beside``: others may be writing. Then it maps the file first and looks at everything in one read transaction: what a
reader may still see, LMDB does not overwrite, so that the pages of that commit and of later ones stand still. ``idle``
is the same at the lowest priority, for a scrub (``pagescrub``).

It says ``begun`` in a line before it looks at anything. Its answer is one JSON line: ``{"corrupt": reason}`` with exit
code 1, ``{"rebuild": [table, ...]}`` with exit code 0, or ``{"unmade": reason}`` where the system refused it something.
What it dies of after it began is corruption too, unless somebody ended it; before, nothing is known of the journal.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from journal import limits
from journal.errors import EngramError, JournalCorrupt, StoreUnavailable
from journal.foreign import UNREADABLE
from journal.indexes import Table
from journal.ownmodule import own_command, own_environment
from journal.scope import TAG_BYTES
from journal.store.lmdb import tables
from journal.store.lmdb.environment import Environment
from journal.store.lmdb.filesystem import metas_problem, structure_problems
from journal.store.lmdb.indexcheck import broken_sums
from journal.store.lmdb.view import LmdbView, read_record
from journal.walks import BEGUN, DIED_OF_PAGES

if TYPE_CHECKING:
    from collections.abc import Sequence

    import lmdb


_ATTEMPTS = 4
_PAUSE_SECONDS = 0.02


class Answer(msgspec.Struct, omit_defaults=True):
    """What the child found."""

    corrupt: str | None = None
    rebuild: list[str] = []
    unmade: str | None = None


# --- the parent's side ---------------------------------------------------------------------------


def inspect(directory: Path) -> list[str]:
    """Have a journal directory that nobody writes to walked by a child process.

    Returns the index tables that must be rebuilt.

    Raises:
        JournalCorrupt: the events are damaged, or the walk did not survive. StoreUnavailable: it could not be made.
    """
    return _waited_for(command_of(directory))


def inspect_beside(directory: Path) -> list[str]:
    """Do the same while others may be writing; raises as ``inspect`` does."""
    return _waited_for(command_of(directory, "beside"))


def command_of(directory: Path, *words: str) -> list[str]:
    """Return the command that walks a journal directory."""
    return own_command("journal.store.lmdb.quarantine", str(directory.resolve()), *words)


def _waited_for(command: list[str]) -> list[str]:
    try:
        done = subprocess.run(  # noqa: S603 - our own module
            command, capture_output=True, check=False, env=own_environment(), stdin=subprocess.DEVNULL,
            timeout=limits.QUARANTINE_MAX_SECONDS,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StoreUnavailable(f"the walk over the journal could not be made: {type(error).__name__}") from error
    return understood(done.returncode, done.stdout)


def understood(returncode: int, stdout: bytes) -> list[str]:
    """Return what a walk that has ended found: the index tables that must be rebuilt.

    Raises:
        JournalCorrupt, StoreUnavailable: as ``inspect``.
    """
    if not stdout.startswith(BEGUN):
        raise StoreUnavailable(f"the walk over the journal could not be begun: exit code {returncode}")
    try:
        answer = msgspec.json.decode(stdout.removeprefix(BEGUN), type=Answer)
    except UNREADABLE:
        if returncode == 0 or (returncode < 0 and -returncode not in DIED_OF_PAGES):
            raise StoreUnavailable(f"the walk over the journal was ended: exit code {returncode}") from None
        raise JournalCorrupt(f"the walk over the journal died: exit code {returncode}") from None
    if answer.corrupt is not None:
        raise JournalCorrupt(answer.corrupt)
    if answer.unmade is not None:
        raise StoreUnavailable(f"the walk over the journal could not be made: {answer.unmade}")
    return answer.rebuild


# --- the child's side ----------------------------------------------------------------------------


def main(arguments: Sequence[str]) -> int:
    """Walk the journal directory that is named; print the answer and return the exit code."""
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a SIGBUS is an answer, not an accident
    if "idle" in arguments:
        os.nice(19)
    sys.stdout.buffer.write(BEGUN)
    sys.stdout.buffer.flush()
    answer = answer_of(Path(arguments[0]), beside=len(arguments) > 1)
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    return 0 if answer.corrupt is None else 1


_REFUSED = (StoreUnavailable, OSError, MemoryError)
"""What the system does not give is no word about the journal."""


def answer_of(directory: Path, *, beside: bool = False) -> Answer:
    """Walk a journal directory, others writing meanwhile where ``beside``, and return what was found."""
    try:
        if not beside:
            _refuse_broken(broken_structure(directory / "data.mdb"))  # before it is mapped
        environment = Environment(directory, readonly=True)
        try:
            with environment.reading() as (txn, databases):
                if beside:
                    _refuse_broken(_broken_beside(directory / "data.mdb"))
                return Answer(rebuild=walk(txn, databases))
        finally:
            environment.close()
    except _REFUSED as error:
        return Answer(unmade=str(error))
    except EngramError as error:
        return Answer(corrupt=str(error))


def _refuse_broken(broken: str | None) -> None:
    if broken is not None:
        raise JournalCorrupt(f"the file's structure is broken: {broken}")


def _broken_beside(path: Path) -> str | None:
    """Return what is wrong with the pages of a file that may be written to; a reader keeps what it sees from reuse.

    The two meta pages are read one after the other, and commits may come in between: what looks broken there is
    looked at again.
    """
    broken = broken_structure(path)
    for _ in range(_ATTEMPTS):
        if broken is None:
            return None
        time.sleep(_PAUSE_SECONDS)
        broken = broken_structure(path)
    return broken


def broken_structure(path: Path) -> str | None:
    """Return what is wrong with the file's pages, read without mapping it; None where nothing is.

    Keys of an index table that are out of order are let pass: the table's sum betrays them, every page is where it
    should be, and so the table can be emptied and written anew.
    """
    if (broken := metas_problem(path)) is not None:
        return broken
    return next((problem for problem in structure_problems(path) if not _DISORDER.match(problem)), None)


_INDEX_NAMES = "|".join(table.value.decode() for table in Table)
_DISORDER = re.compile(rf"[b'\"]*(?:{_INDEX_NAMES})[b'\"]* DB: (?:leaf|branch page \d+ separator) keys out of order")


def walk(txn: lmdb.Transaction, databases: dict[bytes, Any]) -> list[str]:
    """Walk every table; return the names of the index tables that are not what the commit records say.

    Raises:
        CursorGap, JournalCorrupt, RegistryVersionUnavailable: the events are damaged.
    """
    events: dict[bytes, int] = {}
    for tag, raw in tables.walk_prefix(txn, databases[tables.HEADS], b""):
        record = read_record(raw)
        if record.scope.tag != tag or tables.get(txn, databases[tables.HEADS], tag) != raw:
            raise JournalCorrupt("a commit record stands under another scope's tag")
        _walk_events(LmdbView(txn, databases, record.scope), record)
        events[tag] = record.cursor
    _walk_rows(txn, databases, events)
    lost = [name for name in databases if _has_lost_rows(txn, databases[name])]
    if any(name not in _REBUILT for name in lost):
        raise JournalCorrupt("a row stands where no search by its key finds it")
    sum_key = tables.get(txn, databases[tables.STORE], tables.SUM_KEY)
    if sum_key is None:
        return [tables.SUM_KEY.decode()] if events else []
    broken = [finding.table for finding in broken_sums(txn, databases, sum_key)]
    return broken + [name for name in map(bytes.decode, lost) if name not in broken]


_REBUILT = frozenset(table.value for table in Table)


def _has_lost_rows(txn: lmdb.Transaction, database: Any) -> bool:
    """Whether a table has a row that a walk meets and a search by its key does not: a branch leads it elsewhere."""
    with txn.cursor(database) as rows:
        return not all(tables.is_found(txn, database, bytes(key)) for key in rows.iternext(keys=True, values=False))


def _walk_events(view: LmdbView, record: tables.CommitRecord) -> None:
    recorded_at = 0
    for after in range(0, record.cursor, limits.READ_PAGE_EVENTS):
        for event in view.run(after, limits.READ_PAGE_EVENTS):
            if event.header.recorded_at < recorded_at:
                raise JournalCorrupt(f"recorded_at goes back at cursor {event.header.cursor}")
            recorded_at = event.header.recorded_at
    if recorded_at != record.recorded_at:
        raise JournalCorrupt("the last event is not of the time that the commit record names")


def _walk_rows(txn: lmdb.Transaction, databases: dict[bytes, Any], events: dict[bytes, int]) -> None:
    """Walk the tables keyed by cursor: each row belongs to an event, and the events are as many as the heads say."""
    for name in (tables.EVENTS, *tables.PARTS):
        counted = dict.fromkeys(events, 0)
        for key, _ in tables.walk_prefix(txn, databases[name], b""):
            tag, cursor = key[:TAG_BYTES], int.from_bytes(key[TAG_BYTES:], "big")
            if not 1 <= cursor <= events.get(tag, 0):
                raise JournalCorrupt(f"a row of {name.decode()} belongs to no event")
            counted[tag] += 1
        if name == tables.EVENTS and counted != events:
            raise JournalCorrupt("there are other events than the commit records say")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
