"""The slot file: written ahead, destroyed in place, never torn, never taken on trust."""

from __future__ import annotations

import pytest
from blake3 import blake3

from journal import limits
from journal.errors import JournalCorrupt, RegistryVersionUnavailable
from journal.slots import HEADER_BYTES, WRAPPED_BYTES, Slot, SlotFile, SlotState, decode_slot, encode_slot

TAG = bytes(range(16))


def live(number):
    return Slot(SlotState.LIVE, number.to_bytes(limits.KEY_ID_BYTES, "big"), bytes([number]) * WRAPPED_BYTES)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "scope.1.slots"
    SlotFile.create(path, TAG, 1, 1, [])
    return path


@pytest.fixture
def file(path):
    file = SlotFile(path, TAG)
    yield file
    file.close()


def test_a_slot_fills_a_fixed_part_of_a_sector():
    assert 512 % limits.SLOT_BYTES == 0
    assert HEADER_BYTES % 512 == 0
    assert len(encode_slot(live(1))) == limits.SLOT_BYTES
    assert decode_slot(encode_slot(live(1))) == live(1)


@pytest.mark.parametrize("position", range(0, limits.SLOT_BYTES, 5))
def test_a_flipped_bit_makes_a_slot_broken(position):
    raw = bytearray(encode_slot(live(1)))
    raw[position] ^= 8
    assert decode_slot(bytes(raw)) is None


@pytest.mark.parametrize(
    "raw", [b"", bytes(limits.SLOT_BYTES), encode_slot(live(1))[:-1], encode_slot(live(1)) + b"\0"]
)
def test_what_is_no_slot_is_none(raw):
    assert decode_slot(raw) is None


@pytest.mark.parametrize("state", [0, 3, 255])
def test_a_state_that_does_not_exist_is_no_slot(state):
    body = bytes([state]) + encode_slot(live(1))[1:-16]
    assert decode_slot(body + blake3(body).digest(16)) is None


def test_a_new_file_is_private_and_empty(path, file):
    assert path.stat().st_mode & 0o777 == 0o600
    assert (file.count, file.generation) == (0, 1)
    assert file.read(0) is None
    assert file.states_epoch(1)
    assert not file.states_epoch(2)
    with pytest.raises(FileExistsError):
        SlotFile.create(path, TAG, 1, 1, [])


def test_slots_are_appended_in_order_and_every_change_counts(file):
    assert file.append([live(1), live(2)]) == (0, 2)
    assert file.append([live(3)]) == (2, 3)
    assert file.read_all() == [live(1), live(2), live(3)]
    assert file.destroy({1: live(2).key_id}) == 4
    assert file.generation == 4
    assert file.count == 3


def test_a_destroyed_slot_holds_nothing_of_its_key(path, file):
    file.append([live(1), live(2), live(3)])
    file.destroy({1: live(2).key_id})
    assert file.read(1) == Slot(SlotState.DESTROYED, live(2).key_id, bytes(WRAPPED_BYTES))
    assert live(2).wrapped[:8] not in path.read_bytes()
    assert live(1).wrapped[:8] in path.read_bytes()
    assert file.destroy({1: live(2).key_id}) == 4  # again is harmless
    assert file.read(1) == Slot(SlotState.DESTROYED, live(2).key_id, bytes(WRAPPED_BYTES))


def test_the_generation_is_raised_over_what_the_journal_knows(file):
    assert file.destroy({}, at_least=70) == 71
    assert file.destroy({}, at_least=5) == 72


def test_a_torn_append_is_written_over(path, file):
    file.append([live(1)])
    with path.open("ab") as raw:
        raw.write(encode_slot(live(9))[:50])
    assert file.count == 1
    assert file.append([live(2)])[0] == 1
    assert file.read_all() == [live(1), live(2)]


def test_a_broken_slot_is_none_and_keeps_its_number_when_moved(tmp_path, path, file):
    file.append([live(1), live(2), live(3)])
    with path.open("r+b") as raw:
        raw.seek(HEADER_BYTES + limits.SLOT_BYTES + 20)
        raw.write(b"\xff")
    assert file.read_all() == [live(1), None, live(3)]
    moved = tmp_path / "scope.2.slots"
    SlotFile.create(moved, TAG, 2, 9, file.read_all())
    copy = SlotFile(moved, TAG)
    assert copy.read_all() == [live(1), None, live(3)]
    assert copy.generation == 9
    copy.close()


def test_another_scopes_file_is_refused(path):
    file = SlotFile(path, bytes(16))
    with pytest.raises(JournalCorrupt, match="another scope"):
        assert file.generation
    file.close()


@pytest.mark.parametrize("cut", [0, 100, HEADER_BYTES - 1])
def test_a_cut_header_is_refused(path, cut):
    path.write_bytes(path.read_bytes()[:cut])
    file = SlotFile(path, TAG)
    assert file.count == 0
    assert not file.states_epoch(1)
    with pytest.raises(JournalCorrupt):
        assert file.generation
    file.close()


def test_another_format_is_refused_by_its_number(path):
    raw = bytearray(path.read_bytes())
    raw[8] = 2
    body = bytes(raw[: HEADER_BYTES - 16])
    path.write_bytes(body + blake3(body).digest(16))
    file = SlotFile(path, TAG)
    with pytest.raises(RegistryVersionUnavailable, match="format 2"):
        assert file.generation
    file.close()


def test_a_reader_cannot_write(path):
    file = SlotFile(path, TAG, readonly=True)
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.append([live(1)])
    assert file.generation == 1
    file.close()
    file.close()
