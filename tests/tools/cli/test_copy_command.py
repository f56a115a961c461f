"""engram records copy: a record of one workspace becomes a candidate of another."""

from __future__ import annotations

import json

import pytest

from journal.scope import Scope
from tests.tools.cli.desk import ready
from tests.tools.memory.world import PURPOSE, Caller, component, forgetting
from tools.cli.opening import os_user_name
from tools.host.binding import bind
from tools.host.capabilities import FORGET
from tools.host.file import load_host_file
from tools.memory.engine import Engine

TEXT = "야간 빌드를 두 시 반으로 옮겼다."
TEAM = ("--workspace", "team")


def _with_team(desk, *more):
    """Let the host file list two further workspaces."""
    text = desk.host_file.read_text(encoding="utf-8")
    listed = "".join(f'\n[[workspaces]]\nname = "{name}"\n' for name in ("team", "third", *more))
    desk.host_file.write_text(text + listed, encoding="utf-8")
    return desk


@pytest.fixture
def team(open_desk):
    return _with_team(open_desk)


def _agent_of(desk, workspace):
    host_file = load_host_file(desk.host_file)
    engine = Engine.open(host_file, bind(host_file, workspace=workspace))
    return engine, Caller(engine)


def _remember(desk, text=TEXT, **changes):
    with desk.agent() as agent:
        return agent.remember(text, **changes)


def test_a_copy_is_a_pending_candidate_that_names_its_source(team):
    record = _remember(team)
    digest = team.json("records", "show", record)["record"]["record_digest"]
    value = team.json("records", "copy", record, "--to", "team")
    assert (value["workspace_id"], value["state"], value["replayed"], value["outcome"]) == (
        "team", "pending", False, None,
    )  # fmt: skip
    assert value["lineage"]["record_id"] == record
    assert value["lineage"]["record_digest"] == digest
    assert value["redacted_fields"] == ["authorization", "scope_ref", "trust", "verification"]
    (waiting,) = team.json("candidates", "list", *TEAM)
    assert waiting["candidate_id"] == value["candidate_id"]
    (capture,) = team.json("records", "history", value["candidate_id"], *TEAM)
    assert capture["ledger"]["lineage"] == value["lineage"]
    assert capture["actor"]["principal"] == f"operator:{os_user_name()}"
    human = team.ok("records", "history", value["candidate_id"], *TEAM).out
    assert f"a copy of {record}" in human
    assert team.json("audit")["ok"]


def test_the_copy_is_what_the_agent_sent_and_nothing_of_the_host(team):
    record = _remember(team)
    source = team.json("records", "show", record)
    candidate = team.json("records", "copy", record, "--to", "team")["candidate_id"]
    team.ok("candidates", "accept", candidate, *TEAM)
    shown = team.json("records", "show", candidate, *TEAM)
    made = {
        "scope_ref", "payload_digest", "recorded_at", "recorded_cursor", "authorization_receipt_digest", "trust",
        "record_digest", "record_id",
    }  # fmt: skip
    for name in made - {"recorded_at", "recorded_cursor"}:
        assert shown["record"][name] != source["record"][name], name
    assert {name: value for name, value in shown["record"].items() if name not in made} == {
        name: value for name, value in source["record"].items() if name not in made
    }
    assert shown["evidence"] == source["evidence"]


def test_an_agent_there_sees_nothing_of_the_source(team):
    record = _remember(team)
    value = team.json("records", "copy", record, "--to", "team", "--admit")
    engine, agent = _agent_of(team, "team")
    try:
        (found,) = (agent.found("야간 빌드"),)
        assert found == [value["outcome"]["record_id"]]
        seen = json.dumps([agent.search("야간 빌드"), agent.get(found[0])])
        assert agent.get(record)["error"]["code"] == "NOT_FOUND"
    finally:
        engine.close()
    for secret in (record, value["lineage"]["scope_ref"], value["lineage"]["record_digest"], "operator:"):
        assert secret not in seen


def test_the_same_command_again_changes_nothing(team):
    record = _remember(team)
    first = team.json("records", "copy", record, "--to", "team")
    head = team.json("audit")
    again = team.json("records", "copy", record, "--to", "team")
    assert again == {**first, "replayed": True}
    assert "nothing was changed: it was copied already" in team.ok("records", "copy", record, "--to", "team").out
    assert team.json("audit")["scopes"] == head["scopes"]
    third = team.json("records", "copy", record, "--to", "third")
    assert not third["replayed"]
    copies = team.json("records", "show", record)["copies"]
    assert [(each["workspace_id"], each["state"]) for each in copies] == [("team", "pending"), ("third", "pending")]
    assert f"{third['candidate_id']} of third, pending" in team.ok("records", "show", record).out


def test_what_became_of_the_copy_stays(team):
    record = _remember(team)
    candidate = team.json("records", "copy", record, "--to", "team")["candidate_id"]
    team.ok("candidates", "reject", candidate, *TEAM)
    again = team.json("records", "copy", record, "--to", "team", "--admit")
    assert (again["replayed"], again["state"]) == (True, "rejected")
    assert again["outcome"]["status"] == "duplicate_exact"


