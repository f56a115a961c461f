"""What the system itself refuses, and what LMDB finds damaged, told in the contract's words: the one place for it.

A device that fails, no room, no descriptor, no memory: STORE_UNAVAILABLE, for it may pass. Pages that are not what was
written: JOURNAL_CORRUPT, which no repetition mends. Whatever keeps its content elsewhere too, a projection, does not
come here with damage: it is built anew.
"""

from __future__ import annotations

import errno
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb

from journal.errors import EngramError, JournalCorrupt, StoreUnavailable

SYSTEM_FAULTS = (OSError, MemoryError, lmdb.Error)
"""What a call of the system's or of LMDB's that fails ends in, whoever made it."""
DAMAGE = (
    lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.InvalidError, lmdb.VersionMismatchError, lmdb.CursorFullError,
    lmdb.PageFullError, lmdb.IncompatibleError, lmdb.BadTxnError,
)  # fmt: skip
"""What LMDB says of pages that are not what was written: of a tree that goes in circles, that a cursor is full; of the
root of a table that is none, that its transaction is bad, already when it is first used. That it panics is no such
word: a write of the system's failed, and the handle is good for nothing until it is opened again."""

_ROOT = Path(__file__).parents[1]
_PACKAGES = ("journal", "projections", "replay", "tools")


def told(error: BaseException) -> EngramError:
    """Return the contract's error for what the system or LMDB refused."""
    if isinstance(error, DAMAGE):
        return JournalCorrupt(f"the store's file is damaged: {type(error).__name__}")
    if isinstance(error, lmdb.MapFullError):
        return StoreUnavailable("the journal's map is full")
    if isinstance(error, lmdb.Error):
        return StoreUnavailable(f"{type(error).__name__}: {error}")
    return StoreUnavailable(f"the system refused: {_named(error)}")


@contextmanager
def faults_told() -> Iterator[None]:
    """Turn what the system or LMDB refuses into the contract's error (``told``); a decorator too.

    Raises:
        StoreUnavailable: a file could not be read, written or locked. JournalCorrupt: it is damaged.
    """
    try:
        yield
    except SYSTEM_FAULTS as error:
        raise told(error) from error


def described(error: BaseException) -> dict[str, str]:
    """Return what a log may say of a fault: {error, at}. No path and no content: ``at`` is the line of ours it met."""
    places = [(Path(frame.filename), frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    within = [(path.relative_to(_ROOT), line) for path, line in places if path.is_relative_to(_ROOT)]
    ours = [f"{path}:{line}" for path, line in within if path.parts[0] in _PACKAGES]
    return {"error": _named(error), "at": ours[-1] if ours else "elsewhere"}


def _named(error: BaseException) -> str:
    """Return an error's name, with the system's name for it where it has one."""
    name = type(error).__name__
    number = error.errno if isinstance(error, OSError) else None
    return name if number is None else f"{name} {errno.errorcode.get(number, str(number))}"
