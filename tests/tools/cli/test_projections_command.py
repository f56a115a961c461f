"""engram projections: status, verify, invalidate, rebuild."""

from __future__ import annotations

import shutil

import pytest

NAMES = ["current", "lexical", "timeline", "messages", "tags", "profile"]


@pytest.fixture
def served(open_desk):
    """A desk whose store was read from, and a record in it."""
    with open_desk.agent() as agent:
        record = agent.remember("The cache is emptied at midnight.")
        assert agent.found("cache") == [record]
        with agent.engine.projections(agent.scope).snapshot():  # those of conversations too
            pass
    return open_desk, record


def _found(desk):
    with desk.agent() as agent:
        return agent.found("cache")


def test_status_gives_what_scripts_rely_on(served):
    desk, _ = served
    rows = desk.json("projections", "status")
    assert [row["name"] for row in rows] == NAMES
    for row in rows:
        assert set(row) == {
            "name", "tenant_id", "workspace_id", "version", "cursor", "head_cursor", "digest", "state",
        }  # fmt: skip
        assert (row["cursor"], row["head_cursor"], row["state"]) == ("2", "2", "current")
        assert row["digest"].startswith("blake3:")
    assert rows[0]["digest"] != rows[1]["digest"]
    assert "current" in desk.ok("projections", "status").out


def test_an_empty_store_has_none(desk):
    assert desk.json("projections", "status") == []
    assert desk.json("projections", "verify") == []
    assert desk.json("projections", "rebuild", "--all") == []
    assert "No scope" in desk.ok("projections", "status").out


def test_rebuild_gives_equal_digests(served):
    desk, record = served
    before = desk.json("projections", "status")
    rows = desk.json("projections", "rebuild", "--all")
    assert [row["name"] for row in rows] == NAMES
    assert desk.json("projections", "status") == before
    assert _found(desk) == [record]


def test_rebuild_after_the_folder_was_deleted(served):
    desk, record = served
    before = desk.json("projections", "status")
    shutil.rmtree(desk.store / "projections")
    assert [row["state"] for row in desk.json("projections", "status")] == ["absent"] * len(NAMES)
    desk.ok("projections", "rebuild", "--all")
    assert desk.json("projections", "status") == before
    assert _found(desk) == [record]


def test_rebuild_writes_no_event(served):
    desk, _ = served
    before = desk.json("replay")
    desk.ok("projections", "rebuild", "--all")
    desk.ok("projections", "status")
    desk.ok("projections", "verify")
    assert desk.json("replay") == before


def test_verify_compares_with_a_fresh_replay(served):
    desk, _ = served
    rows = desk.json("projections", "verify")
    assert [(row["name"], row["ok"]) for row in rows] == [(name, True) for name in NAMES]
    assert all(row["live_digest"] == row["replayed_digest"] for row in rows)
    assert "equal" in desk.ok("projections", "verify").out


def test_verify_says_what_it_had_to_rebuild(served):
    desk, _ = served
    assert "rebuilt" not in desk.ok("projections", "verify").out
    desk.ok("projections", "invalidate", "lexical")
    lines = {line.split()[3]: line for line in desk.ok("projections", "verify").out.split("\n")[1:] if line}
    assert lines["lexical"].endswith("equal; it was not in force, and was rebuilt for this")
    assert lines["current"].endswith("equal")
    rows = desk.json("projections", "verify")
    assert all(
        {"name", "tenant_id", "workspace_id", "ok", "live_digest", "replayed_digest"} <= set(row) for row in rows
    )
    assert not any(row["rebuilt"] for row in rows)
    assert "rebuilt" not in desk.ok("projections", "verify").out


def test_invalidate_is_an_event_and_the_next_read_rebuilds(served):
    desk, record = served
    (row,) = desk.json("projections", "invalidate", "lexical")
    assert (row["name"], row["cursor"]) == ("lexical", "3")
    event = desk.json("replay")[-1]
    assert (event["type"], event["related"]) == ("projection_invalidated", "lexical")
    assert event["actor"]["principal"].startswith("operator:")
    states = {row["name"]: row["state"] for row in desk.json("projections", "status")}
    assert states == dict.fromkeys(NAMES, "current") | {"lexical": "absent"}
    assert _found(desk) == [record]
    states = {row["name"]: row["state"] for row in desk.json("projections", "status")}
    assert (states["current"], states["lexical"]) == ("current", "current")
    assert desk.json("audit")["ok"]


def test_invalidate_all_is_one_event(served):
    desk, record = served
    rows = desk.json("projections", "invalidate", "--all")
    assert [(row["name"], row["cursor"]) for row in rows] == [(name, "3") for name in NAMES]
    assert desk.json("replay")[-1]["related"] is None
    assert _found(desk) == [record]


def test_invalidate_several_is_an_event_each(served):
    desk, _ = served
    rows = desk.json("projections", "invalidate", "lexical", "current")
    assert [(row["name"], row["cursor"]) for row in rows] == [("current", "3"), ("lexical", "4")]


@pytest.mark.parametrize("action", ["invalidate", "rebuild"])
@pytest.mark.parametrize("words", [[], ["--all", "lexical"], ["nonsense"], ["lexical", "nonsense"]], ids=str)
def test_wrong_names_are_refused_and_change_nothing(served, action, words):
    desk, _ = served
    before = desk.json("replay")
    ended = desk.run("projections", action, *words)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("\n") == 1
    assert desk.json("replay") == before


def test_one_workspace_alone(served):
    desk, _ = served
    assert desk.json("projections", "status", "--workspace", "default") == desk.json("projections", "status")
    ended = desk.run("projections", "status", "--workspace", "nowhere")
    assert ended.code == 2
    assert "does not list" in ended.err


def test_what_stands_where_fits_a_narrow_terminal(desk, monkeypatch):
    desk.captured("One.")
    desk.ok("projections", "rebuild", "--all")
    monkeypatch.setattr("tools.cli.terminal._columns", lambda: 80)
    for words in (("projections", "status"), ("replay", "--events")):
        out = desk.ok(*words).out
        assert max(map(len, out.split("\n"))) <= 80, words
    digest = desk.json("projections", "status")[0]["digest"]
    assert digest in desk.ok("projections", "status").out  # broken into lines, and not cut
