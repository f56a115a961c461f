"""What is trusted of an environment that was closed, killed, cut, copied or deleted."""

from __future__ import annotations

import os
import random
import shutil
import threading
import time

import lmdb
import pytest

from journal.errors import ProjectionStale
from journal.store.lmdb.markers import boot_id
from projections import marks
from projections.environment import Unusable, attach, create
from projections.locks import InodeLock
from tests.corruption.pages import PAGE_BYTES, DataFile, flip
from tests.projections.environments import NAMES, OTHER, got, mark, put, rewrite_mark
from tests.projections.processes import Process


def test_a_killed_process_loses_nothing_within_a_boot(opened, directory):
    opened.release()
    with Process(OTHER, directory) as other:
        assert other.hear() == "open"
        for word in ("claim", "put"):
            other.tell(word)
            other.hear()
        other.kill()
    assert mark(directory)["clean"] is False
    again = attach(directory, NAMES, None)
    assert got(again) == b"value"
    again.release()


@pytest.mark.parametrize("harm", ["pointer", "branch", "page header"])
def test_what_a_killed_process_may_have_died_of_is_not_mapped(opened, directory, harm):
    for number in range(400):
        put(opened, f"key {number:04}".encode(), bytes(100))
    opened.release()
    with Process(OTHER, directory) as other:
        assert other.hear() == "open"
        for word in ("claim", "put"):
            other.tell(word)
            other.hear()
        beside = attach(directory, NAMES, None)  # whoever has it open lives
        beside.give_up()
        beside.release()
        other.kill()
    data = directory / "data.mdb"
    pages = DataFile(data, data.name)
    page = pages.pages("branch" if harm == "branch" else "leaf")[-1]
    flip(data, page * PAGE_BYTES + (13 if harm == "page header" else 17), 6)
    with pytest.raises(Unusable, match="killed"):
        attach(directory, NAMES, None)


def test_the_last_to_close_marks_it_clean(opened, directory):
    put(opened)
    with Process(OTHER, directory) as other:
        assert other.hear() == "open"
        opened.release()
        assert mark(directory)["clean"] is False
        other.tell("claim")
        other.hear()
        other.tell("put")
        other.hear()
        other.tell("close")
        assert other.hear() == "closed"
    assert mark(directory)["clean"] is True


def test_a_clean_one_is_trusted_after_another_boot(opened, directory):
    put(opened)
    opened.release()
    rewrite_mark(directory, boot="another boot")
    again = attach(directory, NAMES, None)
    assert got(again) == b"value"
    assert mark(directory)["clean"] is True  # reading alone does not touch it
    put(again, b"more")
    assert mark(directory) == {**mark(directory), "clean": False, "boot": boot_id()}
    again.release()
    assert mark(directory)["clean"] is True


@pytest.mark.parametrize(
    "changes", [{"boot": "another boot"}, {"boot": ""}, {"format": 99}, {"lock_inode": 1}, {"clean": "what"}]
)
def test_an_unclean_one_of_another_boot_or_kind_is_not_trusted(opened, directory, changes):
    put(opened)
    opened.release()
    rewrite_mark(directory, **{"clean": False, **changes})
    with pytest.raises(Unusable):
        attach(directory, NAMES, None)


def test_without_a_boot_id_only_a_clean_one_is_trusted(opened, directory, monkeypatch):
    monkeypatch.setattr(marks, "boot_id", lambda: "")
    put(opened)
    opened.release()
    attach(directory, NAMES, None).release()
    rewrite_mark(directory, clean=False, boot="")
    with pytest.raises(Unusable):
        attach(directory, NAMES, None)


def test_a_copy_is_not_trusted(opened, directory, tmp_path):
    put(opened)
    opened.release()
    shutil.copytree(directory, tmp_path / "copy")
    with pytest.raises(Unusable):
        attach(tmp_path / "copy", NAMES, None)


@pytest.mark.parametrize("name", ["data.mdb", "lock.mdb", marks.NAME])
def test_one_that_lost_a_file_is_not_opened(opened, directory, name):
    put(opened)
    opened.release()
    (directory / name).unlink()
    with pytest.raises(Unusable):
        attach(directory, NAMES, None)
    if name == "lock.mdb":
        assert not (directory / name).exists()  # nothing was opened, so LMDB made none anew


