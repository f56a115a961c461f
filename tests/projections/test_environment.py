"""A generation's environment: once an inode a process, one writer among all, trusted only as far as its mark goes."""

from __future__ import annotations

import json
import os
import shutil
import stat
import threading
import time

import lmdb
import pytest

from journal.errors import ProjectionStale, StoreUnavailable
from journal.store.lmdb.filesystem import check_length
from projections import environment, marks
from projections.environment import Unusable, attach, create
from projections.locks import InodeLock
from tests.projections.processes import Process

NAMES = (b"meta", b"table")

OTHER = """
from pathlib import Path
from projections.environment import attach
env = attach(Path(sys.argv[1]), (b"meta", b"table"), None)
say("open")
while (word := wait()) != "close":
    if word == "claim":
        say(env.claim(0.0))
    elif word == "unclaim":
        env.unclaim(); say("done")
    elif word == "put":
        with env.writing() as txn:
            txn.put(b"key", b"value", db=env.tables[b"table"])
        say("done")
env.release()
say("closed")
"""


@pytest.fixture
def directory(tmp_path):
    path = tmp_path / "generation"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def opened(directory):
    made = create(directory, NAMES)
    yield made
    while made.users > 0:
        made.release()


def put(opened, key=b"key", value=b"value"):
    assert opened.claim(0.0)
    try:
        with opened.writing() as txn:
            txn.put(key, value, db=opened.tables[b"table"])
    finally:
        opened.unclaim()


def got(opened, key=b"key"):
    with opened.reading() as txn:
        value = txn.get(key, db=opened.tables[b"table"])
        return None if value is None else bytes(value)


def mark(directory):
    return json.loads((directory / marks.NAME).read_text())


def rewrite_mark(directory, **changes):
    (directory / marks.NAME).write_text(json.dumps({**mark(directory), **changes}))


def test_it_is_private_to_its_owner(opened, directory):
    put(opened)
    for name in ("data.mdb", "lock.mdb", marks.NAME):
        assert stat.S_IMODE((directory / name).stat().st_mode) == 0o600


def test_a_process_opens_a_file_once(opened, directory, tmp_path):
    (tmp_path / "link").symlink_to(directory)
    assert attach(directory, NAMES, None) is opened
    assert attach(tmp_path / "link", NAMES, None) is opened
    assert opened.users == 3
    opened.release()
    opened.release()
    put(opened)
    assert got(opened) == b"value"


def test_it_is_closed_when_the_last_user_is_gone(opened, directory):
    opened.retain()
    opened.release()
    put(opened)
    opened.release()
    again = attach(directory, NAMES, None)
    assert again is not opened
    assert got(again) == b"value"
    again.release()


def test_a_body_that_raises_writes_nothing(opened):
    assert opened.claim(0.0)
    with pytest.raises(ZeroDivisionError), opened.writing() as txn:
        txn.put(b"key", b"value", db=opened.tables[b"table"])
        raise ZeroDivisionError
    opened.unclaim()
    assert got(opened) is None


# --- one writer ----------------------------------------------------------------------------------


def test_one_thread_writes_at_a_time(opened):
    assert opened.claim(None)
    had = []
    thread = threading.Thread(target=lambda: had.append(opened.claim(time.monotonic() + 0.02)))
    thread.start()
    thread.join()
    assert had == [False]
    opened.unclaim()
    assert opened.claim(0.0)
    opened.unclaim()


def test_one_process_writes_at_a_time(opened, directory):
    with Process(OTHER, directory) as other:
        assert other.hear() == "open"
        other.tell("claim")
        assert other.hear() == "True"
        assert not opened.claim(0.0)
        assert not opened.claim(time.monotonic() + 0.02)
        other.tell("unclaim")
        assert other.hear() == "done"
        assert opened.claim(None)
        other.tell("claim")
        assert other.hear() == "False"
        opened.unclaim()


def test_a_killed_writer_leaves_the_claim(opened, directory):
    with Process(OTHER, directory) as other:
        assert other.hear() == "open"
        other.tell("claim")
        assert other.hear() == "True"
        other.tell("put")
        assert other.hear() == "done"
        other.kill()
    assert opened.claim(0.0)
    opened.unclaim()
    assert got(opened) == b"value"


