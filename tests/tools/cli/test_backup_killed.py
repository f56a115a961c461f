"""Backups and restores that are killed, by name and by chance, and beside others that write: whole, or not there."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

from journal import failpoints, layout
from journal.log import Journal
from journal.recipients import create_identity_file, load_identity
from replay import backup, keybackup
from replay.archive import opened as opened_archive
from replay.audit import audit_scope
from replay.known import Outside
from replay.restore import Plan, restore
from tests.journal.stores import ROOT, SCOPE, make, opened
from tests.tools.cli.desk import ROOT as PROJECT
from tests.tools.cli.desk import command_line, environment
from tools.host.place import state_directory

KILLED = -signal.SIGKILL


@pytest.fixture
def ready(open_desk, monkeypatch):
    """A desk with a record, its keys backed up, and a state folder of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(open_desk.place / "state"))
    with open_desk.agent() as agent:
        agent.remember("Words of copper.")
    recipient = open_desk.bare("keys", "recipient", str(open_desk.place / "identity")).out.strip()
    open_desk.ok("keys", "backup", str(open_desk.place / "keys"), "--to", recipient)
    return open_desk


def restoring(desk):
    keys, identity = str(desk.place / "keys"), str(desk.place / "identity")
    return "restore", str(desk.place / "backup"), "--keys", keys, "--identity", identity


def beside(desk):
    return sorted(path.name for path in desk.place.iterdir() if path.name != "state")


def test_every_name_of_a_backup_and_a_restore_is_struck():
    of_both = {name for name in failpoints.NAMES if name.startswith(("backup.", "restore."))}
    assert of_both == {*BACKUP, *RESTORE, "restore.named"}


BACKUP = ("backup.written", "backup.checked")
RESTORE = ("restore.loaded", "restore.erased")


@pytest.mark.parametrize("name", BACKUP)
def test_a_backup_that_is_killed_is_not_there(ready, name):
    file = str(ready.place / "backup")
    before = beside(ready)
    assert ready.process("backup", file, env={"ENGRAM_FAILPOINT": name}).code == KILLED
    left = set(beside(ready)) - set(before)
    assert len(left) == 1
    assert all(name.startswith(".backup.") for name in left)
    assert ready.process("backup", file).code == 0
    assert beside(ready) == sorted([*before, "backup"]), "the next one takes away what the dead one left"


@pytest.mark.parametrize("name", RESTORE)
def test_a_restore_that_is_killed_is_not_there(ready, name):
    ready.ok("backup", str(ready.place / "backup"))
    shutil.rmtree(ready.store)
    before = beside(ready)
    assert ready.process(*restoring(ready), env={"ENGRAM_FAILPOINT": name}).code == KILLED
    assert not ready.store.exists()
    assert ready.process(*restoring(ready)).code == 0
    assert beside(ready) == sorted([*before, "store"])
    assert ready.json("audit")["ok"]


def test_a_restore_that_is_killed_once_it_has_its_name_is_whole(ready):
    ready.ok("backup", str(ready.place / "backup"))
    older = layout.store_id(ready.store)
    shutil.rmtree(ready.store)
    assert ready.process(*restoring(ready), env={"ENGRAM_FAILPOINT": "restore.named"}).code == KILLED
    assert ready.json("audit")["ok"]
    outside = Outside(state_directory())
    assert outside.newest_of(older) == older
    with ready.agent() as agent:
        agent.forget(agent.found("copper")[0])
    assert outside.newest_of(older) == layout.store_id(ready.store), "before a key is destroyed it is made up for"
    shutil.rmtree(ready.store)
    ended = ready.run(*restoring(ready))
    assert (ended.code, "RESTORE_REFUSED" in ended.err) == (1, True)


def test_killed_at_any_moment(ready):
    """SIGKILL at moments spread over a run: each time the file, the store, is there whole or not at all."""
    chance = random.Random(5)
    file = ready.place / "backup"
    _at_moments(chance, ready, ("backup", str(file)), lambda: file.exists() and _is_whole(file))
    if not file.exists():
        ready.ok("backup", str(file))
    shutil.rmtree(ready.store)
    _at_moments(chance, ready, restoring(ready), lambda: ready.store.exists() and ready.json("audit")["ok"])
    if not ready.store.exists():
        ready.ok(*restoring(ready))
    assert ready.json("audit")["ok"]
    assert [name for name in beside(ready) if name.startswith(".")] == []


def _at_moments(chance, desk, words, is_there_whole):
    begun = time.monotonic()
    subprocess.run(command_line("--version"), env=environment(), capture_output=True, check=True)
    least = time.monotonic() - begun
    for _ in range(6):
        process = subprocess.Popen(
            command_line(*words, "--config", str(desk.host_file)), env=environment(), stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        time.sleep(least * chance.uniform(1.0, 4.0))
        process.send_signal(signal.SIGKILL)
        process.wait()
        if is_there_whole():
            return


def _is_whole(file):
    with opened_archive(file) as archive:
        return all(list(backup.checked_rows(archive, entry)) for entry in archive.manifest.scopes)


# --- beside others ----------------------------------------------------------------------------------


@pytest.fixture
def busy(tmp_path):
    """A store in which another process captures, forgets and rotates without an end."""
    path = make(tmp_path / "store")
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.journal.mortal", str(path), "busy"], stdout=subprocess.PIPE, cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": str(PROJECT)}, text=True,
    )  # fmt: skip
    lines: list[str] = []
    heard = process.stdout
    assert heard is not None
    reader = threading.Thread(target=lambda: lines.extend(heard))
    reader.start()
    yield path, lines, process
    process.kill()
    process.wait()
    reader.join()
    heard.close()


def _wait_for(lines, count):
    until = time.monotonic() + 60
    while len(lines) < count:
        assert time.monotonic() < until, "the other process does nothing"
        time.sleep(0.01)


def test_a_backup_beside_a_writer_is_one_moment_of_it(busy, tmp_path):
    path, lines, process = busy
    create_identity_file(tmp_path / "identity")
    identity = load_identity(tmp_path / "identity")
    heads = []
    for number in range(3):
        _wait_for(lines, (number + 1) * 40)
        journal = Journal.open(path, ROOT, readonly=True)
        try:
            manifest = backup.write(journal, tmp_path / f"backup{number}")
            heads.append(manifest.scopes[0].head_cursor)
        finally:
            journal.close()
    with_keys = Journal.open(path, ROOT, readonly=True)
    try:
        keybackup.write(with_keys, ROOT, tmp_path / "keys", identity.recipient, 1)
    finally:
        with_keys.close()
    assert heads == sorted(set(heads))
    process.send_signal(signal.SIGKILL)
    process.wait()
    with opened(path) as journal:
        journal.admit(SCOPE)
        backup.write(journal, tmp_path / "ledger", ledger_only=True)
        later = [json.dumps(audit_scope(journal, SCOPE).as_json())]
    assert '"missing": 0' in later[0]
    outside = Outside(tmp_path / "state")
    for number, head in enumerate(heads):
        plan = Plan(
            backup=tmp_path / f"backup{number}", keys=tmp_path / "keys", identity=identity,
            ledgers=[tmp_path / "ledger"], target=tmp_path / f"restored{number}", outside=outside, replaces=False,
        )  # fmt: skip
        restored = restore(plan)
        (report,) = restored.scopes
        assert restored.lost == 0
        assert report.events >= head
        assert report.findings == []
