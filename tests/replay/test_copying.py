"""Compaction by copying: the same content, none of the bytes of what was forgotten, and no fold."""

from __future__ import annotations

import random
import shutil

import pytest

from journal import layout, limits
from journal.lifecycle import Operation
from projections.environment import Unusable
from projections.serving import make_projections
from replay import rebuild as rebuilding
from replay.copying import copy_forward
from replay.rebuild import compact, coverage, invalidate, rebuild, verify
from tests.projections.processes import Process
from tests.replay.rebuilds import HOLDER, Stopped, bytes_on_disk, generation_of, served, stopped_after


@pytest.fixture
def copies(monkeypatch):
    """Note of each compaction whether it copied."""
    noted = []

    def noting(*given):
        noted.append(copy_forward(*given))
        return noted[-1]

    monkeypatch.setattr(rebuilding, "copy_forward", noting)
    return noted


def tokens_of(projections, text):
    key = projections.generations("lexical").projection._key
    return key.tokens(text.split())


def test_the_content_is_the_same_and_nothing_is_folded(store, copies, monkeypatch):
    chance = random.Random(3)
    with store.projections(make_projections) as projections:
        subjects = [store.accepted(f"plum{number} pear apple{number % 7}")[0] for number in range(60)]
        served(projections)
        for subject in chance.sample(subjects, 12):
            store.move(subject, chance.choice([Operation.DISPUTE, Operation.MARK_NON_CURRENT, Operation.EXPIRE]))
        doomed = chance.sample(range(60), 9)
        newest = [store.forget(subjects[number]) for number in doomed][-1]
        before = served(projections)
        gone = [token for number in doomed for token in tokens_of(projections, f"plum{number}")]
        kept = [token for number in set(range(60)) - set(doomed) for token in tokens_of(projections, f"plum{number}")]
        path = store.path / layout.PROJECTIONS
        assert all(token in bytes_on_disk(path) for token in gone), "the index only marks what is out of force"

        def forbidden(*_):
            raise AssertionError("a payload is opened")

        monkeypatch.setattr(store.journal, "payload", forbidden)
        assert compact(projections, floor=newest).complete
        monkeypatch.undo()
        assert copies == [True] * len(projections.names)
        left = bytes_on_disk(path)
        assert not any(token in left for token in gone)
        in_force = {token for token in kept if token in left}
        assert len(in_force) > len(kept) // 2
        assert served(projections) == before
        assert all(one.ok for one in verify(projections))
        assert all(projections.generations(name).floor_in_force(None) >= newest for name in projections.names)
        store.accepted("quince")
        assert all(one.ok for one in verify(projections)), "it goes on from there"


def test_a_value_that_became_shorter_leaves_no_end_behind(store, copies):
    """LMDB writes a shorter value over a longer one of the same transaction, and its own copy keeps what is behind."""
    with store.projections() as projections:
        subject, _ = store.accepted("Zanzibar" + "x" * 9_000 + "Timbuktu")
        tombstone = store.forget(subject)
        served(projections)
        assert compact(projections, floor=tombstone).complete
        left = bytes_on_disk(store.path / layout.PROJECTIONS)
        assert (b"Zanzibar" in left, b"Timbuktu" in left) == (False, False)


def test_a_copy_that_broke_off_is_never_continued(store, copies, monkeypatch):
    monkeypatch.setattr(limits, "COPY_BATCH_BYTES", 64)
    with store.projections() as projections:
        served(projections)
        tombstone = store.forget(store.accepted("Zanzibar")[0])
        served(projections)
        with pytest.raises(Stopped):
            compact(projections, floor=tombstone, progress=stopped_after(3))
        half = projections.generations("current")
        (begun,) = [number for number in half.numbers() if number > half.current()]
        with pytest.raises(Unusable):
            half._attach(begun, None)
        rebuild(projections, "current")
        assert not coverage(projections, tombstone).complete
        assert compact(projections, floor=tombstone).complete
        assert all(one.ok for one in verify(projections))


def test_what_cannot_be_copied_is_folded(store, copies):
    with store.projections() as projections:
        served(projections)
        tombstone = store.forget(store.accepted("Zanzibar")[0])
        for name in projections.names:
            projections.generations(name).void(None)
        assert compact(projections, floor=tombstone).complete
        assert copies == [False] * len(copies)
        shutil.rmtree(store.path / layout.PROJECTIONS)
        tombstone = store.forget(store.accepted("Timbuktu")[0])
        assert compact(projections, floor=tombstone).complete
        assert all(one.ok for one in verify(projections))
        invalidate(projections, projections.names)
        assert b"Zanzibar" not in bytes_on_disk(store.path / layout.PROJECTIONS)


CLAIMER = """
from pathlib import Path
from tests.projections.stores import Store
store = Store(Path(sys.argv[1]))
projections = store.projections()
with projections.snapshot():
    pass
for member in projections._members:
    member.shared.environment.claim(None)
say("claimed")
wait()
"""


def test_a_stopped_process_that_writes_keeps_complete_from_being_said_and_no_new_generation_from_being_made(
    store, copies, monkeypatch
):
    monkeypatch.setattr(limits, "COPY_CLAIM_SECONDS", 0.05)
    with store.projections() as projections, Process(CLAIMER, store.path) as claimer:
        served(projections)
        assert claimer.hear() == "claimed"
        claimer.stop()
        tombstone = store.forget(store.accepted("Zanzibar")[0])
        result = compact(projections, floor=tombstone)
        assert not any(copies)
        assert (result.complete, result.held) == (False, ("current/00000001", "words/00000001"))
        assert generation_of(projections) == "00000002"
        assert all(one.ok for one in verify(projections))
        claimer.kill()
        assert coverage(projections, tombstone).complete


@pytest.mark.parametrize("stopped", [False, True], ids=["reads on", "stopped"])
def test_a_generation_that_was_deleted_by_hand_counts_as_long_as_somebody_has_it_open(store, stopped):
    with store.projections() as projections, Process(HOLDER, store.path) as holder:
        served(projections)
        assert holder.hear() == "00000001 00000001"
        shutil.rmtree(store.path / layout.PROJECTIONS)
        if stopped:
            holder.stop()
        tombstone = store.forget(store.accepted("Zanzibar")[0])
        result = compact(projections, floor=tombstone)
        assert not result.complete
        assert "words/00000001/data.mdb" in result.held
        if stopped:
            holder.resume()
        holder.tell("refresh")
        assert holder.hear() == "refreshed"
        assert coverage(projections, tombstone).complete
