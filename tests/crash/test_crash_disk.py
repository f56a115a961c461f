"""The simulated disk keeps what was flushed, and of the rest what fate leaves."""

from __future__ import annotations

import random

import pytest

from tests.crash.disk import NEWEST_NAME, NO_REMOVAL, NOTHING, SECTOR_BYTES, Disk, Fate, File, Folder, drawn

ALL = Fate(lambda when, which: True, lambda number, count, is_removal: True, bytes)


def left(file: File, *kept: tuple[int, int]) -> bytes:
    """Return a file in which these (when, sector) alone survive; sector -1 is a length."""
    raw, size = file.left(lambda when, which: (when, which) in kept)
    return raw + bytes(size - len(raw))


@pytest.fixture
def flushed() -> File:
    """Give a file of three sectors of a, flushed."""
    file = File()
    file.write(1, 0, b"a" * 3 * SECTOR_BYTES)
    file.flush(2)
    return file


def test_what_was_flushed_is_there_and_nothing_else_need_be(flushed):
    flushed.write(3, 0, b"b" * 4 * SECTOR_BYTES)
    assert left(flushed) == b"a" * 3 * SECTOR_BYTES


def test_a_write_is_torn_between_sectors_and_not_within(flushed):
    flushed.write(3, 100, b"b" * 2 * SECTOR_BYTES)
    assert left(flushed, (3, 1)) == b"a" * 512 + b"b" * 512 + b"a" * 512
    assert left(flushed, (3, 0)) == b"a" * 100 + b"b" * 412 + b"a" * 1_024
    assert left(flushed, (3, 2)) == b"a" * 1_024 + b"b" * 100 + b"a" * 412


def test_a_sector_may_hold_any_version_since_the_last_flush(flushed):
    flushed.write(3, 0, b"b")
    flushed.write(4, 1, b"c")
    assert [left(flushed, *kept)[:2] for kept in ([], [(3, 0)], [(4, 0)], [(3, 0), (4, 0)])] == [
        b"aa", b"ba", b"bc", b"bc",
    ]  # fmt: skip


def test_a_flush_covers_what_was_written_before_it_began(flushed):
    flushed.write(3, 0, b"b")
    flushed.write(5, 512, b"c")
    flushed.flush(4)
    assert left(flushed) == b"b" + b"a" * 1_535
    assert left(flushed, (5, 1)) == b"b" + b"a" * 511 + b"c" + b"a" * 1_023


def test_a_length_is_not_certain_before_a_flush_and_what_is_cut_off_is_zeros_when_it_grows_again(flushed):
    flushed.resize(3, 600)
    flushed.resize(4, 1_200)
    assert len(left(flushed)) == 1_536
    assert left(flushed, (3, -1)) == b"a" * 600
    flushed.flush(5)
    assert left(flushed) == b"a" * 600 + bytes(600)


def test_a_write_to_an_o_dsync_descriptor_is_there_at_once_and_no_other_of_the_file(flushed):
    flushed.write(3, 0, b"b")
    flushed.flush_now(flushed.write(4, 512, b"c"))
    assert left(flushed) == b"a" * 512 + b"c" + b"a" * 1_023
    assert left(flushed, (3, 0))[:1] == b"b"
    flushed.write(5, 512, b"d")
    flushed.flush_now(flushed.write(6, 512, b"e"))
    assert left(flushed, (5, 1))[512:513] == b"e"


def image(disk: Disk, place, fate) -> dict[str, bytes]:
    place.mkdir()
    disk.image(place, fate)
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def test_a_name_is_certain_once_its_directory_was_flushed_and_a_rename_is_whole(tmp_path):
    disk, old, new, folder = Disk(), File(), File(), Folder()
    for file, said in ((old, b"old"), (new, b"new")):
        file.write(1, 0, said)
        file.flush(2)
    disk.name(3, (disk.root, "folder", folder))
    disk.name(4, (folder, "file", old))
    disk.flush_folder(folder, 5)
    assert image(disk, tmp_path / "1", NOTHING) == {}
    disk.flush_folder(disk.root, 5)
    disk.name(6, (folder, ".file", new))
    disk.name(7, (folder, ".file", None), (folder, "file", new))
    assert image(disk, tmp_path / "2", NOTHING) == {"folder/file": b"old"}
    assert image(disk, tmp_path / "3", NEWEST_NAME) == {"folder/file": b"new"}
    assert image(disk, tmp_path / "4", ALL) == {"folder/file": b"new"}
    disk.flush_folder(folder, 7)
    assert image(disk, tmp_path / "5", NOTHING) == {"folder/file": b"old", "folder/.file": b"new"}
    disk.flush_folder(folder, 8)
    assert image(disk, tmp_path / "6", NOTHING) == {"folder/file": b"new"}
    disk.name(9, (folder, "file", None))
    assert image(disk, tmp_path / "7", ALL) == {}
    assert image(disk, tmp_path / "8", NO_REMOVAL) == {"folder/file": b"new"}


def test_a_seed_draws_one_fate_and_seeds_differ(tmp_path):
    disk, file = Disk(), File()
    disk.name(1, (disk.root, "file", file))
    disk.flush_folder(disk.root, 2)
    for when in range(3, 40):
        file.write(when, 0, bytes([when]) * 8 * SECTOR_BYTES)
    drawn_twice = [image(disk, tmp_path / str(n), drawn(random.Random("seed"))) for n in range(2)]
    assert drawn_twice[0] == drawn_twice[1]
    assert len({image(disk, tmp_path / f"of-{n}", drawn(random.Random(n)))["file"] for n in range(40)}) > 6
