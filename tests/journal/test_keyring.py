"""Keys: made ahead, opened, destroyed, rotated, by several processes; lost files and wrong roots told apart."""

from __future__ import annotations

import secrets
import shutil
import threading

import pytest

from journal import limits, patience, slots
from journal.errors import BlobMissing, JournalCorrupt, RegistryVersionUnavailable, StoreUnavailable
from journal.filelock import FileLock
from tests.journal.peers import Peer
from tests.journal.rings import OTHER, ROOT, SCOPE, break_slot, files, opens

# --- a scope's own keys --------------------------------------------------------------------------


def test_a_scopes_keys_are_made_once_and_are_all_different(tmp_path, ring, open_ring):
    names = ("identity_key", "ledger_key", "signing_seed")
    made = [getattr(ring, name)(scope) for scope in (SCOPE, OTHER) for name in names]
    assert len(set(made)) == 6
    assert all(len(key) == 32 for key in made)
    assert [getattr(open_ring(), name)(scope) for scope in (SCOPE, OTHER) for name in names] == made
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in tmp_path.iterdir())


def test_no_file_holds_a_key_in_the_clear(tmp_path, ring):
    key = ring.take(SCOPE)
    held = [ring.identity_key(SCOPE), ring.ledger_key(SCOPE), ring.signing_seed(SCOPE), key.key, ROOT]
    everything = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert key.key_id in everything
    assert not any(secret in everything for secret in held)


def test_a_keys_repr_does_not_show_it(ring):
    key = ring.take(SCOPE)
    opened = ring._opened(SCOPE)
    for text in (repr(key), repr(opened), repr(opened.keys)):
        assert repr(key.key)[2:-1] not in text
        assert repr(opened.keys.wrapping)[2:-1] not in text


def test_projection_keys_depend_on_name_and_version(ring):
    keys = {ring.projection_key(SCOPE, name, version) for name in ("lexical", "vector") for version in (1, 2)}
    assert len(keys) == 4
    assert ring.projection_key(SCOPE, "lexical", 1) in keys


# --- data keys -----------------------------------------------------------------------------------


def test_keys_are_taken_once_in_order_and_open_again(ring, open_ring):
    taken = [ring.take(SCOPE) for _ in range(2 * limits.SLOTS_AHEAD + 3)]
    assert [key.slot for key in taken] == list(range(len(taken)))
    assert len({key.key for key in taken}) == len({key.key_id for key in taken}) == len(taken)
    other = open_ring()
    assert all(opens(other, key) == key.key for key in taken)


def test_more_are_written_ahead_where_the_last_ones_were_used_up_at_once(ring, monkeypatch):
    found = []
    for _ in range(3 * limits.SLOTS_AHEAD):
        ring.take(SCOPE)
        found.append(len(ring.located(SCOPE)))
    assert sorted(set(found)) == [limits.SLOTS_AHEAD, 3 * limits.SLOTS_AHEAD]
    monkeypatch.setattr(limits, "SLOTS_AHEAD_MAX", 2 * limits.SLOTS_AHEAD)
    ring.take(SCOPE)
    assert len(ring.located(SCOPE)) == 5 * limits.SLOTS_AHEAD, "so many at most"
    monkeypatch.setattr(limits, "SLOTS_AHEAD_SECONDS", 0)
    for _ in range(2 * limits.SLOTS_AHEAD):
        ring.take(SCOPE)
    assert len(ring.located(SCOPE)) == 6 * limits.SLOTS_AHEAD, "they lasted longer"


def test_a_key_given_back_serves_the_next_one(ring):
    ring.stored = lambda _scope, _key_ids: ()
    key = ring.take(SCOPE)
    ring.give_back(SCOPE, key)
    assert ring.take(SCOPE) == key
    ring.stored = lambda _scope, key_ids: key_ids
    ring.give_back(SCOPE, key)
    assert ring.take(SCOPE) != key, "something is stored under it"


def test_slots_that_a_dead_process_left_over_stay(ring, open_ring):
    ring.take(SCOPE)
    assert open_ring().take(SCOPE).slot == limits.SLOTS_AHEAD


def test_a_destroyed_key_is_gone_for_everybody(ring, open_ring):
    one, two = ring.take(SCOPE), ring.take(SCOPE)
    other = open_ring()
    assert opens(other, one) == one.key
    before = ring.generation(SCOPE)
    assert ring.destroy(SCOPE, [(one.key_id, one.slot)]) == before + 1
    assert opens(ring, one) is None
    assert opens(other, one) is None
    assert opens(other, two) == two.key
    assert other.is_destroyed(SCOPE, one.key_id, one.slot)
    assert not other.is_destroyed(SCOPE, two.key_id, two.slot)
    ring.destroy(SCOPE, [(one.key_id, one.slot)])
    assert opens(ring, one) is None


def test_nothing_to_destroy_changes_nothing(ring):
    before = ring.generation(SCOPE)
    assert ring.destroy(SCOPE, []) == before
    assert ring.destroy(SCOPE, [(bytes(16), 5), (bytes(16), None)]) == before


