"""Noting outside the store how far it has come, so that an older copy is found out when one is restored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from journal import layout
from journal.errors import DeadlineExceeded, StoreUnavailable
from tools.host.place import state_directory
from tools.lazylog import LazyLog

if TYPE_CHECKING:
    from pathlib import Path

    from journal.log import Journal
    from journal.scope import Scope
    from replay.known import Outside, Point

_log = LazyLog()


def outside(anchor: Path | None) -> Outside:
    """Return the record in the user's state folder, and the host file's anchor.

    Raises:
        StoreUnavailable: the user has no home, and so no state folder.
    """
    from replay.known import Outside

    try:
        return Outside(state_directory(), anchor)
    except RuntimeError as error:
        raise StoreUnavailable("there is no state folder: set HOME or XDG_STATE_HOME") from error


def tell_outside(journal: Journal) -> None:
    """Have a journal note outside, before it destroys a key, which event demands it."""

    def tell(scope: Scope, cursor: int, frame_hash: bytes) -> None:
        from replay.known import Point

        note(journal, {scope.tag.hex(): Point(cursor, frame_hash.hex())})

    journal.tell_outside = tell


def note(journal: Journal, points: dict[str, Point]) -> None:
    """Note how far scopes have come. Where that cannot be written, it is logged: nothing waits for it."""
    try:
        record, store = outside(None), layout.store_id(journal.path)
        older = layout.predecessor(journal.path)
        if older is not None and record.newest_of(older) != store:
            record.succeed(older, store, points)  # the restore was killed before it could say so
        record.note(store, points)
    except (OSError, StoreUnavailable, DeadlineExceeded) as error:
        _log.warning("not_noted_outside", kind=type(error).__name__)
