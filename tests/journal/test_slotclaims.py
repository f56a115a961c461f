"""Keys written ahead by processes that live shortly: the next one uses them, and never those of one that lives."""

from __future__ import annotations

import errno
import shutil
import struct
from contextlib import contextmanager

import pytest

from journal import limits
from journal.filelock import FileLock
from journal.keyring import Keyring
from journal.lifecycle import Operation
from journal.slotclaims import SlotClaims
from journal.slots import HEADER_BYTES
from tests.journal.peers import Peer
from tests.journal.stores import ROOT, SCOPE, capture, make, move, opened, text_of

_STORE = """
from pathlib import Path
from tests.journal.stores import capture, opened, SCOPE
"""
_CAPTURES_ONE = f"{_STORE}\nwith opened(Path(sys.argv[1])) as journal: say(*capture(journal, sys.argv[2]))"
_TAKES_ONE = f"""{_STORE}
with opened(Path(sys.argv[1])) as journal:
    say(journal.take_key(SCOPE).slot)
    hear()
    say(*capture(journal, "taken late"))
"""
_CAPTURES_LATE = f"""{_STORE}
from journal.errors import StoreUnavailable
with opened(Path(sys.argv[1])) as journal:
    say(journal.take_key(SCOPE).slot)
    hear()
    try:
        capture(journal, "taken late")
    except StoreUnavailable:
        say("refused")
    say(*capture(journal, "taken late"))
    hear()
"""
_CLAIM = struct.Struct("<QQ16s")


@pytest.fixture
def path(tmp_path):
    return make(tmp_path / "store")


def slots_in(path) -> int:
    (file,) = (path / "keys").glob(f"{SCOPE.tag.hex()}.*.slots")
    return (file.stat().st_size - HEADER_BYTES) // limits.SLOT_BYTES


def claims_of(path):
    return path / "keys" / f"{SCOPE.tag.hex()}.ahead"


def slots_of_all(journal) -> list[int]:
    with journal.store.view(SCOPE) as view:
        return [view.slot(row.key_id) for _, row in view.subjects() if row.key_id]


def test_many_short_processes_leave_one_process_worth_of_slots(path):
    count = 20
    candidates = []
    for number in range(count):
        with Peer(_CAPTURES_ONE, path, f"key {number}") as peer:
            candidates.append(peer.hear().split()[0])
            assert peer.end() == 0
    assert slots_in(path) == limits.SLOTS_AHEAD
    assert claims_of(path).stat().st_size == _CLAIM.size
    with opened(path) as journal:
        assert sorted(slots_of_all(journal)) == list(range(count))
        assert all(text_of(journal, candidate_id) for candidate_id in candidates)


def test_what_is_used_up_is_followed_by_new_slots(path):
    with opened(path) as journal:
        for number in range(limits.SLOTS_AHEAD - 1):
            capture(journal, f"first {number}")
    with opened(path) as journal:
        for number in range(3):
            capture(journal, f"second {number}")
        assert slots_in(path) == 2 * limits.SLOTS_AHEAD
        assert sorted(slots_of_all(journal)) == list(range(limits.SLOTS_AHEAD + 2))


def test_keys_of_a_process_that_lives_are_its_own(path):
    with Peer(_TAKES_ONE, path) as peer, opened(path) as journal:
        assert peer.hear() == "0"
        assert journal.take_key(SCOPE).slot == limits.SLOTS_AHEAD
        peer.say("go on")
        candidate_id = peer.hear().split()[0]
        assert text_of(journal, candidate_id)
        peer.kill()
        with taken_beside(path, journal) as ours:
            assert [key.slot for key in ours][:2] == [0, 2], "1 is the late capture's; 0 was taken and never used"