def test_the_policy_decides_about_the_copy(tmp_path, capsys):
    desk = _with_team(ready(tmp_path, capsys))  # a person admits
    (candidate,) = desk.captured(TEXT)
    record = desk.json("candidates", "accept", candidate)["record_id"]
    value = desk.json("records", "copy", record, "--to", "team", "--admit")
    assert (value["state"], value["outcome"]["status"]) == ("pending", "pending_adjudication")
    assert desk.json("records", "copy", record, "--to", "team", "--admit")["outcome"] == value["outcome"]
    desk.ok("candidates", "accept", value["candidate_id"], *TEAM)


def test_a_copy_whose_admission_is_asked_later_is_not_said_to_be_unchanged(tmp_path, capsys):
    desk = _with_team(ready(tmp_path, capsys))
    (candidate,) = desk.captured(TEXT)
    record = desk.json("candidates", "accept", candidate)["record_id"]
    assert desk.json("records", "copy", record, "--to", "team")["outcome_replayed"] is None
    told = desk.ok("records", "copy", record, "--to", "team", "--admit").out
    assert "it was copied already" in told
    assert "its admission was asked now" in told
    assert "nothing was changed" not in told
    assert "nothing was changed" in desk.ok("records", "copy", record, "--to", "team", "--admit").out
    assert desk.json("records", "copy", record, "--to", "team", "--admit")["outcome_replayed"] is True


def test_what_was_forgotten_there_waits_for_a_person(team):
    record = _remember(team)
    engine, agent = _agent_of(team, "team")
    try:
        agent.forget(agent.remember(TEXT))
    finally:
        engine.close()
    value = team.json("records", "copy", record, "--to", "team", "--admit")
    assert value["outcome"]["status"] == "pending_adjudication"
    assert team.json("candidates", "list", *TEAM)[0]["notes"]


def test_a_forgotten_source_leaves_its_copies_and_cannot_be_copied(team):
    record = _remember(team)
    team.ok("records", "copy", record, "--to", "team", "--admit")
    with team.agent() as agent:
        agent.forget(record)
    assert team.json("records", "show", record)["copies"][0]["state"] == "accepted_current"
    engine, agent = _agent_of(team, "team")
    try:
        assert len(agent.found("야간 빌드")) == 1
    finally:
        engine.close()
    ended = team.run("records", "copy", record, "--to", "third")
    assert ended.code == 1
    assert "[ALREADY_TERMINAL]" in ended.err


@pytest.mark.parametrize("name", ["dispute", "expire", "mark-non-current", "trust-invalidate"])
def test_only_what_is_accepted_current_is_copied(team, name):
    record = _remember(team)
    team.ok("records", name, record)
    ended = team.run("records", "copy", record, "--to", "team")
    assert (ended.code, ended.out) == (1, "")
    assert "only a record that is accepted current is copied" in ended.err
    assert team.json("candidates", "list", *TEAM) == []


def test_wrong_places(team):
    record = _remember(team)
    own = load_host_file(team.host_file).host.workspace
    for words, hint in (
        (("copy", record, "--to", "nowhere"), "lists no such workspace"),
        (("copy", record, "--to", own), "in that workspace already"),
        (("copy", "mem_" + 52 * "a", "--to", "team"), "NOT_FOUND"),
        (("copy", team.captured("Two.")[0], "--to", "team"), "it is pending"),
    ):
        ended = team.run("records", *words)
        assert ended.code in (1, 2), words
        assert hint in ended.err
        assert ended.err.count("\n") == 1


def test_a_purpose_that_the_host_binds_no_more(team):
    record = _remember(team)
    text = team.host_file.read_text(encoding="utf-8")
    team.host_file.write_text(text.replace(f'"{PURPOSE}"', '"purpose:renamed"'), encoding="utf-8")
    ended = team.run("records", "copy", record, "--to", "team")
    assert ended.code == 1
    assert "purpose" in ended.err


def test_the_largest_record_can_be_copied(team):
    cited = ("citation:1",)
    parts = [component(f"component:{number}", "가" * 5_000, cited=cited) for number in range(1, 33)]
    record = _remember(team, components=parts)
    assert team.json("records", "copy", record, "--to", "team", "--admit")["outcome"]["status"] == "accepted"


def test_a_copy_of_a_copy_names_the_copy(team):
    record = _remember(team)
    second = team.json("records", "copy", record, "--to", "team", "--admit")["outcome"]["record_id"]
    third = team.json("records", "copy", second, "--to", "third", *TEAM)
    assert third["lineage"]["record_id"] == second
    assert third["lineage"]["scope_ref"] == Scope.of(load_host_file(team.host_file).host.tenant, "team").ref


def test_an_open_request_to_forget_the_source_is_untouched(team):
    record = _remember(team)
    with team.agent() as agent:
        assert agent.code(FORGET, forgetting(record)) == "gate_failed"
    team.ok("records", "copy", record, "--to", "team")
    (request,) = team.json("confirm", "list")
    team.ok("confirm", "approve", request["confirmation_id"])
