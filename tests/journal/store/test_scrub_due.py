"""When a walk over the pages is due: by the last one that anybody made, whoever has the store open for how long."""

from __future__ import annotations

import time

import msgspec

from journal import limits
from journal.store.lmdb.pagescrub import PageScrub
from journal.walks import NAME, last_of
from tests.journal.store.places import open_store


def noted(directory):
    last = last_of(directory)
    assert last is not None
    return last


def a_walk_is_due(directory, opened_seconds_ago):
    scrub = PageScrub(directory, time.time() - opened_seconds_ago)
    try:
        scrub.step()
        return scrub.walks.child is not None
    finally:
        scrub.close()


def test_a_walk_is_due_by_the_last_one_and_not_by_how_long_a_process_lives(directory, monkeypatch):
    """Where no walk was noted, it was due after 15 minutes of one process: a store of short sessions never met one."""
    monkeypatch.setattr(limits, "PAGE_SCRUB_PAUSE_SECONDS", 900)
    monkeypatch.setattr(limits, "PAGE_SCRUB_AFTER_OPENING_SECONDS", 20)
    made, now = noted(directory), time.time()
    for each, due in ((now, False), (now - 901, True), (now - 500, False), (None, True)):
        (directory / NAME).unlink(missing_ok=True)
        if each is not None:
            (directory / NAME).write_bytes(msgspec.json.encode(msgspec.structs.replace(made, ended_at=each)))
        assert a_walk_is_due(directory, 21) is due
        assert not a_walk_is_due(directory, 1), "its first calls have the machine for themselves"


def test_an_opening_that_walks_counts_as_a_walk(directory):
    made = noted(directory)
    (directory / "rest").unlink()
    open_store(directory).close()
    assert noted(directory).ended_at > made.ended_at
    assert noted(directory).took_seconds > 0
