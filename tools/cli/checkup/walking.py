"""Whether the journal is whole where that is in doubt: it is walked as the next server would walk it.

A whole store is not walked: its last user closed it, and its file is as that one left it. Where others have it open,
the file tells nothing; then it is walked where one was killed, or where a walk before found damage.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from journal import layout, limits
from journal.errors import JournalCorrupt, StoreUnavailable
from journal.ownmodule import own_environment
from journal.store.lmdb.quarantine import command_of, understood
from journal.store.lmdb.rest import is_as_left
from journal.walks import last_of
from tools.cli.checkup.finding import Finding, fault, warning
from tools.cli.checkup.processes import marks
from tools.damage import RESTORE

_DATA = "data.mdb"


def walked(store: Path) -> Iterator[Finding]:
    """Yield that a journal in doubt is damaged, or that the walk could not be ended in time. It writes nothing."""
    journal = store / layout.JOURNAL
    if not (journal / _DATA).exists() or not (doubt := _doubt(store)):
        return
    try:
        doomed = _doomed(store)
    except JournalCorrupt as error:
        yield fault(
            "JOURNAL_BROKEN", str(journal), f"{doubt}, and it is damaged, so that no server opens it: {error.detail}",
            f"keep the damaged one: {RESTORE}; engram audit says how far it is whole",
        )  # fmt: skip
    except StoreUnavailable as error:
        yield warning(
            "JOURNAL_NOT_WALKED", str(journal), f"{doubt}, and whether it is whole is not known: {error.detail}",
            "start engram serve: it walks it to the end before it serves, some 50 s a million events",
        )  # fmt: skip
    else:
        if doomed:
            yield warning(
                "INDEXES_DAMAGED", str(journal), f"index tables are not what was written: {', '.join(doomed)}",
                "end what serves the store, then start engram serve: it writes them anew from the events",
            )  # fmt: skip


def _doubt(store: Path) -> str:
    """Return why the journal may not be whole; empty where it is as its last user left it."""
    journal, found = store / layout.JOURNAL, marks(store)
    last = last_of(journal)
    if last is not None and last.code:
        return "a walk over its pages found damage"
    if found.dead:
        return "it was not closed"
    if not found.alive and not is_as_left(journal):
        return "its file was changed since it was closed"
    return ""


def _doomed(store: Path) -> list[str]:
    """Have it walked; return the index tables that are not what was written."""
    journal = store / layout.JOURNAL
    if not marks(store).alive:
        try:
            return _waited_for(command_of(journal))
        except JournalCorrupt:
            if not marks(store).alive:
                raise
    return _waited_for(command_of(journal, "beside"))  # somebody writes: only so its pages stand still


def _waited_for(command: list[str]) -> list[str]:
    seconds = limits.CHECK_WALK_SECONDS
    try:
        done = subprocess.run(  # noqa: S603 - our own module
            command, capture_output=True, check=False, env=own_environment(), stdin=subprocess.DEVNULL, timeout=seconds
        )
    except subprocess.TimeoutExpired as error:
        raise StoreUnavailable(f"the walk over it was not finished in {seconds:g} s") from error
    return understood(done.returncode, done.stdout)
