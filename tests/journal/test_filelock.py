"""Locks on files."""

from __future__ import annotations

import fcntl
import os
import time

import pytest

from journal import filelock
from journal.filelock import FileLock
from tests.journal.peers import Peer

HOLDER = """
from pathlib import Path
from journal.filelock import FileLock
lock = FileLock(Path(sys.argv[1]))
say(lock.try_acquire(shared="shared" in sys.argv))
hear()
"""


@pytest.fixture(params=["ofd", "flock"])
def path(request, tmp_path, monkeypatch):
    """A lock file, once with each of the two ways to lock."""
    if request.param == "flock":
        monkeypatch.setattr(filelock, "_OFD_SETLK", None)
    return tmp_path / "a.lock"


def test_two_handles_of_one_process_exclude_each_other(path):
    one, two = FileLock(path), FileLock(path)
    assert one.try_acquire()
    assert not two.try_acquire()
    assert not two.try_acquire(shared=True)
    one.release()
    assert two.try_acquire()
    one.close()
    two.close()


def test_readers_share(path):
    one, two, three = (FileLock(path) for _ in range(3))
    assert one.try_acquire(shared=True)
    assert two.try_acquire(shared=True)
    assert not three.try_acquire()
    for lock in (one, two, three):
        lock.close()


def test_closing_any_other_handle_keeps_the_lock(path):
    """The trap of POSIX record locks: there, closing one handle would release the locks of all."""
    one, two = FileLock(path), FileLock(path)
    assert one.try_acquire()
    two.close()
    os.close(os.open(path, os.O_RDONLY))
    three = FileLock(path)
    assert not three.try_acquire()
    one.close()
    assert three.try_acquire()
    three.close()


def test_a_deadline_is_kept(path):
    one, two = FileLock(path), FileLock(path)
    assert one.acquire(None)
    started = time.monotonic()
    assert not two.acquire(started + 0.05)
    assert time.monotonic() >= started + 0.05
    assert not two.acquire(started - 1)
    one.close()
    assert two.acquire(started - 1), "a free lock is had, however late it is"
    two.close()


def test_the_kernel_releases_a_dead_processs_lock(tmp_path):
    path = tmp_path / "a.lock"
    with Peer(HOLDER, path) as holder:
        assert holder.hear() == "True"
        lock = FileLock(path)
        assert not lock.try_acquire()
        holder.kill()
        assert lock.acquire(time.monotonic() + 30)
        lock.close()


def test_closing_twice_closes_nobody_elses_file(path):
    lock = FileLock(path)
    number = lock.fileno()
    lock.close()
    stranger = os.open(path, os.O_RDWR)
    assert stranger == number
    lock.close()
    os.fstat(stranger)
    os.close(stranger)
    assert lock.fileno() == -1


def test_a_lock_file_is_private_and_not_inherited(path):
    with FileLock(path) as lock:
        assert path.stat().st_mode & 0o777 == 0o600
        assert fcntl.fcntl(lock.fileno(), fcntl.F_GETFD) & fcntl.FD_CLOEXEC
        other = FileLock(path)
        assert not other.try_acquire()
    assert other.try_acquire()
    other.close()


def test_a_handle_that_must_not_create(path):
    with pytest.raises(FileNotFoundError):
        FileLock(path, create=False)
    assert not path.exists()


def test_a_forked_child_lets_go_of_what_it_inherits(tmp_path):
    path = tmp_path / "a.lock"
    code = HOLDER.replace("hear()", "import os\nif os.fork() == 0:\n    say('child')\nhear()\nhear()")
    with Peer(code, path) as holder:
        assert {holder.hear(), holder.hear()} == {"True", "child"}
        holder.process.kill()
        lock = FileLock(path)
        assert lock.acquire(time.monotonic() + 30)
        lock.close()
