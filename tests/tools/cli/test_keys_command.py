"""engram keys rotate: a new wrapping key; nothing that was sealed changes."""

from __future__ import annotations

import pytest


def test_rotation_raises_the_epoch_and_keeps_everything(open_desk):
    with open_desk.agent() as agent:
        record = agent.remember("It outlives a rotation.")
    keys = {path.name: path.read_bytes() for path in (open_desk.store / "keys").iterdir()}
    assert open_desk.json("keys", "rotate") == {"tenant_id": "default", "workspace_id": "default", "epoch": 2}
    after = {path.name: path.read_bytes() for path in (open_desk.store / "keys").iterdir()}
    assert set(keys) != set(after)
    assert open_desk.json("keys", "rotate")["epoch"] == 3
    assert "number 4" in open_desk.ok("keys", "rotate").out
    assert open_desk.json("records", "show", record)["record"]["record_id"] == record
    with open_desk.agent() as agent:
        assert agent.found("rotation") == [record]
    assert open_desk.json("audit")["ok"]


def test_rotation_is_an_event_of_the_operator(open_desk):
    open_desk.ok("keys", "rotate")
    (event,) = open_desk.json("replay")
    assert event["type"] == "key_rotation"
    assert event["actor"]["principal"].startswith("operator:")


@pytest.mark.parametrize(
    "words", [["--erase", "surplus"], ["surplus"], ["--nonsense"], ["--new-root-key", "somewhere"]], ids=str
)
def test_wrong_use_rotates_nothing(open_desk, words):
    ended = open_desk.run("keys", "rotate", *words)
    assert (ended.code, ended.out) == (2, "")
    assert open_desk.json("replay") == []


def test_rotate_erase_replaces_the_root_key_of_the_whole_store(open_desk):
    with open_desk.agent() as agent:
        record = agent.remember("It outlives a new root key.")
    old = open_desk.root_key.read_bytes()
    value = open_desk.json("keys", "rotate", "--erase")
    scope = {"tenant_id": "default", "workspace_id": "default", "epoch": 2}
    assert value == {"root_key": "file", "scopes": [scope]}
    assert open_desk.root_key.read_bytes() != old
    assert open_desk.root_key.stat().st_mode & 0o777 == 0o600
    assert open_desk.json("records", "show", record)["record"]["record_id"] == record
    assert "a new root key, and new wrapping keys for 1 scope" in open_desk.ok("keys", "rotate", "--erase").out
    assert open_desk.json("audit")["ok"]
    assert [event["type"] for event in open_desk.json("replay")].count("key_rotation") == 2
    open_desk.root_key.write_bytes(old)
    ended = open_desk.run("records", "list")
    assert ended.code == 2
    assert "root key" in ended.err


def test_a_root_key_from_the_environment_is_replaced_by_one_in_a_file(open_desk, monkeypatch):
    open_desk.captured("something")
    monkeypatch.setenv("OUR_ROOT", open_desk.root_key.read_text())
    text = open_desk.host_file.read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.startswith("root = "))
    changed = text.replace(line, line[: line.index("=")] + '= { env = "OUR_ROOT" }')
    open_desk.host_file.write_text(changed, encoding="utf-8")
    assert open_desk.json("candidates", "list")
    refused = open_desk.run("keys", "rotate", "--erase")
    assert (refused.code, refused.out) == (1, "")
    assert "--new-root-key FILE" in refused.err
    assert open_desk.json("candidates", "list")
    new_file = open_desk.place / "new.key"
    told = open_desk.ok("keys", "rotate", "--erase", "--new-root-key", str(new_file)).out
    assert str(new_file) in told
    assert "environment variable" in told
    assert open_desk.run("candidates", "list").code == 2
    monkeypatch.setenv("OUR_ROOT", new_file.read_text())
    assert open_desk.json("candidates", "list")
