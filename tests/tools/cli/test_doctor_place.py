"""engram doctor on a store's place, and on other processes that have it open."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest

from journal import layout
from journal.store.lmdb import filesystem
from tests.tools.cli.desk import environment, ready
from tests.tools.cli.examined import another, examined, severities, stop
from tools.cli.checkup import storeplace


@pytest.fixture
def desk(directory, capsys):
    """A desk with two records and projections; nothing waits."""
    desk = ready(directory, capsys, "--policy", "accept-asserted")
    with desk.agent() as agent:
        agent.remember("One.")
        agent.remember("Two.")
        agent.search("one")
    return desk


# --- the place --------------------------------------------------------------------------------------


def test_a_store_that_is_not_there(desk):
    desk.store.rename(desk.place / "elsewhere")
    assert severities(examined(desk)) == {"STORE_MISSING": "fault"}


def test_what_is_of_another_kind_than_it_must_be(desk):
    locked = desk.store / "journal" / "writer.lock"
    locked.unlink()
    locked.mkdir(mode=0o700)
    shutil.rmtree(desk.store / "projections")
    (desk.store / "projections").touch(mode=0o600)
    found = examined(desk)
    assert found["STORE_WRONG_KIND"]["severity"] == "fault"
    locked.rmdir()
    (desk.store / "projections").unlink()
    assert "STORE_WRONG_KIND" not in examined(desk)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("format = 2\n", "STORE_FROM_THE_FUTURE"),
        ("format = 0\n", "STORE_FOREIGN"),
        ("made_at = 1\n", "STORE_FOREIGN"),
        ("format", "STORE_UNREADABLE"),
        (None, "STORE_FOREIGN"),
    ],
)
def test_a_store_of_another_kind(desk, text, code):
    path = desk.store / layout.STORE_FILE
    if text is None:
        path.unlink()
    else:
        path.write_text(text, encoding="utf-8")
    assert severities(examined(desk)) == {code: "fault"}


@pytest.mark.parametrize("part", ["keys", "journal", "journal/data.mdb"])
def test_a_store_without_a_part(desk, part):
    path = desk.store / part
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    found = examined(desk)
    incomplete = found.pop("STORE_INCOMPLETE")
    assert incomplete["severity"] == "fault"
    assert ("KEYS_MISSING" in incomplete["detail"]) == (part == "keys")
    assert found == {}


@pytest.mark.parametrize("kind", ["btrfs", "zfs", "overlay"])
def test_a_copy_on_write_file_system(desk, monkeypatch, kind):
    monkeypatch.setattr(storeplace, "file_system", lambda path: kind)
    (found,) = storeplace.medium(desk.store)
    assert (found.code, found.severity.value) == ("FILE_SYSTEM_COPY_ON_WRITE", "note")
    assert kind in found.detail


def test_a_network_file_system(desk, monkeypatch):
    monkeypatch.setattr(filesystem, "file_system", lambda path: "nfs4")
    monkeypatch.setattr(storeplace, "file_system", lambda path: "nfs4")
    (found,) = storeplace.medium(desk.store)
    assert (found.code, found.severity.value) == ("FILE_SYSTEM_NETWORK", "fault")


@pytest.mark.parametrize(
    ("free_bytes", "codes"), [(1 << 20, ["DISK_FULL"]), (1 << 29, ["DISK_NEARLY_FULL"]), (1 << 40, [])]
)
def test_a_disk_that_fills(desk, monkeypatch, free_bytes, codes):
    class Free:
        f_bavail, f_frsize = free_bytes // 4096, 4096

    monkeypatch.setattr(os, "statvfs", lambda path: Free)
    assert [each.code for each in storeplace.room(desk.store)] == codes


def test_a_store_that_is_open_to_others(desk):
    for name in ("keys", "journal/data.mdb"):
        path = desk.store / name
        path.chmod(path.stat().st_mode | 0o044)
    found = examined(desk)
    assert severities(found) == {"STORE_OPEN_TO_OTHERS": "warning"}
    assert "1 more" in found["STORE_OPEN_TO_OTHERS"]["detail"]
    subprocess.run(found["STORE_OPEN_TO_OTHERS"]["mend"].removeprefix("run "), shell=True, check=True)  # noqa: S602 - as a person would run it
    assert examined(desk) == {}


def test_a_store_of_another_user(desk):
    if os.getuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(desk.store / "keys", 65_534, 65_534)
    assert severities(examined(desk)) == {"STORE_OF_ANOTHER_USER": "warning"}


# --- other processes --------------------------------------------------------------------------------


@contextmanager
def holding(desk, lock):
    """Yield a process that holds a lock and nothing else."""
    script = (
        "import sys\nfrom pathlib import Path\nfrom journal.filelock import FileLock\n"
        "lock = FileLock(Path(sys.argv[1]))\nassert lock.try_acquire()\nprint(flush=True)\nsys.stdin.readline()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    "name",
    [
        "journal/writer.lock",
        "journal/turn.lock",
        "journal/opening.lock",
        "keys/[0-9a-f]*.lock",
        "keys/root.lock",
    ],
)
def test_a_stopped_process_that_holds_a_lock(desk, name):
    (lock,) = desk.store.glob(name)
    with holding(desk, lock) as process:
        stop(process)
        found = examined(desk)
        assert severities(found) == {"LOCK_HELD_BY_STOPPED_PROCESS": "fault"}
        told = found["LOCK_HELD_BY_STOPPED_PROCESS"]
        assert told["subject"] == str(lock)
        assert f"process {process.pid} (stopped)" in told["detail"]
        assert f"kill -CONT {process.pid}" in told["mend"]
    assert examined(desk) == {}


def test_a_running_process_that_keeps_the_writer_lock(desk):
    with holding(desk, desk.store / "journal" / "writer.lock") as process:
        found = examined(desk)
        assert severities(found) == {"LOCK_HELD": "warning"}
        assert f"process {process.pid}" in found["LOCK_HELD"]["detail"]


def test_a_lock_that_is_never_seen_free_while_something_is_written(desk):
    data = desk.store / "journal" / "data.mdb"
    over = threading.Event()

    def write():
        while not over.wait(0.05):
            os.utime(data)

    writes = threading.Thread(target=write)
    with holding(desk, desk.store / "journal" / "writer.lock"):
        writes.start()
        try:
            assert examined(desk) == {}
        finally:
            over.set()
            writes.join()


def test_writers_that_hand_the_lock_on(desk):
    """So fast that it is hardly ever seen free; nobody keeps it all the same."""
    busy = (
        "import threading\n"
        "from journal.events import Actor, Draft, EventType\n"
        "def draft(view, kind=EventType.PROJECTION_INVALIDATED):\n"
        "    event_id = engine.journal.random_event_id(engine.binding.scope)\n"
        "    return [Draft(type=kind, event_id=event_id, actor=Actor('operator:tests'), related='none')]\n"
        "def write():\n"
        "    while True: engine.journal.commit(engine.binding.scope, draft)\n"
        "for _ in range(4): threading.Thread(target=write, daemon=True).start()"
    )
    with another(desk, busy), another(desk, busy):
        assert set(examined(desk)) <= {"PROJECTION_BEHIND"}


def test_a_stopped_server_in_the_middle_of_a_commit(desk):
    with another(desk, "assert engine.journal.store.acquire(None)") as process:
        stop(process)
        found = examined(desk)
        assert severities(found) == {"LOCK_HELD_BY_STOPPED_PROCESS": "fault", "PROCESS_STOPPED": "note"}
        assert str(process.pid) in found["PROCESS_STOPPED"]["subject"]


def test_a_killed_server(desk):
    with another(desk) as process:
        process.kill()
        process.wait()
    assert severities(examined(desk)) == {"UNCLEAN_END": "note"}
    desk.captured("The next one looks, and that is all.")
    assert set(examined(desk)) == {"CANDIDATES_WAIT"}


@pytest.mark.parametrize(("text", "code"), [("another-boot", "MACHINE_WENT_DOWN"), ("distrusted", "FLUSH_FAILED")])
def test_an_end_that_needs_a_look(desk, text, code):
    folder = desk.store / "journal" / "open"
    (folder / ("0" * 32)).write_text(f"{text}\n", encoding="ascii")
    (folder / ("0" * 32)).chmod(0o600)
    assert severities(examined(desk)) == {code: "warning"}
