"""Whether something outside the store knows more of it than it does. No key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from journal import layout
from journal.checkpointfiles import Anchor
from journal.checkpointing import folder_of
from journal.errors import EngramError, StoreUnavailable
from journal.frames import frame_hash
from replay.elsewhere import Reached
from tools.cli.checkup.finding import Finding, fault
from tools.cli.checkup.running import Check
from tools.cli.elsewhere import known_better

if TYPE_CHECKING:
    from journal.scope import Scope
    from journal.store.lmdb.view import LmdbView

ViewOf = Callable[["Scope"], AbstractContextManager["LmdbView"]]


def rolled_back(store: Path, anchor: Path | None, reached: Callable[[], Mapping[str, Reached]]) -> Check:
    """Return the check of a store against the anchor and the state folder."""

    def look() -> Iterator[Finding]:
        try:
            layout.store_id(store)
        except StoreUnavailable:
            return  # told by the check of the store's place
        readable = None if anchor is None or Anchor(anchor).trouble() is not None else Anchor(anchor)
        for error in known_better(store, readable, reached):
            yield fault(
                "ROLLED_BACK", str(store), f"{error.code}: {error.detail}",
                "run engram audit; put the newest copy of the store back, or restore it from a backup; if it is meant "
                "so, rename the anchor's folder to one that ends in .until- and the date",
            )  # fmt: skip

    return Check("ROLLED_BACK", str(store), "nothing outside the store knows more of it", look)


def reached(store: Path, scopes: Callable[[], list[Scope]], view_of: ViewOf) -> dict[str, Reached]:
    """Return how far each scope has come, by tag in hex; its key is the one beside the store's own checkpoints."""
    found = {}
    for scope in scopes():
        with view_of(scope) as view:
            head = view.head.cursor
        key = folder_of(store, scope.tag).key()
        found[scope.tag.hex()] = Reached(head, key, partial(_hash_at, view_of, scope))
    return found


def _hash_at(view_of: ViewOf, scope: Scope, cursor: int) -> bytes | None:
    try:
        with view_of(scope) as view:
            event = view.event(cursor)
    except EngramError:
        return None  # the check of the last event, or the audit, names it
    return None if event is None else frame_hash(event.frame)
