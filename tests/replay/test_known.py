"""What is known of a store outside it."""

from __future__ import annotations

import shutil

import pytest

from journal import checkpoints
from journal.errors import RestoreRefused, StoreUnavailable
from journal.scope import Scope
from replay.known import Outside, Point
from tests.replay.restores import Safe, told
from tests.tools.memory.world import OTHER, SCOPE

ONE, TWO, THREE = ("1" * 32, "2" * 32, "3" * 32)
SEED = bytes(range(32))


def keep(outside: Outside, scope: Scope, size: int, seed: bytes = SEED) -> None:
    """Sign a checkpoint of a tree that nobody grew, and put it in the anchor."""
    assert outside.anchor is not None
    key = checkpoints.public_key(scope, seed)
    outside.anchor.folder(key).keep(key, size, checkpoints.sign(scope, size, bytes(32), seed))


@pytest.fixture
def outside(tmp_path):
    return Outside(tmp_path / "state", tmp_path / "anchors")


def test_heads_only_rise(outside, tmp_path):
    assert outside.points(ONE) == {}
    outside.note(ONE, {"tag": Point(5, "aa")})
    outside.note(ONE, {"tag": Point(3, "bb"), "other": Point(1)})
    assert Outside(tmp_path / "state").points(ONE) == {"tag": Point(5, "aa"), "other": Point(1)}
    outside.note(ONE, {"tag": Point(6, "cc")})
    assert outside.points(ONE)["tag"] == Point(6, "cc")
    assert outside.points(TWO) == {}
    assert (tmp_path / "state" / "heads" / f"{ONE}.json").stat().st_mode & 0o077 == 0


def test_successors_are_followed(outside):
    assert outside.newest_of(ONE) == ONE
    outside.succeed(ONE, TWO, {"tag": Point(2)})
    outside.succeed(ONE, THREE, {"tag": Point(1)})
    assert outside.newest_of(ONE) == outside.newest_of(TWO) == THREE
    assert outside.points(THREE) == {"tag": Point(1)}


def test_a_record_that_cannot_be_read_is_no_empty_one(outside, tmp_path):
    outside.note(ONE, {"tag": Point(5, "aa")})
    (tmp_path / "state" / "heads" / f"{ONE}.json").write_text("{")
    for ask in (lambda: outside.points(ONE), lambda: outside.newest_of(ONE), lambda: outside.note(ONE, {})):
        with pytest.raises(StoreUnavailable):
            ask()


def test_the_anchor_counts_where_the_scopes_key_signed(outside, tmp_path):
    assert outside.anchored(SCOPE, SEED) == 0
    for size in (7, 9):
        keep(outside, SCOPE, size)
    keep(outside, SCOPE, 50, bytes(32))
    keep(outside, OTHER, 60)
    folder = outside.anchor.folder(checkpoints.public_key(SCOPE, SEED)).path
    foreign = outside.anchor.folder(checkpoints.public_key(SCOPE, bytes(32))).path
    shutil.copy(foreign / f"{50:020}", folder)
    shutil.copy(folder / f"{9:020}", folder / f"{80:020}")
    (folder / f"{90:020}").write_text("no note at all", encoding="utf-8")
    assert outside.anchored(SCOPE, SEED) == 9
    assert outside.anchored(OTHER, SEED) == 60
    assert Outside(tmp_path / "state").anchored(SCOPE, SEED) == 0, "no anchor"


def test_an_anchor_that_cannot_be_read_is_no_empty_one(outside, tmp_path):
    keep(outside, SCOPE, 7)
    folder = outside.anchor.folder(checkpoints.public_key(SCOPE, SEED)).path
    shutil.rmtree(folder)
    folder.write_text("in the way", encoding="utf-8")
    with pytest.raises(StoreUnavailable):
        outside.anchored(SCOPE, SEED)


def test_a_checkpoint_alone_makes_an_older_backup_refused(tmp_path):
    safe = Safe(tmp_path)
    told(safe)
    safe.keys()
    safe.backup()
    journal = safe.world.journal
    head, seed = journal.store.head(SCOPE).cursor, journal.keyring.signing_seed(SCOPE)
    keep(safe.outside, SCOPE, head + 1, bytes(32))
    safe.restore()
    keep(safe.outside, SCOPE, head + 1, seed)
    with pytest.raises(RestoreRefused, match=f"cursor {head + 1}"):
        safe.restore(target=tmp_path / "second")
    safe.world.caller().capture("One event more.")
    assert safe.restore(target=tmp_path / "second", ledgers=[safe.backup("ledger", ledger=True)]).lost == 0
    safe.world.close()


def test_another_history_of_the_same_store_is_found_out(tmp_path):
    """A copy of the store's files went another way: it has the same id, and another event where this one is known."""
    safe = Safe(tmp_path)
    told(safe)
    safe.keys()
    safe.backup()
    head = safe.world.journal.store.head(SCOPE)
    store = next((tmp_path / "state" / "heads").glob("*.json")).stem
    safe.outside.note(store, {SCOPE.tag.hex(): Point(head.cursor, "ff" * 32)})
    with pytest.raises(RestoreRefused, match="another history"):
        safe.restore()
    safe.world.caller().capture("One event more.")
    safe.outside.note(store, {SCOPE.tag.hex(): Point(head.cursor, "ff" * 32)})
    from replay import backup

    backup.write(safe.world.journal, tmp_path / "later")
    with pytest.raises(RestoreRefused, match="another history"):
        safe.restore(backup=tmp_path / "later")
    safe.world.close()