def test_a_destruction_never_hits_another_key(ring):
    """The journal's slot number may be another key's by now: an older slot file was put back and grew again."""
    mine, others = ring.take(SCOPE), [ring.take(SCOPE) for _ in range(3)]
    ring.destroy(SCOPE, [(secrets.token_bytes(16), others[0].slot), (mine.key_id, others[1].slot)])
    assert [opens(ring, key) for key in others] == [key.key for key in others]
    assert opens(ring, mine) is None, "it was found by its id"


def test_a_key_whose_number_is_not_known_is_found_by_its_id(ring):
    key = ring.take(SCOPE)
    assert not ring.is_destroyed(SCOPE, key.key_id, None)
    ring.destroy(SCOPE, [(key.key_id, None)])
    assert opens(ring, key) is None
    assert ring.is_destroyed(SCOPE, key.key_id, None)
    assert ring.is_destroyed(SCOPE, key.key_id, 7)


def test_a_broken_slot_is_corruption_until_it_is_destroyed(tmp_path, ring):
    key = ring.take(SCOPE)
    break_slot(tmp_path, key.slot)
    with pytest.raises(JournalCorrupt):
        opens(ring, key)
    assert not ring.is_destroyed(SCOPE, key.key_id, key.slot), "it may hold what is left of the key"
    ring.destroy(SCOPE, [(key.key_id, key.slot)])
    assert ring.is_destroyed(SCOPE, key.key_id, key.slot)


@pytest.mark.parametrize("slot", [63, 64, 1_000_000])
def test_a_key_that_stands_nowhere_is_corruption(ring, slot):
    ring.take(SCOPE)
    with pytest.raises(JournalCorrupt):
        ring.open(SCOPE, bytes(16), slot)


def test_keys_are_located_by_their_ids(ring):
    taken = [ring.take(SCOPE) for _ in range(3)]
    ring.destroy(SCOPE, [(taken[1].key_id, taken[1].slot)])
    located = ring.located(SCOPE)
    assert len(located) == limits.SLOTS_AHEAD
    assert [located[key.key_id] for key in taken] == [0, 1, 2]
    assert ring.located(OTHER) == {}


def test_threads_never_share_a_key(ring):
    taken, mutex = [], threading.Lock()

    def work():
        for _ in range(50):
            key = ring.take(SCOPE)
            with mutex:
                taken.append(key)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({key.slot for key in taken}) == len({key.key for key in taken}) == 400


@pytest.mark.parametrize("act", ["take", "destroy", "rotate"])
def test_another_scope_waits_for_no_flush(ring, monkeypatch, act):
    key, others = ring.take(SCOPE), ring.take(OTHER)
    ring._scopes[SCOPE.tag].ahead.clear()
    flushing, go_on, flush = threading.Event(), threading.Event(), slots._flush

    def slow(fd):
        if threading.current_thread() is not threading.main_thread():
            flushing.set()
            assert go_on.wait(60)
        flush(fd)

    monkeypatch.setattr(slots, "_flush", slow)
    doing = {
        "take": lambda: ring.take(SCOPE),
        "destroy": lambda: ring.destroy(SCOPE, [(key.key_id, key.slot)]),
        "rotate": lambda: ring.rotate(SCOPE),
    }
    thread = threading.Thread(target=doing[act])
    thread.start()
    assert flushing.wait(60)
    with patience.bounded(0.0):
        assert ring.open(OTHER, others.key_id, others.slot) == others.key
        assert ring.take(OTHER).slot == 1
        assert act == "destroy" or opens(ring, key) == key.key, "nor does who reads what the scope has"
    go_on.set()
    thread.join()


# --- what is refused -----------------------------------------------------------------------------


def test_another_root_key_opens_nothing_and_says_so(ring, open_ring):
    key = ring.take(SCOPE)
    wrong = open_ring(bytes(32))
    for call in (
        lambda: wrong.identity_key(SCOPE),
        lambda: wrong.take(SCOPE),
        lambda: opens(wrong, key),
        lambda: wrong.rotate(SCOPE),
        lambda: wrong.destroy(SCOPE, [(key.key_id, key.slot)]),
        lambda: wrong.tidy(SCOPE),
    ):
        with pytest.raises(StoreUnavailable, match="another store's key"):
            call()
    assert opens(ring, key) == key.key


def test_the_root_key_is_checked_before_anything_is_made(tmp_path, ring, open_ring):
    open_ring(bytes(32)).check_root()  # of an empty store, any key is the key
    ring.identity_key(SCOPE)
    ring.check_root()
    with pytest.raises(StoreUnavailable, match="another store's key"):
        open_ring(bytes(32)).check_root()
    (tmp_path / f"{SCOPE.tag.hex()}.keyring").write_bytes(b"broken")
    open_ring(bytes(32)).check_root()  # what is broken is told where it is used
    ring.identity_key(OTHER)
    with pytest.raises(StoreUnavailable, match="another store's key"):
        open_ring(bytes(32)).check_root()


