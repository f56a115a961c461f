"""What is known of a store outside it."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from journal.errors import RestoreRefused, StoreUnavailable
from journal.scope import Scope
from replay.known import Outside, Point
from tests.replay.restores import Safe, told
from tests.tools.memory.world import OTHER, SCOPE

ONE, TWO, THREE = ("1" * 32, "2" * 32, "3" * 32)
SEED = bytes(range(32))


def note_of(scope: Scope, size: int, seed: bytes = SEED) -> str:
    """Return a signed checkpoint, put together from the published format alone."""
    text = f"engram/{scope.tag.hex()}\n{size}\n{base64.b64encode(bytes(32)).decode()}\n"
    signature = Ed25519PrivateKey.from_private_bytes(seed).sign(text.encode())
    return f"{text}\n\u2014 engram/{scope.tag.hex()} {base64.b64encode(bytes(4) + signature).decode()}\n"


def anchor(outside: Outside, scope: Scope, text: str, more: str = "") -> None:
    folder = outside._directory / "anchors"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{scope.tag.hex()}{more}").write_text(text, encoding="utf-8")


@pytest.fixture
def outside(tmp_path):
    return Outside(tmp_path / "state")


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


def test_anchors_count_where_the_scopes_key_signed_them(outside):
    assert outside.anchored(SCOPE, SEED) == 0
    anchor(outside, SCOPE, note_of(SCOPE, 7) + "\n" + note_of(SCOPE, 9))
    anchor(outside, SCOPE, note_of(SCOPE, 50, bytes(32)), ".foreign")
    anchor(outside, SCOPE, note_of(OTHER, 60), ".misplaced")
    anchor(outside, SCOPE, note_of(SCOPE, 70).replace("70", "80"), ".altered")
    anchor(outside, SCOPE, "no note at all", ".nonsense")
    assert outside.anchored(SCOPE, SEED) == 9
    assert outside.anchored(OTHER, SEED) == 0
    outside.succeed(ONE, TWO, {SCOPE.tag.hex(): Point(1)})
    assert outside.anchored(SCOPE, SEED) == 0, "they bind a history that was given up"


def test_a_checkpoint_alone_makes_an_older_backup_refused(tmp_path):
    safe = Safe(tmp_path)
    told(safe)
    safe.keys()
    safe.backup()
    journal = safe.world.journal
    head, seed = journal.store.head(SCOPE).cursor, journal.keyring.signing_seed(SCOPE)
    anchor(safe.outside, SCOPE, note_of(SCOPE, head + 1, bytes(32)))
    safe.restore()
    anchor(safe.outside, SCOPE, note_of(SCOPE, head + 1, seed))
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
