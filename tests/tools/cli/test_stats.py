"""engram stats: figures that agree with what was done, of the bound scope alone, without a word of content."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from tests.tools.cli.desk import ready
from tests.tools.cli.examined import another, files
from tests.tools.memory.world import forgetting
from tools.host.capabilities import FORGET, MANAGE_KNOWLEDGE, SAVE_MESSAGE
from tools.host.file import load_host_file

SECRET = "Nobody but the two of them may read this."


@pytest.fixture
def desk(directory, capsys):
    """A desk with two records, a forgotten one, a pending candidate, and an open request."""
    desk = ready(directory, capsys, "--policy", "accept-asserted")
    with desk.agent() as agent:
        agent.remember(SECRET)
        agent.forget(agent.remember("One that goes."))
        agent.capture("One that waits.")
        assert agent.code(FORGET, forgetting(agent.remember("One more."))) == "gate_failed"
        agent.search("one")
    return desk


def only(desk, *words):
    (scope,) = desk.json("stats", *words)["scopes"]
    return scope


def test_figures_of_a_scope(desk):
    scope = only(desk)
    events = desk.json("replay")
    assert (scope["tenant_id"], scope["workspace_id"]) == ("default", "default")
    assert scope["head_cursor"] == str(len(events)) == events[-1]["cursor"]
    assert scope["first_recorded_at"] == events[0]["recorded_at"]
    assert scope["last_recorded_at"] == events[-1]["recorded_at"]
    assert scope["events"]["total"] == len(events)
    assert scope["events"]["by_type"] == {
        kind: sum(event["type"] == kind for event in events) for kind in {event["type"] for event in events}
    }
    assert sum(scope["events"]["by_family"].values()) == len(events)
    assert scope["events"]["by_family"]["conversation"] == 0
    assert scope["candidates"] == {"pending": 1}
    assert scope["records"] == {"accepted_current": 2, "tombstoned": 1}
    assert scope["confirmations"] == {"open": 1, "approved": 1, "denied": 0, "expired": 0}
    assert scope["pending"] == {"open_requests": 1, "candidates": 1, "destructions": 0, "erasures": 0}


def test_figures_of_conversations(directory, capsys):
    desk = ready(directory, capsys)
    with desk.agent() as agent:
        said = [
            agent.value(SAVE_MESSAGE, {"role": "user", "message": f"{SECRET} {number}"})["id"] for number in range(4)
        ]
        agent.value(MANAGE_KNOWLEDGE, {"action": "add", "target": "sub_profile", "content": SECRET})
    desk.ok("messages", "pin", said[0])
    desk.ok("messages", "archive", said[1])
    desk.ok("messages", "erase", said[2], "--yes")
    desk.ok("tags", "set", said[3], "--project", "atlas")
    desk.ok("tags", "add", "maps")
    desk.ok("tags", "alias", "maps", "--of", "atlas")
    scope = only(desk)
    assert scope["messages"] == {"active": 1, "pinned": 1, "archived": 1, "erased": 1}
    assert scope["conversation"] == {
        "events": {"messages": 8, "tags": 3, "profiles": 1, "other": 0},
        "tags": {"known": 2, "aliases": 1, "lost_events": 0},
        "profiles": {"principals": 1, "revisions": 1},
    }
    assert scope["events"]["by_family"]["conversation"] == 12
    assert (scope["candidates"], scope["records"]) == ({"pending": 0}, {})
    assert scope["parts"]["content_erased"] == desk.json("audit")["scopes"][0]["bodies"]["erased"] == 1
    human = desk.ok("stats").out
    assert "profiles       1 principal, 1 revision" in human
    assert "1 active, 1 pinned, 1 archived, 1 erased" in human
    for word in (SECRET, "atlas", "maps"):
        assert word not in human + desk.ok("stats", "--json").out


def test_figures_fit_a_narrow_terminal(desk, monkeypatch):
    assert max(map(len, desk.ok("stats").out.split("\n"))) > 80
    monkeypatch.setattr("tools.cli.terminal._columns", lambda: 80)
    assert max(map(len, desk.ok("stats").out.split("\n"))) <= 80


def test_the_parts_agree_with_audit(desk):
    parts = only(desk)["parts"]
    (audited,) = desk.json("audit")["scopes"]
    assert parts["content_erased"] == audited["bodies"]["erased"] == 2
    assert parts["content"] + parts["ledger"] == audited["bodies"]["present"]


def test_keys(desk):
    keys = only(desk)["keys"]
    assert keys["epoch"] == 1
    # live: two records, the candidate, the open request; destroyed: the forgotten record and the decided request
    assert keys["slots"]["live"] == 4
    assert keys["slots"]["destroyed"] == 2
    assert keys["slots"]["broken"] == 0
    assert sum(keys["slots"].values()) == 64
    desk.ok("keys", "rotate")
    rotated = only(desk)["keys"]
    assert rotated["epoch"] == 2
    assert rotated["generation"] > keys["generation"]
    assert rotated["slots"]["live"] == 4


def test_projections(desk):
    desk.ok("projections", "status")  # which brings all of them to the head; a search only those that it reads
    scope = only(desk)
    names = ["current", "lexical", "timeline", "messages", "tags", "profile"]
    assert [one["name"] for one in scope["projections"]] == names
    for one in scope["projections"]:
        assert one["state"] == "in force"
        assert one["cursor"] == scope["head_cursor"]
        assert one["cursor_recorded_at"] == scope["last_recorded_at"]
        assert one["behind"] == 0
        assert one["generations"][-1]["number"] == one["generation"]
        assert all(each["size_bytes"] > 0 for each in one["generations"])
        assert "digest" not in one
    desk.captured("Behind the projections.")
    assert [one["behind"] for one in only(desk)["projections"]] == [1] * 6


def test_digests_are_those_of_projections_status(desk):
    brought_to_the_head = {row["name"]: row["digest"] for row in desk.json("projections", "status")}
    assert {one["name"]: one["digest"] for one in only(desk, "--digests")["projections"]} == brought_to_the_head


def test_without_projections(desk):
    shutil.rmtree(desk.store / "projections")
    for one in only(desk, "--digests")["projections"]:
        assert (one["state"], one["cursor"], one["digest"], one["generations"]) == ("absent", None, None, [])
    assert not (desk.store / "projections").exists()


def test_a_broken_projection(desk):
    (data,) = (desk.store / "projections").glob("*/lexical/0*/data.mdb")
    data.write_bytes(data.read_bytes()[:5_000])
    lexical = only(desk, "--digests")["projections"][1]
    assert (lexical["state"], lexical["cursor"], lexical["digest"]) == ("broken", None, None)


def test_figures_of_the_store(desk):
    store = desk.json("stats")["store"]
    assert store["path"] == str(desk.store)
    used = (desk.store / "journal" / "data.mdb").stat().st_size
    assert store["map"]["used_bytes"] == used
    assert store["map"]["used_share"] == used / store["map"]["size_bytes"]
    assert store["journal_bytes"] >= used
    assert min(store["keys_bytes"], store["projections_bytes"]) > 0
    assert store["readers"]["max"] == 510
    assert store["open"] == {"processes": 0, "pids": [], "unclean": 0}


def test_who_has_it_open(desk):
    with another(desk) as process:
        assert desk.json("stats")["store"]["open"] == {"processes": 1, "pids": [process.pid], "unclean": 0}
        process.kill()
        process.wait()
    assert desk.json("stats")["store"]["open"] == {"processes": 0, "pids": [], "unclean": 1}


def test_another_scope_only_when_asked(desk, directory):
    other = directory / "other.toml"
    text = desk.host_file.read_text(encoding="utf-8").replace('workspace = "default"', 'workspace = "elsewhere"')
    other.write_text(text, encoding="utf-8")
    other.chmod(0o600)
    assert json.loads(desk.bare("stats", "--json", "--config", str(other)).out)["scopes"] == []
    assert "No event yet" in desk.bare("stats", "--config", str(other)).out
    every = json.loads(desk.bare("stats", "--json", "--all", "--config", str(other)).out)["scopes"]
    assert [scope["workspace_id"] for scope in every] == ["default"]
    assert every == desk.json("stats")["scopes"]


def test_a_workspace_that_is_not_listed(desk):
    assert desk.run("stats", "--workspace", "elsewhere").code == 2


def test_it_says_nothing_of_content_and_writes_nothing(desk):
    before = files(desk.place)
    for words in (["--json"], [], ["--digests"], ["--all"]):
        ended = desk.run("stats", *words)
        assert ended.code == 0
        for secret in (SECRET, "two of them", desk.root_key.read_text(encoding="ascii").strip()):
            assert secret not in ended.out + ended.err
    assert files(desk.place) == before


def test_it_invents_nothing(desk):
    """Nothing was scrubbed yet, so there is no last clean cursor."""
    assert only(desk)["checkpoints"]["scrub"] is None
    assert "clean" not in desk.run("stats", "--json").out.replace("unclean", "")


def test_a_person_reads_the_same(desk):
    out = desk.ok("stats", "--digests").out
    scope = only(desk, "--digests")
    assert f"head cursor    {scope['head_cursor']}" in out
    assert "2 accepted current, 1 tombstoned" in out
    assert "4 live" in out
    for one in scope["projections"]:
        assert one["digest"] in out


def test_an_empty_store(directory, capsys):
    desk = ready(directory, capsys)
    value = desk.json("stats", "--all")
    assert value["scopes"] == []
    assert value["store"]["open"]["processes"] == 0
    assert os.fspath(desk.store) in desk.ok("stats").out


@pytest.mark.parametrize("spoil", ["key", "journal"])
def test_where_it_cannot_run(desk, spoil):
    (desk.root_key if spoil == "key" else desk.store / "journal" / "data.mdb").unlink()
    ended = desk.run("stats", "--json")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize("content", [b"", b"\x91" * 5_000, os.urandom(200)])
def test_a_broken_keyring_is_said_to_be_corrupt(desk, content):
    (keyring,) = (desk.store / "keys").glob("*.keyring")
    keyring.write_bytes(content)
    ended = desk.run("stats")
    assert ended.code == 2
    assert "JOURNAL_CORRUPT" in ended.err
    assert "fault in engram" not in ended.err


def test_grants_are_no_candidates(desk):
    principal = load_host_file(desk.host_file).host.principal
    (before,) = desk.json("stats")["scopes"]
    desk.ok("grants", "add", "--principal", principal, "--tool", "engram_memory_get", "--expires", "8h")
    desk.ok("grants", "revoke", "--principal", principal, "--tool", "engram_memory_search")
    desk.ok("tenants", "disable")
    (scope,) = desk.json("stats")["scopes"]
    assert scope["grants"] == {"standing": 1, "revoked": 1}
    assert (scope["candidates"], scope["records"]) == (before["candidates"], before["records"])
    assert "1 standing, 1 revoked" in desk.ok("stats").out
