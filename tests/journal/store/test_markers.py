"""Who has the store open, and how the ones before ended."""

from __future__ import annotations

import os
import threading
import time

import pytest

from journal import limits
from journal.errors import StoreUnavailable
from journal.filelock import FileLock
from journal.store.lmdb import markers as module
from journal.store.lmdb.markers import DIRECTORY, LOCK, End, Markers, boot_id
from tests.journal.peers import Peer

OPENED = """
from pathlib import Path
from journal.store.lmdb.markers import Markers
markers = Markers(Path(sys.argv[1]))
with markers.opening() as end:
    say(end.name)
    markers.place()
say("open")
hear()
"""


def marks(directory):
    return sorted((directory / DIRECTORY).iterdir())


def opened(directory):
    """Open and return (how the others ended, the marks object)."""
    mine = Markers(directory)
    with mine.opening() as end:
        mine.place()
    return end, mine


@pytest.fixture
def peer(tmp_path):
    with Peer(OPENED, tmp_path) as peer:
        assert peer.hear() == "CLEAN"
        assert peer.hear() == "open"
        yield peer


def test_a_clean_end_leaves_nothing(tmp_path):
    end, mine = opened(tmp_path)
    assert end is End.CLEAN
    (mark,) = marks(tmp_path)
    assert mark.read_text() == boot_id() + "\n"
    assert mark.stat().st_mode & 0o777 == 0o600
    mine.remove()
    assert marks(tmp_path) == []
    assert opened(tmp_path)[0] is End.CLEAN


def test_who_is_alive_is_let_alone(tmp_path, peer):
    end, mine = opened(tmp_path)
    assert end is End.CLEAN
    assert len(marks(tmp_path)) == 2
    mine.remove()
    assert len(marks(tmp_path)) == 1


def test_a_killed_process_is_noticed_once(tmp_path, peer):
    peer.kill()
    end, mine = opened(tmp_path)
    assert end is End.KILLED
    assert len(marks(tmp_path)) == 1
    mine.remove()
    assert opened(tmp_path)[0] is End.CLEAN


def test_a_mark_of_another_boot_is_a_crash(tmp_path, peer):
    peer.kill()
    marks(tmp_path)[0].write_text("00000000-0000-0000-0000-000000000000\n")
    assert Markers(tmp_path).crashed()
    end, mine = opened(tmp_path)
    assert end is End.CRASHED
    mine.remove()
    assert not Markers(tmp_path).crashed()


@pytest.mark.parametrize("text", [b"", b"\xff\xfe", b"distrusted\n"])
def test_a_mark_that_says_nothing_sure_is_a_crash(tmp_path, peer, text):
    peer.kill()
    marks(tmp_path)[0].write_bytes(text)
    assert Markers(tmp_path).crashed()
    assert opened(tmp_path)[0] is End.CRASHED


def test_where_the_system_names_no_boot_every_unclean_end_is_a_crash(tmp_path, peer, monkeypatch):
    peer.kill()
    monkeypatch.setattr(module, "boot_id", lambda: "")
    assert opened(tmp_path)[0] is End.CRASHED


def test_the_worst_end_counts(tmp_path, peer):
    peer.kill()
    (tmp_path / DIRECTORY / "0").write_text("another boot\n")
    assert opened(tmp_path)[0] is End.CRASHED
    assert len(marks(tmp_path)) == 1


def _refuse(end):
    assert end is End.KILLED
    raise StoreUnavailable


def test_an_opening_that_fails_leaves_the_marks_for_the_next_one(tmp_path, peer):
    peer.kill()
    with pytest.raises(StoreUnavailable), Markers(tmp_path).opening() as end:
        _refuse(end)
    assert opened(tmp_path)[0] is End.KILLED


def test_a_mark_of_distrust_outlives_a_clean_close(tmp_path):
    _, mine = opened(tmp_path)
    mine.distrust()
    mine.remove()
    assert opened(tmp_path)[0] is End.CRASHED


def test_one_at_a_time_opens(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "OPENING_WAIT_SECONDS", 0.05)
    lock = FileLock(tmp_path / LOCK)
    assert lock.try_acquire()
    with pytest.raises(StoreUnavailable):
        opened(tmp_path)
    lock.close()
    opened(tmp_path)


def test_openers_wait_for_each_other(tmp_path):
    inside, most = [0], [0]
    mutex = threading.Lock()

    def work():
        mine = Markers(tmp_path)
        with mine.opening():
            with mutex:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
            time.sleep(0.01)
            mine.place()
            with mutex:
                inside[0] -= 1
        mine.remove()

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]
    assert marks(tmp_path) == []


def test_a_mark_removed_while_it_is_looked_at_is_no_death(tmp_path):
    """Between the listing and the locking its process may close cleanly."""
    _, mine = opened(tmp_path)
    (path,) = marks(tmp_path)
    held = os.open(path, os.O_RDWR)
    mine.remove()
    assert not module._is_dead(path)
    assert module._boot_of(path) == boot_id()
    os.close(held)


def test_a_forked_child_does_not_keep_the_mark_alive(tmp_path):
    code = OPENED.replace(
        'say("open")',
        'import os, time\nif os.fork() == 0:\n    say("child")\n    hear()\n    raise SystemExit(0)\nsay("open")',
    )
    with Peer(code, tmp_path) as peer:
        assert peer.hear() == "CLEAN"
        assert {peer.hear(), peer.hear()} == {"child", "open"}
        peer.kill()  # the child lives on
        assert opened(tmp_path)[0] is End.KILLED


def test_looking_without_writing(tmp_path):
    assert not Markers(tmp_path).crashed()
    assert list(tmp_path.iterdir()) == []