def test_a_key_file_that_cannot_be_written_is_no_accident(tmp_path, ring):
    key = ring.take(SCOPE)
    opened = ring._opened(SCOPE)
    opened.slots.close()
    with pytest.raises(StoreUnavailable, match="cannot be written"):
        ring.destroy(SCOPE, [(key.key_id, key.slot)])


def test_a_lost_keyring_file_of_a_known_scope_is_never_made_anew(tmp_path, ring, open_ring):
    ring.take(SCOPE)
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.slots")}
    (tmp_path / f"{SCOPE.tag.hex()}.keyring").unlink()
    other = open_ring(is_known=lambda scope: scope == SCOPE)
    for call in (lambda: other.take(SCOPE), lambda: other.identity_key(SCOPE), lambda: other.rotate(SCOPE)):
        with pytest.raises(BlobMissing, match="keyring file is missing"):
            call()
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.slots")} == before
    assert other.take(OTHER).slot == 0


def test_a_lost_slot_file_is_named(tmp_path, ring, open_ring):
    ring.take(SCOPE)
    (tmp_path / f"{SCOPE.tag.hex()}.1.slots").unlink()
    with pytest.raises(BlobMissing, match="slot file is missing"):
        open_ring().identity_key(SCOPE)


def test_a_slot_file_of_another_epoch_is_refused(tmp_path, ring, open_ring):
    ring.take(SCOPE)
    kept = (tmp_path / f"{SCOPE.tag.hex()}.1.slots").read_bytes()
    ring.rotate(SCOPE)
    (tmp_path / f"{SCOPE.tag.hex()}.2.slots").write_bytes(kept)
    with pytest.raises(JournalCorrupt, match="another epoch"):
        open_ring().identity_key(SCOPE)


@pytest.mark.parametrize("position", range(0, 500, 23))
def test_a_flipped_bit_in_the_keyring_file_is_found(tmp_path, ring, open_ring, position):
    ring.identity_key(SCOPE)
    path = tmp_path / f"{SCOPE.tag.hex()}.keyring"
    raw = bytearray(path.read_bytes())
    raw[position % len(raw)] ^= 1 << position % 8
    path.write_bytes(bytes(raw))
    with pytest.raises((JournalCorrupt, RegistryVersionUnavailable)):
        open_ring().identity_key(SCOPE)


def test_another_scopes_keyring_file_is_refused(tmp_path, ring, open_ring):
    ring.identity_key(SCOPE)
    ring.identity_key(OTHER)
    shutil.copy(tmp_path / f"{OTHER.tag.hex()}.keyring", tmp_path / f"{SCOPE.tag.hex()}.keyring")
    with pytest.raises(JournalCorrupt, match="another scope"):
        open_ring().identity_key(SCOPE)


def test_a_reader_makes_and_changes_nothing(tmp_path, ring, open_ring):
    key = ring.take(SCOPE)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    reader = open_ring(readonly=True)
    assert opens(reader, key) == key.key
    assert reader.located(SCOPE) == ring.located(SCOPE)
    for call in (
        lambda: reader.identity_key(OTHER),
        lambda: reader.take(SCOPE),
        lambda: reader.rotate(SCOPE),
        lambda: reader.tidy(SCOPE),
        lambda: reader.destroy(SCOPE, [(key.key_id, key.slot)]),
    ):
        with pytest.raises(StoreUnavailable, match="reading only"):
            call()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_key_lock_that_is_not_given_back_does_not_hang(tmp_path, ring, monkeypatch):
    ring.identity_key(SCOPE)
    monkeypatch.setattr("journal.scopelocks._LOCK_SECONDS", 0.05)
    lock = FileLock(tmp_path / f"{SCOPE.tag.hex()}.lock")
    assert lock.try_acquire()
    with pytest.raises(StoreUnavailable, match="key lock"):
        ring.take(SCOPE)
    lock.close()
    assert ring.take(SCOPE).slot == 0


def test_a_closed_ring_gives_nothing(open_ring):
    ring = open_ring()
    key = ring.take(SCOPE)
    ring.close()
    for call in (lambda: ring.take(SCOPE), lambda: opens(ring, key), lambda: ring.identity_key(SCOPE)):
        with pytest.raises(StoreUnavailable, match="closed"):
            call()


def test_a_scope_made_by_two_processes_at_once_has_one_keyring(tmp_path):
    code = """
from pathlib import Path
from journal.clock import SystemRandomness
from journal.keyring import Keyring
from tests.journal.rings import ROOT, SCOPE
ring = Keyring(Path(sys.argv[1]), ROOT, SystemRandomness())
say("ready")
hear()
say(ring.identity_key(SCOPE).hex())
hear()
"""
    with Peer(code, tmp_path) as one, Peer(code, tmp_path) as two:
        assert [one.hear(), two.hear()] == ["ready", "ready"]
        one.say("go")
        two.say("go")
        assert one.hear() == two.hear()
    assert files(tmp_path) == ["scope.1.slots", "scope.keyring", "scope.lock"]