def test_a_claim_that_cannot_be_written_lets_nobody_have_the_keys_of_one_that_lives(path, monkeypatch):
    claims = SlotClaims(path / "keys" / "of-one-that-lives")
    for first in (0, 64):
        claims.claim(first, 64, bytes(16))

    def broken(*_):
        raise OSError(errno.EIO, "a device that fails")

    with monkeypatch.context() as patch:
        patch.setattr(SlotClaims, "_write", broken)
        claims.claim(128, 64, bytes(16))
    assert [claim.first for claim in claims._mine] == [0, 64, 128], "its own locks would not keep it from its own keys"
    other = SlotClaims(path / "keys" / "of-one-that-lives")
    assert other._read() == [(0, 64, bytes(16)), (64, 64, bytes(16))]
    assert not any(other._lock.try_acquire_range(first, 64) for first in (0, 64))
    other.close()
    claims.close()


def test_a_key_that_two_have_seals_for_one_of_them(path):
    """Whoever puts the file of claims back under a process that lives has its keys handed out twice."""
    with Peer(_CAPTURES_LATE, path) as peer:
        assert peer.hear() == "0"
        copy = claims_of(path).with_suffix(".copy")
        shutil.copy(claims_of(path), copy)
        copy.rename(claims_of(path))
        with opened(path) as journal:
            ours = [capture(journal, f"ours {number}")[0] for number in range(2)]
            assert sorted(slots_of_all(journal)) == [0, 1]
            peer.say("go on")
            assert peer.hear() == "refused"
            candidate_id = peer.hear().split()[0]
            assert sorted(slots_of_all(journal)) == [0, 1, 2]
            move(journal, Operation.WITHDRAW, ours[1])
            assert journal.finish_destructions(SCOPE)
            assert text_of(journal, candidate_id)
        peer.say("end")


@contextmanager
def taken_beside(path, journal):
    """Take keys by a second keyring of the store, as another process would."""
    ring = Keyring(path / "keys", ROOT, journal.randomness)
    ring.stored = journal.keyring.stored
    yield [ring.take(SCOPE) for _ in range(3)]
    ring.close()


def test_slots_that_nobody_claims_stay(path):
    """An older release claims nothing, and may live."""
    with opened(path) as journal:
        journal.take_key(SCOPE)
    claims_of(path).unlink()
    with opened(path) as journal:
        assert journal.take_key(SCOPE).slot == limits.SLOTS_AHEAD


def test_a_claim_that_is_not_the_slots_is_none(path):
    with opened(path) as journal:
        journal.take_key(SCOPE)
    file = claims_of(path)
    first, count, key_id = _CLAIM.unpack(file.read_bytes())
    for wrong in (
        _CLAIM.pack(first, count, bytes(16)),
        _CLAIM.pack(first + 1, count, key_id),
        _CLAIM.pack(first, 0, key_id),
        _CLAIM.pack(first, 2**63, key_id),
        _CLAIM.pack(2**63 + 5, count, key_id),
        b"torn" * 5,
    ):
        file.write_bytes(wrong)
        before = slots_in(path)
        with opened(path) as journal:
            assert journal.take_key(SCOPE).slot == before


def test_claims_move_with_a_rotation(path):
    with opened(path) as journal:
        journal.take_key(SCOPE)
    with opened(path) as journal:
        journal.keyring.rotate(SCOPE)
    with opened(path) as journal:
        candidate_id, _ = capture(journal, "after the rotation")
        assert slots_of_all(journal) == [0]
        assert text_of(journal, candidate_id)


def test_a_destroyed_key_is_never_taken_again(path):
    with opened(path) as journal:
        key = journal.take_key(SCOPE)
        journal.keyring.destroy(SCOPE, [(key.key_id, key.slot)])
    with opened(path) as journal:
        assert journal.take_key(SCOPE).slot == 1


def test_a_long_life_leaves_few_claims(path):
    with opened(path) as journal:
        for _ in range(5 * limits.SLOTS_AHEAD_MAX):
            journal.take_key(SCOPE)
        assert claims_of(path).stat().st_size == 2 * _CLAIM.size


def test_a_range_of_a_lock_file_is_one_holders(tmp_path):
    one, two = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    assert one.try_acquire_range(10, 5)
    assert not two.try_acquire_range(14, 5)
    assert two.try_acquire_range(15, 5)
    assert one.try_acquire_range(10, 5), "one's own"
    one.release_range(10, 5)
    assert two.try_acquire_range(14, 1)
    one.close()
    two.close()
