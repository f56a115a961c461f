"""Checkpoints in engram backup and restore: signed first, brought back, set aside where they are given up."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from journal.checkpointfiles import CheckpointFolder
from journal.checkpointing import folder_of
from tests.tools.cli.examined import SCOPE


@pytest.fixture
def ready(open_desk, monkeypatch):
    """A desk with an anchor that its host file names, a record, and its keys backed up."""
    monkeypatch.setenv("XDG_STATE_HOME", str(open_desk.place / "state"))
    text = open_desk.host_file.read_text(encoding="utf-8")
    open_desk.host_file.write_text(text.replace('# anchor = "PATH"', 'anchor = "kept"'), encoding="utf-8")
    with open_desk.agent() as agent:
        agent.remember("Words of copper.")
    recipient = open_desk.bare("keys", "recipient", str(open_desk.place / "identity")).out.strip()
    open_desk.ok("keys", "backup", str(open_desk.place / "keys"), "--to", recipient)
    return open_desk


def restoring(desk, *more):
    keys, identity = str(desk.place / "keys"), str(desk.place / "identity")
    return "restore", str(desk.place / "backup"), "--keys", keys, "--identity", identity, *more


def folders(desk):
    """Return the folders of the anchor, by name."""
    (tag,) = (desk.place / "kept").iterdir()
    return {each.name: CheckpointFolder(each).sizes() for each in tag.iterdir()}


def test_a_backup_signs_first_and_carries_it(ready):
    value = ready.json("backup", str(ready.place / "backup"))
    head = int(value["scopes"][0]["head_cursor"])
    assert folder_of(ready.store, SCOPE.tag).sizes() == [head]
    assert list(folders(ready).values()) == [[head]]
    shutil.rmtree(ready.store)
    ready.ok(*restoring(ready))
    assert folder_of(ready.store, SCOPE.tag).sizes() == [head]
    assert ready.json("audit")["scopes"][0]["checkpoints"] == 1
    assert not (ready.place / "state" / "engram" / "anchors").exists()


def test_the_anchor_that_the_host_file_names_refuses_an_older_backup(ready):
    ready.ok("backup", str(ready.place / "backup"))
    ready.captured("It comes later.")
    ready.ok("checkpoint")
    shutil.rmtree(ready.place / "state")  # nothing else is known on this machine
    shutil.rmtree(ready.store)
    ended = ready.run(*restoring(ready))
    assert (ended.code, "[RESTORE_REFUSED]" in ended.err) == (1, True)
    assert not ready.store.exists()


def lawfully_restored(desk):
    """Forget something after the backup, lose the store, and restore it with a ledger."""
    desk.ok("backup", str(desk.place / "backup"))
    with desk.agent() as agent:
        agent.forget(agent.found("copper")[0])
    desk.ok("backup", "--ledger", str(desk.place / "ledger"))
    shutil.rmtree(desk.store)
    return desk.ok(*restoring(desk, "--ledger", str(desk.place / "ledger")))


def test_after_a_lawful_restore_nothing_is_called_rolled_back(ready):
    ended = lawfully_restored(ready)
    (line,) = [line for line in ended.out.splitlines() if line.startswith("set aside")]
    aside = Path(line.partition("given up: ")[2])
    assert aside.is_dir()
    assert ".until-2" in aside.name
    assert ready.json("audit")["ok"]
    ready.ok("checkpoint")
    ready.ok("backup", str(ready.place / "backup-2"))
    value = ready.bare("audit", "--json", "--headers-only", "--store", str(ready.store))
    assert value.code == 0, value
    assert ready.json("audit")["ok"]


def test_what_was_set_aside_still_tells(ready):
    lawfully_restored(ready)
    (aside,) = [name for name in folders(ready) if ".until-" in name]
    (tag,) = (ready.place / "kept").iterdir()
    newest = max((tag / aside).glob("0*"))
    ended = ready.run("audit", "--json", "--checkpoint", str(newest))
    assert ended.code == 1
    codes = {each["code"] for scope in ended.json["scopes"] for each in scope["findings"]}
    assert codes <= {"CURSOR_GAP", "JOURNAL_CORRUPT"}
    assert codes


def test_a_restored_store_that_is_rolled_back_is_named_all_the_same(ready):
    lawfully_restored(ready)
    shutil.copytree(ready.store, ready.place / "old")
    ready.captured("It comes later.")
    ready.ok("checkpoint")
    shutil.rmtree(ready.store)
    (ready.place / "old").rename(ready.store)
    ended = ready.run("audit", "--json")
    assert ended.code == 1
    assert [each["code"] for each in ended.json["scopes"][0]["findings"]] == ["CURSOR_GAP"]
    ended = ready.run("backup", str(ready.place / "backup-2"))
    assert (ended.code, "[CURSOR_GAP]" in ended.err) == (2, True)
    assert not (ready.place / "backup-2").exists(), "no backup of a store that is not what it was"


def test_killed_after_the_name_it_is_no_roll_back_either(ready):
    ready.ok("backup", str(ready.place / "backup"))
    with ready.agent() as agent:
        agent.forget(agent.found("copper")[0])
    ready.ok("backup", "--ledger", str(ready.place / "ledger"))
    shutil.rmtree(ready.store)
    words = restoring(ready, "--ledger", str(ready.place / "ledger"))
    assert ready.process(*words, env={"ENGRAM_FAILPOINT": "restore.named"}).code == -9
    assert ready.json("audit")["ok"]
    ready.ok("backup", str(ready.place / "backup-2"))
    assert ready.json("audit")["ok"]


def test_an_anchor_that_is_no_folder_is_said_and_the_backup_made(ready):
    (ready.place / "kept").write_text("in the way", encoding="utf-8")
    ended = ready.ok("backup", str(ready.place / "backup"))
    assert "no checkpoint was kept" in ended.err
    assert (ready.place / "backup").exists()


def test_what_cannot_be_set_aside_is_said(ready, monkeypatch):
    def denied(self, key, instant):
        from journal.errors import StoreUnavailable

        raise StoreUnavailable("denied")

    monkeypatch.setattr("journal.checkpointfiles.Anchor.set_aside", denied)
    ended = lawfully_restored(ready)
    assert "could not be set aside" in ended.out
    assert ready.run("audit").code == 1