@pytest.mark.parametrize("keep", [0, 100, 4096, 8192, 12_288])
def test_a_cut_file_is_never_mapped(opened, directory, keep):
    for number in range(100):
        put(opened, b"%d" % number, bytes(500))
    opened.release()
    os.truncate(directory / "data.mdb", keep)
    with pytest.raises(Unusable):
        attach(directory, NAMES, None)


@pytest.mark.parametrize("noise", [b"", b"no database at all" * 1000])
def test_another_file_is_not_opened(opened, directory, noise):
    opened.release()
    (directory / "data.mdb").write_bytes(noise)
    with pytest.raises(Unusable):
        attach(directory, NAMES, None)


def test_one_without_our_tables_is_not_opened(opened, directory):
    opened.release()
    with pytest.raises(Unusable):
        attach(directory, (*NAMES, b"more"), None)
    attach(directory, NAMES, None).release()  # the failure left nothing open


def test_the_file_is_always_as_long_as_its_meta_page_says(opened, directory):
    """LMDB does not write pages that were allotted and freed within one transaction."""
    rng, table = random.Random(0), opened.tables[b"table"]
    assert opened.claim(0.0)
    for _ in range(30):
        with opened.writing() as txn:
            for _ in range(rng.choice([1, 20, 300])):
                key = b"%d" % rng.randrange(500)
                if rng.random() < 0.5:
                    txn.put(key, bytes(rng.choice([10, 500, 9_000, 40_000])), db=table)
                else:
                    txn.delete(key, db=table)
            if rng.random() < 0.3:
                for key in [key for key, _ in txn.cursor(db=table).iternext()]:
                    txn.delete(key, db=table)
        needed_bytes = (opened._env.info()["last_pgno"] + 1) * opened._env.stat()["psize"]
        assert (directory / "data.mdb").stat().st_size >= needed_bytes
    opened.unclaim()


# --- deletion and closing -------------------------------------------------------------------------


def test_a_deleted_one_serves_on_and_says_that_it_is_gone(opened, directory):
    put(opened)
    assert opened.is_there()
    shutil.rmtree(directory)
    assert not opened.is_there()
    assert got(opened) == b"value"
    put(opened, b"more", b"of it")
    assert got(opened, b"more") == b"of it"
    opened.release()
    assert not directory.exists()


def test_one_made_anew_at_the_same_place_is_another(opened, directory):
    put(opened)
    shutil.rmtree(directory)
    directory.mkdir(mode=0o700)
    other = create(directory, NAMES)
    assert other is not opened
    assert not opened.is_there()
    assert got(other) is None
    opened.release()
    assert mark(directory)["clean"] is False  # the old one's closing did not touch the new one's mark
    put(other)
    other.release()
    assert mark(directory)["clean"] is True


def test_who_closes_or_removes_is_waited_for_until_the_deadline(opened, directory):
    put(opened)
    opened.release()
    remover = InodeLock(directory / "data.mdb")
    assert remover.try_acquire()
    with pytest.raises(ProjectionStale):
        attach(directory, NAMES, time.monotonic() + 0.02)
    threading.Timer(0.05, remover.release).start()
    again = attach(directory, NAMES, time.monotonic() + 30)
    assert not remover.try_acquire()
    again.release()
    remover.close()


def test_one_that_was_given_up_is_not_marked_clean(opened, directory):
    put(opened)
    opened.give_up()
    opened.release()
    assert mark(directory)["clean"] is False


def test_one_that_is_deleted_while_it_is_opened_is_removed_and_no_fault_of_the_disk(opened, directory, monkeypatch):
    opened.release()
    real = lmdb.open

    def deleted_just_now(*told, **more):
        shutil.rmtree(directory)
        return real(*told, **more)

    monkeypatch.setattr(lmdb, "open", deleted_just_now)
    with pytest.raises(Unusable, match="removed"):
        attach(directory, NAMES, None)
