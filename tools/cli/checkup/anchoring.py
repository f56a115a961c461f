"""The checkpoints: whether the anchor outside the store can be used and agrees, and what the scrub found. No key."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from journal import layout
from journal.checkpointfiles import Anchor, CheckpointFolder, Held
from journal.errors import EngramError
from journal.walks import last_of
from replay.scrub import state_of
from tools.cli.checkup.finding import Finding, fault, note, ok, warning
from tools.cli.counting import counted
from tools.cli.elsewhere import trouble_of
from tools.damage import RESTORE


def check(store: Path, anchor: Path | None) -> Iterator[Finding]:
    """Yield what is wrong with checkpoints, how far they are, and what the last walk over the journal's pages found."""
    yield from _pages(store / layout.JOURNAL)
    if anchor is None:
        yield note(
            "ANCHOR_NONE", str(store), "no checkpoint is kept outside the store, so that no roll-back can be found",
            "name a folder outside it in checkpoints.anchor",
        )  # fmt: skip
    elif not _is_writable(anchor):
        yield warning(
            "ANCHOR_UNWRITABLE", str(anchor), "cannot be written, so that checkpoints stay in the store alone",
            "make it yours, or name another folder in checkpoints.anchor",
        )  # fmt: skip
    if anchor is not None and (trouble := trouble_of(store, anchor)) is not None:
        yield fault(
            "ANCHOR_MISSING", str(anchor), trouble,
            "mount it or mend the link and its permissions; or name the folder that holds it in checkpoints.anchor",
        )  # fmt: skip
    place = store / layout.CHECKPOINTS
    inside = {path.name for path in place.iterdir()} if place.is_dir() else set()
    held: list[Held] = []
    with suppress(EngramError):  # of the store's file, which another check names, or of the anchor, named above
        own = layout.store_id(store)
        held = [] if anchor is None else [each for each in Anchor(anchor).held() if own in each.folder.signers()]
    for tag in sorted(inside | {each.tag for each in held}):
        yield from _scope(CheckpointFolder(place / tag), anchor, [each.folder for each in held if each.tag == tag])


def _pages(journal: Path) -> Iterator[Finding]:
    last = last_of(journal)
    if last is not None and last.code:
        yield fault(
            "PAGES_DAMAGED", str(journal), f"a walk over its pages found {last.code}: {last.detail}",
            "end what serves the store, then start engram serve: it walks it again, and mends what can be mended; "
            f"where it refuses, {RESTORE}",
        )  # fmt: skip


def _is_writable(folder: Path) -> bool:
    """Whether a folder can be written, or be made."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)


def _scope(folder: CheckpointFolder, anchor: Path | None, signed: list[CheckpointFolder]) -> Iterator[Finding]:
    subject = f"scope {folder.path.name}"
    key, inside, outside = folder.key(), 0, 0
    with suppress(EngramError):
        inside = max(folder.sizes(), default=0)
        if anchor is not None and key is not None:
            outside = max(Anchor(anchor).folder(key).sizes(), default=0)
        elif key is None:  # the store has none of its own any more
            outside = max((size for each in signed for size in each.sizes()), default=0)
    if outside > inside:
        yield warning(
            "ANCHOR_AHEAD", subject, f"the anchor has a checkpoint of {outside}, and the store none beyond {inside}",
            "run engram audit: the store may have been rolled back; if you restored it, move the anchor's folder away",
        )  # fmt: skip
    state = state_of(folder)
    if state is not None and state.first_finding is not None:
        code, cursor, _ = state.first_finding
        yield fault(
            "SCRUB_FINDINGS", subject,
            f"{counted(state.findings, 'findings')} in the background, the first {code} at {cursor}",
            f"run engram audit, which says where; {RESTORE}",
        )  # fmt: skip
    elif outside <= inside:
        scrubbed = "not scrubbed yet" if state is None else f"scrubbed clean up to cursor {state.clean_cursor}"
        kept = f"{outside} in the anchor" if outside else "none in the anchor"
        yield ok("CHECKPOINTS", subject, f"newest checkpoint {inside or '-'}, {kept}; {scrubbed}")
