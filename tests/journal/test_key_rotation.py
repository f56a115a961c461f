"""Rotation: everything moves, no key changes, and nobody who holds the old epoch open is left behind."""

from __future__ import annotations

import itertools
import shutil
import threading

import pytest

from journal import keyringfile, limits
from journal.errors import JournalCorrupt
from journal.slots import HEADER_BYTES, SlotFile
from tests.journal.peers import Peer
from tests.journal.rings import OTHER, SCOPE, break_slot, files, opens


def test_a_rotation_moves_everything_and_changes_no_key(tmp_path, ring):
    kept = (ring.identity_key(SCOPE), ring.ledger_key(SCOPE), ring.signing_seed(SCOPE))
    taken = [ring.take(SCOPE) for _ in range(5)]
    ring.destroy(SCOPE, [(taken[0].key_id, taken[0].slot)])
    before, wrapping = ring.generation(SCOPE), ring._opened(SCOPE).keys.wrapping
    (old,) = tmp_path.glob("*.1.slots")
    old_wrapped = old.read_bytes()[HEADER_BYTES + limits.SLOT_BYTES + 20 :][:60]
    assert ring.rotate(SCOPE) == 2
    assert (ring.identity_key(SCOPE), ring.ledger_key(SCOPE), ring.signing_seed(SCOPE)) == kept
    assert ring._opened(SCOPE).keys.wrapping != wrapping
    assert ring.generation(SCOPE) > before
    assert ring.epoch(SCOPE) == 2
    assert [opens(ring, key) for key in taken] == [None, *(key.key for key in taken[1:])]
    assert files(tmp_path) == ["scope.2.slots", "scope.keyring", "scope.lock"]
    assert old_wrapped not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
    after = ring.take(SCOPE)
    assert after.slot == 5, "keys written ahead survive with their slots"
    assert opens(ring, after) == after.key


def test_a_process_that_holds_the_old_epoch_open_goes_on(ring, open_ring):
    other = open_ring()
    taken, ahead = [ring.take(SCOPE) for _ in range(3)], other.take(SCOPE)
    assert opens(other, taken[0]) == taken[0].key
    for epoch in (2, 3):
        assert ring.rotate(SCOPE) == epoch
        assert [opens(other, key) for key in taken] == [key.key for key in taken]
        assert opens(ring, ahead) == ahead.key
        assert other.generation(SCOPE) == ring.generation(SCOPE)
        assert other.located(SCOPE) == ring.located(SCOPE)
    fresh = other.take(SCOPE)
    assert opens(ring, fresh) == fresh.key
    ring.rotate(SCOPE)
    other.destroy(SCOPE, [(taken[0].key_id, taken[0].slot)])
    assert opens(ring, taken[0]) is None


def test_a_broken_slot_does_not_stand_in_the_way_of_a_rotation(tmp_path, ring):
    """An append that the machine's end cut short leaves such a slot, and nothing refers to it."""
    taken = [ring.take(SCOPE) for _ in range(3)]
    break_slot(tmp_path, 1)
    ring.rotate(SCOPE)
    assert (opens(ring, taken[0]), opens(ring, taken[2])) == (taken[0].key, taken[2].key)
    with pytest.raises(JournalCorrupt):
        opens(ring, taken[1])


def test_what_a_dead_rotation_left_over_is_tidied_away(tmp_path, ring, open_ring):
    key = ring.take(SCOPE)
    (slots,) = tmp_path.glob("*.1.slots")
    shutil.copy(slots, tmp_path / f"{SCOPE.tag.hex()}.2.slots")  # died before the switch
    shutil.copy(slots, tmp_path / f"{SCOPE.tag.hex()}.9.slots")
    (tmp_path / f".{SCOPE.tag.hex()}.keyring.0123456789ab").write_bytes(b"unfinished")
    (tmp_path / f"{OTHER.tag.hex()}.2.slots").write_bytes(b"another scope's")
    ring.tidy(SCOPE)
    assert files(tmp_path) == [f"{OTHER.tag.hex()}.2.slots", "scope.1.slots", "scope.keyring", "scope.lock"]
    assert opens(open_ring(), key) == key.key


ROTATING = """
from pathlib import Path
from journal.clock import SystemRandomness
from journal.keyring import Keyring
from tests.journal.rings import ROOT, SCOPE
ring = Keyring(Path(sys.argv[1]), ROOT, SystemRandomness())
ring.take(SCOPE)
say("ready")
while True:
    hear()
    for _ in range(15):
        epoch = ring.rotate(SCOPE)
        key = ring.take(SCOPE)
        assert ring.open(SCOPE, key.key_id, key.slot) == key.key
    say(epoch)
"""


def test_one_process_rotates_while_another_takes_opens_and_destroys(tmp_path, ring):
    with Peer(ROTATING, tmp_path) as peer:
        assert peer.hear() == "ready"
        peer.say("rotate")
        heard = []
        listener = threading.Thread(target=lambda: heard.append(peer.hear()))
        listener.start()
        kept, gone = [], []
        for number in itertools.count():
            if heard and number > 20:
                break
            key = ring.take(SCOPE)
            assert opens(ring, key) == key.key
            if number % 5 == 0:
                ring.destroy(SCOPE, [(key.key_id, key.slot)])
                gone.append(key)
            else:
                kept.append(key)
            assert ring.generation(SCOPE) > 0
            assert ring.located(SCOPE)[key.key_id] == key.slot
        listener.join()
        assert heard == ["16"]
        assert all(opens(ring, key) == key.key for key in kept)
        assert all(opens(ring, key) is None for key in gone)


def once(monkeypatch, owner, name, interrupt):
    """Let something happen in the middle of the next call of a function, and of no later one."""
    original, left = getattr(owner, name), [interrupt]

    def interrupted(*arguments, **how):
        if left:
            left.pop()()
        return original(*arguments, **how)

    monkeypatch.setattr(owner, name, interrupted)


def test_a_rotation_between_the_two_readings_of_an_opening(ring, open_ring, monkeypatch):
    """The keyring file is read, then the slot file that it names is gone: it is read again."""
    key = ring.take(SCOPE)
    other = open_ring()
    once(monkeypatch, keyringfile, "decode", lambda: ring.rotate(SCOPE))
    assert opens(other, key) == key.key
    assert other.epoch(SCOPE) == 2


@pytest.mark.parametrize("question", ["generation", "located"])
def test_a_rotation_in_the_middle_of_a_question(ring, open_ring, monkeypatch, question):
    """The slot file that is being read is blanked meanwhile: its zeros are no answer."""
    key = ring.take(SCOPE)
    other = open_ring()
    assert opens(other, key) == key.key
    name = {"generation": "_whole_header", "located": "read_all"}[question]
    once(monkeypatch, SlotFile, name, lambda: ring.rotate(SCOPE))
    answer = getattr(other, question)(SCOPE)
    assert answer == getattr(ring, question)(SCOPE)
    assert other.epoch(SCOPE) == 2


def test_a_rotation_in_the_middle_of_the_question_whether_a_key_is_gone(ring, open_ring, monkeypatch):
    key, gone = ring.take(SCOPE), ring.take(SCOPE)
    other = open_ring()
    assert opens(other, key) == key.key
    ring.destroy(SCOPE, [(gone.key_id, gone.slot)])
    for asked, expected in ((key, False), (gone, True)):
        once(monkeypatch, SlotFile, "read", lambda: ring.rotate(SCOPE))
        assert other.is_destroyed(SCOPE, asked.key_id, asked.slot) == expected
        monkeypatch.undo()
