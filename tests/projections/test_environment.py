"""A generation's environment: once an inode a process, one writer among all, never across a fork."""

from __future__ import annotations

import os
import stat
import threading
import time

import lmdb
import pytest

from journal.errors import ProjectionStale, StoreUnavailable
from projections import environment, marks
from projections.environment import attach, create
from projections.locks import InodeLock
from tests.projections.environments import NAMES, OTHER, got, put
from tests.projections.processes import Process


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


def test_what_readers_keep_goes_when_it_is_closed(opened, directory):
    kept = opened.kept
    kept["words"] = "word"
    opened.retain()
    opened.release()
    assert attach(directory, NAMES, None).kept is kept
    opened.release()
    opened.release()
    assert not kept
    again = attach(directory, NAMES, None)
    assert again.kept is not kept
    again.release()


def test_a_body_that_raises_writes_nothing(opened):
    assert opened.claim(0.0)

    def half_done():
        with opened.writing() as txn:
            txn.put(b"key", b"value", db=opened.tables[b"table"])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half_done()
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
    monkeypatch.setattr("journal.limits.PROJECTION_MAP_SIZE_BYTES", 64 * 1024)
    small = create(directory, NAMES)
    assert small.claim(0.0)

    def too_much():
        with small.writing() as txn:
            for number in range(1000):
                txn.put(b"%d" % number, bytes(1000), db=small.tables[b"table"])

    with pytest.raises(StoreUnavailable):
        too_much()
    small.unclaim()
    assert got(small, b"0") is None
    small.release()


def test_broken_content_is_told_from_other_errors():
    assert environment.is_broken(lmdb.CorruptedError("x"))
    assert environment.is_broken(lmdb.PageNotFoundError("x"))
    assert not environment.is_broken(lmdb.MapFullError("x"))
    assert not environment.is_broken(ValueError())


def test_one_that_another_process_keeps_holds_nobody_else(opened, directory, tmp_path):
    """A process that was stopped while it closes or removes one."""
    opened.release()
    (tmp_path / "other").mkdir()
    create(tmp_path / "other", NAMES).release()
    code = """
from pathlib import Path
from projections.locks import InodeLock
lock = InodeLock(Path(sys.argv[1]))
assert lock.try_acquire()
say("held")
wait()
"""
    found = []
    with Process(code, directory / "data.mdb") as keeper:
        assert keeper.hear() == "held"
        keeper.stop()
        with pytest.raises(ProjectionStale):
            attach(directory, NAMES, time.monotonic() + 0.05)
        waiting = threading.Thread(target=lambda: found.append(attach(directory, NAMES, time.monotonic() + 60)))
        waiting.start()
        for _ in range(3):
            time.sleep(0.02)
            attach(tmp_path / "other", NAMES, time.monotonic()).release()
        assert not found
        keeper.resume()
        keeper.tell()
    waiting.join()
    found[0].release()
