"""engram tenants: memory off and on again, in every workspace of a tenant, within the host file."""

from __future__ import annotations

import pytest

from tests.tools.memory.world import PURPOSE
from tools.host.capabilities import ALL_TOOLS, SEARCH
from tools.server.service import UnknownTool


@pytest.fixture
def wide_desk(desk):
    """A desk with two workspaces."""
    change(desk, "[[purposes]]", '[[workspaces]]\nname = "side"\n\n[[purposes]]')
    return desk


def change(desk, old, new):
    text = desk.host_file.read_text(encoding="utf-8")
    assert old in text
    desk.host_file.write_text(text.replace(old, new, 1), encoding="utf-8")


def listed(desk):
    return {row["workspace_id"]: (row["enabled"], row["opt_in"]) for row in desk.json("tenants", "list")}


def test_a_tenant_is_on_as_the_host_file_says(wide_desk):
    assert listed(wide_desk) == {"default": (True, "absent"), "side": (True, "absent")}
    assert "nothing was changed" in wide_desk.ok("tenants", "enable").out
    change(wide_desk, "tenant_enabled = true", "tenant_enabled = false")
    assert listed(wide_desk) == {"default": (False, "absent"), "side": (False, "absent")}


def test_it_is_turned_off_in_every_workspace_and_on_again(wide_desk):
    done = wide_desk.json("tenants", "disable", "--reason", "the contract ended")
    assert [(each["workspace_id"], each["opt_in"], each["cursor"]) for each in done] == [
        ("default", "disabled", "1"), ("side", "disabled", "1"),
    ]  # fmt: skip
    assert listed(wide_desk) == {"default": (False, "disabled"), "side": (False, "disabled")}
    with wide_desk.agent() as agent:
        assert agent.service.listed_tools() == ()
        with pytest.raises(UnknownTool):
            agent.call(SEARCH, {"query": "하나", "purpose_ref": PURPOSE})
    assert {row["state"] for row in wide_desk.json("grants", "list")} == {"the tenant is off"}
    again = wide_desk.json("tenants", "disable")
    assert [each["cursor"] for each in again] == [None, None]
    wide_desk.ok("tenants", "enable")
    assert listed(wide_desk) == {"default": (True, "enabled"), "side": (True, "enabled")}
    with wide_desk.agent() as agent:
        assert agent.service.listed_tools() == ALL_TOOLS


def test_a_workspace_that_came_later_is_turned_off_by_the_same_command(desk):
    desk.ok("tenants", "disable")
    change(desk, "[[purposes]]", '[[workspaces]]\nname = "side"\n\n[[purposes]]')
    assert listed(desk) == {"default": (False, "disabled"), "side": (True, "absent")}
    assert desk.ok("tenants", "disable").out.strip() == "off in default / side"


def test_the_host_file_is_the_ceiling(desk):
    desk.ok("tenants", "disable")
    change(desk, "tenant_enabled = true", "tenant_enabled = false")
    ended = desk.run("tenants", "enable")
    assert (ended.code, ended.out) == (1, "")
    assert "write tenant_enabled = true" in ended.err
    assert desk.json("tenants", "list")[0]["opt_in"] == "disabled"


@pytest.mark.parametrize("words", [("default",), ("--tenant", "default"), ("default", "--tenant", "default")])
def test_a_tenant_is_named_as_with_every_other_command(desk, words):
    assert [each["opt_in"] for each in desk.json("tenants", "disable", *words)] == ["disabled"]
    assert listed(desk) == {"default": (False, "disabled")}
    assert desk.json("tenants", "list", "--tenant", "nobody") == []
    assert len(desk.json("tenants", "list", "--tenant", "default")) == 1
    desk.ok("tenants", "enable", *words)
    ended = desk.run("tenants", "disable", "default", "--tenant", "other")
    assert (ended.code, ended.out) == (2, "")
    assert "two tenants" in ended.err
    assert desk.run("tenants", "disable", "--tenant", "nobody").code == 1
    assert listed(desk) == {"default": (True, "enabled")}


def test_a_tenant_that_nobody_knows(desk):
    ended = desk.run("tenants", "disable", "nobody")
    assert ended.code == 1
    assert "knows that tenant; there are default" in ended.err
    assert "did you mean default?" in desk.run("tenants", "enable", "Default").err