# --- trust ---------------------------------------------------------------------------------------


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
    assert mark(directory) == {**mark(directory), "clean": False, "boot": marks.boot_id()}
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
    assert opened.claim(0.0)
    for _ in range(20):
        with opened.writing() as txn:
            for number in range(50):
                txn.put(b"%d" % number, os.urandom(9_000), db=opened.tables[b"table"])
            for number in range(50):
                txn.delete(b"%d" % number, db=opened.tables[b"table"])
        check_length(directory / "data.mdb")
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


# --- forks and readers ----------------------------------------------------------------------------


def test_a_forked_child_is_told_to_open_its_own_process(opened, directory):
    put(opened)
    ours, theirs = os.pipe()
    with opened.reading() as txn:
        pid = os.fork()
        if pid == 0:
            try:
                refused = 0
                for use in (
                    opened.reading().__enter__,
                    lambda: opened.claim(0.0),
                    lambda: attach(directory, NAMES, None),
                ):
                    try:
                        use()
                    except StoreUnavailable:
                        refused += 1
                opened.release()  # leaves the parent's alone
                os.write(theirs, b"%d" % refused)
            finally:
                os._exit(0)
        os.close(theirs)
        assert os.read(ours, 100) == b"3"
        os.close(ours)
        os.waitpid(pid, 0)
        assert str(os.getpid()) in opened._env.readers()  # the parent's reader still counts
        assert bytes(txn.get(b"key", db=opened.tables[b"table"])) == b"value"
    put(opened, b"after")
    assert got(opened, b"after") == b"value"


def test_a_childs_copies_of_the_handles_keep_no_lock(opened, directory):
    put(opened)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(writing)
        os.read(reading, 1)  # lives until the parent lets it go
        os._exit(0)
    os.close(reading)
    try:
        opened.release()
        lock = InodeLock(directory / "data.mdb")
        assert lock.acquire(time.monotonic() + 10)
        lock.close()
    finally:
        os.close(writing)
        os.waitpid(pid, 0)


def test_readers_of_dead_processes_are_cleared(opened, directory, monkeypatch):
    code = """
    import os
    from pathlib import Path
    from projections.environment import attach
    env = attach(Path(sys.argv[1]), (b"meta", b"table"), None)
    with env.reading():
        say("reading")
        wait()
    """
    for _ in range(2):
        with Process(code, directory) as other:
            assert other.hear() == "reading"
            other.kill()
    monkeypatch.setattr(opened, "_next_reader_check", 0.0)
    with opened.reading():
        assert opened._env.reader_check() == 0


def test_a_larger_map_of_another_process_is_taken_over(opened, directory):
    code = """
    from pathlib import Path
    from journal import limits
    limits.PROJECTION_MAP_SIZE_BYTES *= 2
    from projections.environment import attach
    env = attach(Path(sys.argv[1]), (b"meta", b"table"), None)
    env.claim(None)
    with env.writing() as txn:
        txn.put(b"key", b"value", db=env.tables[b"table"])
    say(env._env.info()["map_size"])
    """
    with Process(code, directory) as other:
        size = int(other.hear())
        assert size > opened._env.info()["map_size"]
        opened._take_map_size()
        assert opened._env.info()["map_size"] == size
    assert got(opened) == b"value"


def test_a_full_map_is_an_unavailable_store_and_writes_nothing(directory, monkeypatch):
    monkeypatch.setattr(environment.limits, "PROJECTION_MAP_SIZE_BYTES", 64 * 1024)
    small = create(directory, NAMES)
    assert small.claim(0.0)
    with pytest.raises(StoreUnavailable), small.writing() as txn:
        for number in range(1000):
            txn.put(b"%d" % number, bytes(1000), db=small.tables[b"table"])
    small.unclaim()
    assert got(small, b"0") is None
    small.release()


def test_broken_content_is_told_from_other_errors():
    assert environment.is_broken(lmdb.CorruptedError("x"))
    assert environment.is_broken(lmdb.PageNotFoundError("x"))
    assert not environment.is_broken(lmdb.MapFullError("x"))
    assert not environment.is_broken(ValueError())
