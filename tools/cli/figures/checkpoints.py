"""Figures of a scope's checkpoints, of the anchor outside the store, and of the scrub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from journal.checkpointing import Checkpoints
from journal.clock import instant
from journal.log import Journal
from journal.scope import Scope
from replay.scrub import state_of


def checkpoint_figures(journal: Journal, scope: Scope, anchor: Path | None) -> dict[str, Any]:
    """Return {newest, count, public_key, anchor, anchor_newest, scrub} as one JSON object; cursors are strings."""
    made = Checkpoints(journal, anchor)
    key, folder = made.key(scope), made.folder(scope)
    outside = made.outside(key)
    inside_sizes, outside_sizes = folder.sizes(), [] if outside is None else outside.sizes()
    state = state_of(folder)
    scrub = None
    if state is not None:
        scrub = {
            "cursor": str(state.cursor),
            "clean_cursor": str(state.clean_cursor),
            "clean_at": instant(state.clean_at) if state.clean_at else None,
            "findings": state.findings,
            "first_finding": state.first_finding and list(state.first_finding[:2]),
        }
    return {
        "newest": str(inside_sizes[-1]) if inside_sizes else None,
        "count": len(inside_sizes),
        "public_key": key.text(),
        "anchor": None if outside is None else str(outside.path),
        "anchor_newest": str(outside_sizes[-1]) if outside_sizes else None,
        "scrub": scrub,
    }
