"""engram doctor as a whole: quiet on a healthy store, and of use where little else works."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from journal import limits
from tests.tools.cli.desk import ROOT, Desk, command_line, environment, ready
from tests.tools.cli.examined import OF_THE_MACHINE, another, examined, files, judged
from tools.cli.checkup import child, storeplace
from tools.cli.checkup.finding import Severity, note, ok
from tools.cli.checkup.running import Check, run

SECRET = "Nobody but the two of them may read this."


@pytest.fixture
def full(directory, capsys):
    """A desk whose store has records and projections, and nothing that waits."""
    desk = ready(directory, capsys, "--policy", "accept-asserted")
    with desk.agent() as agent:
        agent.remember(SECRET)
        agent.forget(agent.remember("One that goes."))
        agent.search("two")
    return desk


def test_a_healthy_store(full):
    assert examined(full) == {}
    human = full.run("doctor")
    assert human.code == 0
    assert "fault" not in human.out
    assert "KEY_SLOTS" in human.out


def test_a_new_store(directory, capsys):
    assert examined(ready(directory, capsys)) == {}


def test_every_check_says_something(full):
    said = {each["code"] for each in full.run("doctor", "--json").json["checks"]}
    expected = {
        "HOST_FILE", "HOST_FILE_OWNED", "HOST_FILES_AGREE", "HOST_ALLOWS", "SCOPE_FILE", "ROOT_KEY", "STORE",
        "STORE_OWNED", "LOCKS", "PROCESSES", "CLEAN_ENDS", "JOURNAL_ENDS", "JOURNAL_MAP", "READERS", "CLOCK",
        "PENDING_ERASURE", "WAITING", "KEY_SLOTS", "PROJECTIONS", "PYTHON", "LIBRARIES", "LMDB_ENGINE", "CLIENTS",
    }  # fmt: skip
    assert expected <= said


def test_it_writes_nothing(full):
    before = files(full.place)
    full.run("doctor")
    assert files(full.place) == before


def test_it_says_nothing_of_content(full):
    ended = full.run("doctor", "--json")
    key = full.root_key.read_text(encoding="ascii").strip()
    for secret in (SECRET, "two of them", key):
        assert secret not in ended.out + ended.err


def test_beside_a_live_server(full):
    with another(full, "for n in range(50): agent.remember(f'Number {n}.')"):
        assert examined(full) == {}


def test_beside_a_process_that_writes_all_the_time(full):
    busy = (
        "import threading\n"
        "write = lambda: [agent.remember(f'Number {n}.') for n in range(9_999)]\n"
        "threading.Thread(target=write, daemon=True).start()"
    )
    with another(full, busy):
        assert set(examined(full)) <= {"CANDIDATES_WAIT"}  # one may stand between capture and admission


# --- where little works -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"[store]\n",
        b"\xff\xfe",
        b"[store\n",
        b"store = 1\n",
        b"[store]\npath = 3\n",
        b'[store]\npath = "a\\u0000b"\n',
    ],
)
def test_a_broken_host_file(full, broken):
    full.host_file.write_bytes(broken)
    found = examined(full)
    assert set(found) == {"HOST_FILE_REFUSED"}
    assert found["HOST_FILE_REFUSED"]["subject"] == str(full.host_file)


def test_a_broken_host_file_hides_no_broken_store(full):
    text = full.host_file.read_text(encoding="utf-8")
    full.host_file.write_text(f"{text}\n[stoer]\n", encoding="utf-8")
    full.root_key.chmod(0o644)
    (full.store / "journal" / "data.mdb").unlink()
    found = examined(full)
    assert set(found) == {"HOST_FILE_REFUSED", "ROOT_KEY_OPEN_TO_OTHERS", "STORE_INCOMPLETE"}
    assert "stoer" in found["HOST_FILE_REFUSED"]["detail"]


def test_without_a_host_file(bare_desk):
    found = judged(*_json(bare_desk.bare("doctor", "--json", "--config", str(bare_desk.host_file))))
    assert set(found) == {"HOST_FILE_MISSING"}
    assert "engram init" in found["HOST_FILE_MISSING"]["mend"]
    assert set(judged(*_json(bare_desk.bare("doctor", "--json")))) == {"HOST_FILE_MISSING"}


def _json(ended):
    return ended.code, ended.json


def _copied(full: Desk, place: Path) -> Path:
    """Copy a desk's files; return the copy's host file."""
    shutil.copytree(full.store, place / "store")
    shutil.copy(full.root_key, place / full.root_key.name)
    text = full.host_file.read_text(encoding="utf-8").replace(str(full.place), str(place))
    host_file = place / full.host_file.name
    host_file.write_text(text, encoding="utf-8")
    host_file.chmod(0o600)
    return host_file


def test_on_a_read_only_copy(full, directory):
    place = directory / "copy"
    place.mkdir()
    host_file = _copied(full, place)
    for path in [*place.rglob("*"), place]:
        path.chmod(path.stat().st_mode & ~0o222)
    before = files(place)
    try:
        done = _bound_by_permissions("doctor", "--json", "--config", str(host_file))
    finally:
        for path in [place, *place.rglob("*")]:
            path.chmod(path.stat().st_mode | 0o200)
    found = judged(done.returncode, json.loads(done.stdout))
    assert done.stderr == ""
    assert {"STORE_READ_ONLY", "PROJECTION_UNCLEAN"} == set(found)  # a copied projection is rebuilt
    assert found["STORE_READ_ONLY"]["severity"] == "note"
    assert {name: content for name, (content, _) in files(place).items()} == {
        name: content for name, (content, _) in before.items()
    }


def test_a_store_that_cannot_be_read(full, directory):
    place = directory / "copy"
    place.mkdir()
    host_file = _copied(full, place)
    (place / "store" / "journal" / "data.mdb").chmod(0)
    done = _bound_by_permissions("doctor", "--json", "--config", str(host_file))
    assert "STORE_UNREADABLE" in judged(done.returncode, json.loads(done.stdout))


def _bound_by_permissions(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command as a user whom permissions bind: root is bound by none, unless it gives that privilege up."""
    prefix: list[str] = []
    if os.getuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root is bound by no permission here")
        prefix = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
    command = [*prefix, *command_line(*words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment())


def test_wrong_use(full):
    ended = full.run("doctor", "surplus")
    assert (ended.code, ended.out) == (2, "")


def test_it_needs_no_install(full):
    done = full.process("doctor", "--json", cwd=ROOT)
    judged(done.code, done.json)


# --- each check has its own deadline and failure ----------------------------------------------------


def test_a_check_that_fails_stops_no_other(full, monkeypatch):
    def fails(*_):
        yield note("ONE", "subject", "found before", "mend it")
        raise ValueError(SECRET)

    monkeypatch.setattr(storeplace, "room", fails)
    found = examined(full)
    assert set(found) == {"ONE", "CHECK_FAILED"}
    assert "DISK" in found["CHECK_FAILED"]["detail"]
    assert SECRET not in str(found)


def _sleeps():
    time.sleep(30)
    return []


def test_a_check_that_hangs_stops_no_other():
    began = time.monotonic()
    found = run(Check("SLOW", "subject", "", _sleeps, 0.05))
    assert [each.code for each in found] == ["CHECK_TIMED_OUT"]
    assert time.monotonic() - began < 25
    assert run(Check("FINE", "subject", "all is well", list)) == [ok("FINE", "subject", "all is well")]


@pytest.mark.parametrize(
    ("script", "code", "severity"),
    [
        ("kill -BUS $$", "STORE_DAMAGED", "fault"),
        ('echo \'{"begins": "CLOCK", "subject": "a clock"}\'; echo \'{"cut\'', "STORE_DAMAGED", "fault"),
        ("sleep 60", "CHECK_TIMED_OUT", "warning"),
    ],
)
def test_a_look_inside_that_does_not_come_back(full, monkeypatch, directory, script, code, severity):
    program = directory / "program"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o700)
    monkeypatch.setattr(limits, "CHECK_STORE_DEADLINE_SECONDS", 0.5 if "sleep" in script else 30)
    monkeypatch.setattr(sys, "executable", str(program))
    found = list(child.look_inside(full.store))
    assert [(each.code, each.severity.value) for each in found] == [(code, severity)]
    assert "begins" not in script or found[0].subject == "a clock"


