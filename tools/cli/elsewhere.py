"""What the state folder and the anchor know of the store that a command is about, and the store contradicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from journal import layout
from journal.checkpointfiles import Anchor
from journal.checkpointing import Checkpoints, folder_of
from journal.errors import EngramError, StoreUnavailable
from journal.frames import frame_hash
from replay.elsewhere import Reached, contradictions
from tools.host.outside import outside

if TYPE_CHECKING:
    from journal.log import Journal
    from journal.notes import PublicKey
    from journal.scope import Scope
    from journal.store.port import Store
    from replay.known import Outside

KeyOf = Callable[["Scope"], "PublicKey | None"]


def known_better(path: Path, anchor: Anchor | None, reached: Callable[[], Mapping[str, Reached]]) -> list[EngramError]:
    """Return what is known of the store at ``path`` outside it, and is not so; see ``replay.elsewhere``."""
    record: Outside | None
    try:
        record = outside(None)
    except StoreUnavailable:  # no home, and so nothing that was noted
        record = None
    return list(contradictions(layout.store_id(path), reached, record, anchor))


def reached_by(store: Store, key_of: KeyOf) -> dict[str, Reached]:
    """Return how far the scopes of an open store have come, by tag in hex."""
    return {
        scope.tag.hex(): Reached(store.head(scope).cursor, key_of(scope), partial(_hash_at, store, scope))
        for scope in store.scopes()
    }


def _hash_at(store: Store, scope: Scope, cursor: int) -> bytes | None:
    try:
        with store.view(scope) as view:
            event = view.event(cursor)
    except EngramError:
        return None  # the audit names it
    return None if event is None else frame_hash(event.frame)


def refuse_rolled_back(journal: Journal, anchor: Path | None) -> None:
    """Check, before anything is signed or written, that nothing outside knows the store better.

    Raises:
        CursorGap, JournalCorrupt, InvalidDigest, StoreUnavailable: the first thing that it contradicts.
    """
    key_of = Checkpoints(journal).key
    kept = None if anchor is None or trouble_of(journal.path, anchor) is not None else Anchor(anchor)
    for error in known_better(journal.path, kept, lambda: reached_by(journal.store, key_of)):
        raise error


def trouble_of(store: Path, anchor: Path) -> str | None:
    """Return why a store cannot be compared with its anchor; None also where it never made a checkpoint for one."""
    trouble = Anchor(anchor).trouble()
    if trouble is None:
        return None
    place = store / layout.CHECKPOINTS
    signed = place.is_dir() and any(folder_of(store, bytes.fromhex(each.name)).sizes() for each in _scopes(place))
    is_begun = signed or trouble != "is not there"
    return f"the anchor {anchor} {trouble}: no roll-back can be found" if is_begun else None


def _scopes(place: Path) -> Iterator[Path]:
    for each in place.iterdir():
        try:
            bytes.fromhex(each.name)
        except ValueError:
            continue
        yield each
