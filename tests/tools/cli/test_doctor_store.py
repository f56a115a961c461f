"""engram doctor on what stands in a store: journal, readers, clock, what is pending, key slots."""

from __future__ import annotations

import os
import shutil
import time

import lmdb
import pytest

from journal import limits
from journal.errors import StoreUnavailable
from journal.log import Journal
from journal.store.lmdb import tables
from journal.testing import ManualClock
from tests.tools.cli.desk import ready
from tests.tools.cli.examined import SCOPE, another, examined, invalidation, opened_journal, severities, stop
from tests.tools.memory.world import Caller, forgetting
from tools.host.binding import bind
from tools.host.capabilities import FORGET
from tools.host.file import load_host_file
from tools.memory import erasure
from tools.memory.engine import Engine

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
    with opened_journal(desk, clock) as journal:
        journal.commit(SCOPE, lambda _: [invalidation(journal)])
    assert severities(examined(desk)) == expected


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
        monkeypatch.setattr(limits, "ERASURE_INLINE_SECONDS", 0.2)
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
    with opened_journal(desk, clock) as journal:
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