def test_a_damaged_map_ends_no_doctor(full):
    data = full.store / "journal" / "data.mdb"
    content = bytearray(data.read_bytes())
    for at in range(2 * 4096, len(content), 512):  # behind the meta pages
        content[at : at + 64] = bytes(64)
    data.write_bytes(content)
    found = examined(full)
    assert {"JOURNAL_BROKEN", "STORE_DAMAGED", "CHECK_FAILED"} & set(found), found


# --- what it is told by -----------------------------------------------------------------------------


def test_the_worst_stands_first(full):
    full.root_key.chmod(0o640)
    ended = full.run("doctor")
    assert ended.code == 1
    lines = ended.out.splitlines()
    assert lines[0].startswith("fault    ROOT_KEY_OPEN_TO_OTHERS")
    assert lines[1].strip() == f"mend: run chmod 600 {full.root_key}"
    assert "1 fault" in lines[-1]


def test_severities_grow():
    assert sorted(Severity, key=lambda each: each.rank) == [
        Severity.OK,
        Severity.NOTE,
        Severity.WARNING,
        Severity.FAULT,
    ]


def test_core_dumps_and_umask(full):
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    if hard == 0:
        pytest.skip("this machine allows no core dumps at all")
    mask = os.umask(0o002)
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
        said = {each["code"]: each for each in full.run("doctor", "--json").json["checks"]}
        assert {"CORE_DUMPS_ENABLED", "UMASK_OPEN"} <= set(said) & OF_THE_MACHINE
        resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
        os.umask(0o022)
        said = {each["code"]: each for each in full.run("doctor", "--json").json["checks"]}
        assert not {"CORE_DUMPS_ENABLED", "UMASK_OPEN"} & set(said)
    finally:
        os.umask(mask)
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))
