"""Rebuilding for an erasure's sake: no file holds what was forgotten, and nobody says so too early."""

from __future__ import annotations

import time

import pytest

from journal import layout
from journal.errors import ProjectionStale
from projections.serving import make_projections
from replay.rebuild import compact, coverage, rebuild, verify
from tests.projections.processes import Process
from tests.replay.rebuilds import (
    HOLDER,
    REBUILDER,
    Stopped,
    bytes_on_disk,
    generation_of,
    head_of,
    served,
    stopped_after,
)


def test_after_a_compaction_no_file_holds_what_was_forgotten(store):
    projections_path = store.path / layout.PROJECTIONS
    with store.projections() as projections:
        subject, _ = store.accepted("Zanzibar")
        store.accepted("Timbuktu")
        served(projections)
        tombstone = store.forget(subject)
        served(projections)
        assert b"Zanzibar" in bytes_on_disk(projections_path)  # LMDB keeps it in a free page
        result = compact(projections, floor=tombstone)
        assert (result.complete, result.held) == (True, ())
        assert result.coverage == [
            {"projection": name, "version": 1, "generation": "00000002", "cursor": str(head_of(projections))}
            for name in ("current", "words")
        ]
        assert b"Zanzibar" not in bytes_on_disk(projections_path)
        assert b"Timbuktu" in bytes_on_disk(projections_path)
        assert all(one.ok for one in verify(projections))


def test_one_compaction_serves_all_forgettings_before_it(store):
    with store.projections() as projections:
        served(projections)
        first = store.forget(store.accepted("one")[0])
        second = store.forget(store.accepted("two")[0])
        assert compact(projections, floor=second).complete
        assert compact(projections, floor=first).complete
        assert generation_of(projections) == "00000002"
        third = store.forget(store.accepted("three")[0])
        assert not coverage(projections, third).complete
        assert compact(projections).complete
        assert coverage(projections, third).complete
        assert generation_of(projections) == "00000003"


def test_it_is_pending_as_long_as_somebody_has_an_old_generation(store):
    with store.projections() as projections, Process(HOLDER, store.path) as holder:
        assert holder.hear() == "00000001 00000001"
        tombstone = store.forget(store.accepted("word")[0])
        result = compact(projections, floor=tombstone)
        assert (result.complete, result.held) == (False, ("current/00000001", "words/00000001"))
        assert not coverage(projections, tombstone).complete
        holder.tell("refresh")
        assert holder.hear() == "refreshed"
        assert coverage(projections, tombstone).complete


def test_a_killed_holder_keeps_nothing(store):
    with store.projections() as projections, Process(HOLDER, store.path) as holder:
        holder.hear()
        tombstone = store.forget(store.accepted("word")[0])
        assert not compact(projections, floor=tombstone).complete
        holder.kill()
        assert coverage(projections, tombstone).complete


def test_what_was_half_built_before_a_forgetting_does_not_survive_its_compaction(store, monkeypatch):
    monkeypatch.setattr("journal.limits.CATCHUP_PAGE_EVENTS", 5)
    monkeypatch.setattr("journal.limits.REBUILD_PAGES", 1)
    with store.projections() as projections:
        subject, _ = store.accepted("Zanzibar")
        served(projections)
        with pytest.raises(Stopped):
            rebuild(projections, "words", progress=stopped_after(9))
        tombstone = store.forget(subject)
        assert not coverage(projections, tombstone).complete
        assert compact(projections, floor=tombstone).complete
        assert b"Zanzibar" not in bytes_on_disk(store.path / layout.PROJECTIONS)


def test_what_is_half_built_after_a_replacement_is_swept_or_waited_for(store):
    """The generation in force was begun late enough, but a builder that began too early still holds its own."""
    with store.projections() as projections, Process(REBUILDER, store.path, "stepwise") as builder:
        served(projections)
        builder.hear()
        tombstone = store.forget(store.accepted("word")[0])
        with pytest.raises(ProjectionStale):
            compact(projections, floor=tombstone, deadline=time.monotonic() + 0.1)
        assert not coverage(projections, tombstone).complete
        builder.kill()
        assert compact(projections, floor=tombstone).complete


def test_a_compaction_that_was_interrupted_is_taken_up_again(store):
    with store.projections() as projections:
        served(projections)
        tombstone = store.forget(store.accepted("word")[0])
        with pytest.raises(Stopped):
            compact(projections, floor=tombstone, progress=stopped_after(2))
        assert not coverage(projections, tombstone).complete
        assert compact(projections, floor=tombstone).complete


def test_the_real_projections_hold_no_token_of_what_was_forgotten(store):
    """A keyed token that only the forgotten record had is in the files before and in none after."""
    projections_path = store.path / layout.PROJECTIONS
    with store.projections(make_projections) as projections:
        subject, _ = store.accepted("Zanzibar")
        served(projections)
        lexical = projections.generations("lexical").projection
        token = lexical._key.tokens(["zanzibar"])[0]
        assert token in bytes_on_disk(projections_path)
        assert compact(projections, floor=store.forget(subject)).complete
        assert token not in bytes_on_disk(projections_path)


def test_it_is_pending_while_somebody_reads_the_past_aside(store):
    code = """
    from pathlib import Path
    from projections.aside import as_of
    from tests.projections.histories import SCOPE, make
    from tests.projections.stores import Store
    store = Store(Path(sys.argv[1]))
    with as_of(store.journal, SCOPE, make(store.journal, SCOPE), 10, store.path / "projections"):
        say("reading")
        wait()
    say("read")
    """
    with store.projections() as projections, Process(code, store.path) as reader:
        served(projections)
        assert reader.hear() == "reading"
        tombstone = store.forget(store.accepted("word")[0])
        result = compact(projections, floor=tombstone)
        assert (result.complete, result.held) == (False, ("aside",))
        reader.tell()
        assert reader.hear() == "read"
        assert coverage(projections, tombstone).complete
