"""Backups and restores about a root key that is replaced, or half replaced."""

from __future__ import annotations

import json
import shutil

import pytest

from journal import failpoints
from journal.filelock import FileLock
from journal.recipients import load_identity
from journal.rootchange import LOCK
from tests.tools.cli.test_backup_killed import KILLED
from tests.tools.memory.keeping import kept_search

STEPS = [name for name in failpoints.NAMES if name.startswith("root.")]


@pytest.fixture
def ready(open_desk, monkeypatch):
    """A desk with a record and an identity."""
    monkeypatch.setenv("XDG_STATE_HOME", str(open_desk.place / "state"))
    with open_desk.agent() as agent:
        agent.remember("Words of copper.")
    open_desk.bare("keys", "recipient", str(open_desk.place / "identity"))
    return open_desk


def keep(desk, *what):
    """Make backups of keys and journal."""
    recipient = load_identity(desk.place / "identity").recipient.text()
    if "keys" in what:
        desk.ok("keys", "backup", str(desk.place / "keys"), "--to", recipient)
    if "backup" in what:
        desk.ok("backup", str(desk.place / "backup"))


def restoring(desk, *more):
    keys, identity = str(desk.place / "keys"), str(desk.place / "identity")
    return "restore", str(desk.place / "backup"), "--keys", keys, "--identity", identity, *more


def works(desk):
    """Check that all is there, under the root key that the host file names, and that it can be replaced again."""
    assert desk.json("audit")["ok"]
    with desk.agent() as agent:
        assert len(agent.found("copper")) == 1
    before = desk.root_key.read_bytes()
    desk.ok("keys", "rotate", "--erase")
    assert desk.root_key.read_bytes() != before
    assert desk.json("audit")["ok"]
    with desk.agent() as agent:
        assert len(agent.found("copper")) == 1


@pytest.mark.parametrize("name", STEPS)
def test_a_replacement_that_died_leaves_keys_that_can_be_backed_up(ready, name):
    ended = ready.process("keys", "rotate", "--erase", env={"ENGRAM_FAILPOINT": name})
    assert ended.code == KILLED
    keep(ready, "keys", "backup")
    shutil.rmtree(ready.store)
    for path in ready.root_key.parent.glob(f"{ready.root_key.name}*"):
        path.unlink()
    ready.ok(*restoring(ready))
    works(ready)


@pytest.mark.parametrize("name", STEPS)
def test_a_copy_beside_a_half_replaced_root_key_opens_when_it_is_whole(ready, name):
    keep(ready, "keys", "backup")
    ready.process("keys", "rotate", "--erase", env={"ENGRAM_FAILPOINT": name})
    ready.ok(*restoring(ready, "--to", str(ready.place / "copy")))
    with ready.agent() as agent:  # whoever writes next ends the replacement
        assert len(agent.found("copper")) == 1
    shutil.rmtree(ready.store)
    (ready.place / "copy").rename(ready.store)
    works(ready)


@pytest.mark.parametrize(
    "order",
    [("keys", "rotate", "backup"), ("backup", "rotate", "keys", "ledger"), ("keys", "backup", "rotate", "ledger")],
)
def test_what_was_kept_before_and_after_a_replacement_fits_together(ready, order):
    for step in order:
        if step == "rotate":
            ready.ok("keys", "rotate", "--erase")
        elif step == "ledger":
            ready.ok("backup", "--ledger", str(ready.place / "ledger"))
        else:
            keep(ready, step)
    shutil.rmtree(ready.store)
    ready.ok(*restoring(ready, *(("--ledger", str(ready.place / "ledger")) if "ledger" in order else ())))
    works(ready)


def test_kept_answers_are_derived_again_from_a_restored_store_under_a_new_root_key(ready):
    with ready.agent() as agent:
        document = kept_search(agent, "copper")
    path = ready.place / "kept.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    ready.ok("keys", "rotate", "--erase")
    assert ready.json("replay", "--receipt", str(path))["verdict"] == "derived"
    keep(ready, "keys", "backup")
    shutil.rmtree(ready.store)
    ready.ok(*restoring(ready))
    assert ready.json("replay", "--receipt", str(path))["verdict"] == "derived"
    ready.ok("keys", "rotate", "--erase")
    assert ready.json("replay", "--receipt", str(path))["verdict"] == "derived"


def test_while_a_root_key_is_replaced_no_copy_of_keys_is_made(ready, monkeypatch):
    monkeypatch.setattr("journal.rootchange._LOCK_SECONDS", 0.0)
    recipient = load_identity(ready.place / "identity").recipient.text()
    lock = FileLock(ready.store / "keys" / LOCK)
    assert lock.acquire(None)
    try:
        ended = ready.run("keys", "backup", str(ready.place / "keys"), "--to", recipient)
    finally:
        lock.close()
    assert ended.code == 2
    assert "being replaced" in ended.err
    keep(ready, "keys")
