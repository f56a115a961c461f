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


@pytest.mark.parametrize("words", [["--erase"], ["surplus"], ["--nonsense"]], ids=str)
def test_wrong_use_rotates_nothing(open_desk, words):
    ended = open_desk.run("keys", "rotate", *words)
    assert (ended.code, ended.out) == (2, "")
    assert open_desk.json("replay") == []
