"""engram doctor on the store's side: its place, other processes, and what stands in it; each broken as it breaks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager

import lmdb
import msgspec
import pytest

from journal import layout
from journal.errors import StoreUnavailable
from journal.events import Actor, Draft, EventType
from journal.log import Journal
from journal.rootkey import load_root_key
from journal.scope import Scope
from journal.store.lmdb import filesystem, tables
from journal.testing import ManualClock
from projections.generation import META, Meta
from tests.tools.cli.desk import environment, ready
from tests.tools.cli.examined import another, examined, stop
from tests.tools.memory.world import Caller, forgetting
from tools.cli.checkup import storeplace
from tools.host.binding import bind
from tools.host.capabilities import FORGET
from tools.host.file import load_host_file
from tools.memory import erasure
from tools.memory.engine import Engine

SCOPE = Scope.of("default", "default")
DAY = 86_400_000


@pytest.fixture
def desk(directory, capsys):
    """A desk with two records and projections; nothing waits."""
    desk = ready(directory, capsys, "--policy", "accept-asserted")
    with desk.agent() as agent:
        agent.remember("One.")
        agent.remember("Two.")
        agent.search("one")
    return desk


def severities(found):
    return {code: each["severity"] for code, each in found.items()}


# --- the place --------------------------------------------------------------------------------------


def test_a_store_that_is_not_there(desk):
    desk.store.rename(desk.place / "elsewhere")
    assert severities(examined(desk)) == {"STORE_MISSING": "fault"}


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
    assert found.pop("STORE_INCOMPLETE")["severity"] == "fault"
    assert set(found) == ({"KEYS_MISSING"} if part == "keys" else set())


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
    subprocess.run(found["STORE_OPEN_TO_OTHERS"]["mend"].removeprefix("run "), shell=True, check=True)  # noqa: S602
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


@pytest.mark.parametrize("name", ["journal/writer.lock", "journal/turn.lock", "journal/opening.lock", "keys/*.lock"])
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


# --- the journal ------------------------------------------------------------------------------------


@pytest.mark.parametrize("spoil", ["cut", "empty", "noise", "meta"])
def test_a_journal_that_is_broken(desk, spoil):
    data = desk.store / "journal" / "data.mdb"
    content = data.read_bytes()
    data.write_bytes(
        {
            "cut": content[: len(content) // 2],
            "empty": b"",
            "noise": b"no store" * 4096,
            "meta": bytes(8192) + content[8192:],
        }[spoil]
    )
    assert severities(examined(desk)) == {"JOURNAL_BROKEN": "fault"}


def _change(desk, table, change):
    env = lmdb.open(str(desk.store / "journal"), max_dbs=32, lib_version=0)
    handle = env.open_db(table, create=False)
    with env.begin(write=True) as txn:
        with txn.cursor(handle) as cursor:
            rows = [(key, value) for key, value in cursor]
        change(txn, handle, rows)
    env.close()


@pytest.mark.parametrize("spoil", ["missing", "changed"])
def test_a_last_event_that_is_broken(desk, spoil):
    def change(txn, table, rows):
        key, value = rows[-1]
        if spoil == "missing":
            txn.delete(key, db=table)
        else:
            txn.put(key, value[:-1] + bytes([value[-1] ^ 1]), db=table)

    _change(desk, tables.EVENTS, change)
    found = examined(desk)
    assert found["JOURNAL_BROKEN"]["severity"] == "fault"
    assert "engram audit" in found["JOURNAL_BROKEN"]["mend"]


def test_a_map_that_fills(desk, monkeypatch):
    used = (desk.store / "journal" / "data.mdb").stat().st_size
    monkeypatch.setattr(tables, "MAP_SIZE_BYTES", used * 10 // 9)
    assert severities(examined(desk)) == {"MAP_NEARLY_FULL": "warning"}
    monkeypatch.setattr(tables, "MAP_SIZE_BYTES", used // 2)
    assert severities(examined(desk)) == {"MAP_FULL": "fault"}
    monkeypatch.setattr(tables, "MAP_SIZE_BYTES", used * 2)
    assert examined(desk) == {}


def test_readers(desk):
    env = lmdb.open(
        str(desk.store / "journal"), max_dbs=32, max_readers=510, map_size=1 << 30, lib_version=0, sync=False
    )
    store = env.open_db(tables.STORE, create=False)
    readers = [env.begin() for _ in range(420)]
    assert severities(examined(desk)) == {"READERS_NEARLY_FULL": "warning"}
    for reader in readers[1:]:
        reader.abort()
    for number in range(1_010):
        with env.begin(write=True, db=store) as txn:
            txn.put(b"tests", str(number).encode())
    found = examined(desk)
    assert found["READER_HELD"]["subject"] == f"process {os.getpid()}"
    readers[0].abort()
    env.close()
    assert examined(desk) == {}


@pytest.mark.parametrize(
    ("days", "expected"),
    [(1 / 24, {"CLOCK_BEHIND": "warning"}), (3, {"CLOCK_BEHIND": "fault"}), (-500, {"CLOCK_AHEAD": "note"}), (-30, {})],
)
def test_a_clock_that_is_wrong(directory, capsys, days, expected):
    desk = ready(directory, capsys, "--policy", "accept-asserted")
    clock = ManualClock(time.time_ns() // 1_000_000 + round(days * DAY))
    with _journal(desk, clock) as journal:
        journal.commit(SCOPE, lambda _: [_invalidation(journal)])
    assert severities(examined(desk)) == expected


@contextmanager
def _journal(desk, clock=None):
    root_key = load_root_key(load_host_file(desk.host_file).root_key)
    journal = Journal.open(desk.store, root_key, clock=clock)
    try:
        yield journal
    finally:
        journal.close()


def _invalidation(journal):
    event_id = journal.random_event_id(SCOPE)
    return Draft(
        type=EventType.PROJECTION_INVALIDATED, event_id=event_id, actor=Actor("operator:tests"), related="none"
    )


# --- what is pending --------------------------------------------------------------------------------


def test_what_waits_for_a_person(desk):
    with desk.agent() as agent:
        agent.capture("One that waits.")
        agent.code(FORGET, forgetting(agent.remember("One more.")))
    found = examined(desk)
    assert severities(found) == {"CANDIDATES_WAIT": "note", "REQUESTS_WAIT": "note"}
    assert "engram confirm list" in found["REQUESTS_WAIT"]["mend"]


def test_a_destruction_that_is_left(desk, monkeypatch):
    with desk.agent() as agent:
        candidate = agent.capture("One that goes.")
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "finish_destructions", lambda *_: False)
        desk.ok("candidates", "reject", candidate)
    assert severities(examined(desk)) == {"DESTRUCTIONS_PENDING": "warning"}
    desk.captured("Whoever writes next finishes it.")
    assert set(examined(desk)) == {"CANDIDATES_WAIT"}


def test_an_erasure_that_somebody_holds_up(desk, monkeypatch):
    with another(desk, "agent.search('one')") as process:
        stop(process)
        monkeypatch.setattr(erasure.limits, "ERASURE_INLINE_SECONDS", 0.2)
        with desk.agent() as agent:
            agent.forget(agent.remember("One that goes."))
        found = examined(desk)
        assert found["ERASURES_PENDING"]["severity"] == "note"  # it may yet be finished in time
        assert f"process {process.pid} (stopped)" in found["ERASURES_PENDING"]["detail"]
        assert str(process.pid) in found["GENERATION_LEFT_OVER"]["detail"]


def test_an_erasure_that_does_not_end(directory, capsys, monkeypatch):
    desk = ready(directory, capsys, "--policy", "accept-asserted")
    monkeypatch.setattr(erasure, "compact", _never)
    host_file = load_host_file(desk.host_file)
    clock = ManualClock(time.time_ns() // 1_000_000 - 120_000)
    with _journal(desk, clock) as journal:
        engine = Engine(journal, bind(host_file))
        agent = Caller(engine)
        agent.forget(agent.remember("One that goes."))
        for projections in engine._projections.values():
            projections.close()
    assert severities(examined(desk)) == {"ERASURES_PENDING": "warning"}


def _never(*_, **__):
    raise StoreUnavailable("tests")


# --- key slots --------------------------------------------------------------------------------------


def test_lost_slots(desk):
    (slots,) = (desk.store / "keys").glob("*.slots")
    with slots.open("r+b") as file:
        file.seek(512)
        file.write(bytes(128))
    found = examined(desk)
    assert severities(found) == {"KEY_SLOTS_MISSING": "fault"}
    assert found["KEY_SLOTS_MISSING"]["detail"].startswith("1 of 2 ")


@pytest.mark.parametrize(
    ("pattern", "content", "codes"),
    [
        ("*.slots", None, {"KEYS_MISSING"}),
        ("*.keyring", None, {"KEYS_MISSING"}),
        ("*.slots", b"short", {"KEYRING_BROKEN"}),
        ("*.keyring", b"\x93", {"KEYRING_BROKEN"}),
    ],
)
def test_key_files_that_are_gone_or_broken(desk, pattern, content, codes):
    (path,) = (desk.store / "keys").glob(pattern)
    path.unlink() if content is None else path.write_bytes(content)
    assert set(examined(desk)) == codes


def test_an_older_slot_file(desk, directory):
    shutil.copytree(desk.store / "keys", directory / "keys")
    with desk.agent() as agent:
        agent.forget(agent.remember("One that goes."))
    shutil.rmtree(desk.store / "keys")
    shutil.copytree(directory / "keys", desk.store / "keys")
    found = examined(desk)
    assert severities(found) == {"SLOT_FILE_OLD": "warning"}
    desk.captured("The next one that writes destroys it again.")
    assert set(examined(desk)) == {"CANDIDATES_WAIT"}


def test_rotated_keys(desk):
    desk.ok("keys", "rotate")
    assert examined(desk) == {}


# --- projections ------------------------------------------------------------------------------------


def _generation(desk, name="current"):
    (path,) = (desk.store / "projections").glob(f"*/{name}/0*")
    return path


def test_deleted_projections(desk):
    shutil.rmtree(desk.store / "projections")
    assert examined(desk) == {}


def test_one_taken_out_of_force(desk):
    current = _generation(desk).parent / "CURRENT"
    current.write_text("00000001 out of force\n", encoding="ascii")
    assert severities(examined(desk)) == {"PROJECTION_OUT_OF_FORCE": "note"}


@pytest.mark.parametrize(
    "spoil", [lambda data: data.write_bytes(data.read_bytes()[:9_000]), lambda data: data.unlink()]
)
def test_a_broken_generation(desk, spoil):
    spoil(_generation(desk, "lexical") / "data.mdb")
    found = examined(desk)
    assert severities(found) == {"PROJECTION_BROKEN": "warning"}
    assert "engram projections rebuild lexical" in found["PROJECTION_BROKEN"]["mend"]
    desk.ok("projections", "rebuild", "lexical")
    assert examined(desk) == {}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"version": 0}, {"PROJECTION_OLD": "note"}),
        ({"format": 99}, {"PROJECTION_NEWER": "warning"}),
        ({"version": 99}, {"PROJECTION_NEWER": "warning"}),
        ({"head_hash": bytes(32)}, {"PROJECTION_FOREIGN": "warning"}),
        ({"cursor": 999}, {"PROJECTION_FOREIGN": "warning"}),
        ({"name": "lexical"}, {"PROJECTION_FOREIGN": "warning"}),
    ],
)
def test_a_generation_of_another_kind(desk, changes, expected):
    env = lmdb.open(str(_generation(desk)), max_dbs=32, lib_version=0)
    table = env.open_db(META, create=False)
    with env.begin(write=True, db=table) as txn:
        meta = msgspec.msgpack.decode(txn.get(b"meta"), type=Meta)
        txn.put(b"meta", msgspec.msgpack.encode(msgspec.structs.replace(meta, **changes)))
    env.close()
    assert severities(examined(desk)) == expected


def test_one_that_was_not_closed_before_the_machine_went_down(desk):
    mark = _generation(desk) / "MARK"
    stated = msgspec.json.decode(mark.read_bytes())
    mark.write_bytes(msgspec.json.encode({**stated, "boot": "another", "clean": False}))
    assert severities(examined(desk)) == {"PROJECTION_UNCLEAN": "note"}


def test_one_far_behind(desk):
    with _journal(desk) as journal:
        drafts = [_invalidation(journal) for _ in range(8_200)]
        journal.commit(SCOPE, lambda _: drafts)
    found = examined(desk)
    assert severities(found) == {"PROJECTION_BEHIND": "note"}
    assert "8200 events" in found["PROJECTION_BEHIND"]["detail"]


def test_generations_left_over(desk):
    generation = _generation(desk)
    shutil.copytree(generation, generation.with_name("00000000"))
    shutil.copytree(generation, generation.with_name("00000009"))
    found = examined(desk)
    assert severities(found) == {"GENERATION_LEFT_OVER": "note", "GENERATION_HALF_BUILT": "note"}
