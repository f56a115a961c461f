"""engram confirm: the person's side of a confirmation."""

from __future__ import annotations

import pytest

from tests.tools.memory.world import forgetting
from tools.host.capabilities import FORGET


@pytest.fixture
def waiting(open_desk):
    """A desk at which a forgetting waits: (desk, record id, arguments)."""
    with open_desk.agent() as agent:
        record = agent.remember("Words that a person may want gone.")
        arguments = forgetting(record)
        assert agent.code(FORGET, arguments) == "gate_failed"
    return open_desk, record, arguments


def test_nothing_waits_at_first(open_desk):
    assert open_desk.json("confirm", "list") == []
    assert "Nothing waits" in open_desk.ok("confirm", "list").out


def test_list_gives_what_scripts_rely_on(waiting):
    desk, record, arguments = waiting
    (request,) = desk.json("confirm", "list")
    assert set(request) == {
        "confirmation_id", "tenant_id", "workspace_id", "capability", "target", "principal", "says", "arguments",
        "requested_at", "expires_at",
    }  # fmt: skip
    assert request["says"] == "Words that a person may want gone."
    assert request["arguments"]["reason_ref"] == "reason:asked"
    assert "idempotency_key" not in request["arguments"]
    assert request["workspace_id"] == "default"
    assert request["capability"] == FORGET
    assert request["target"] == record
    assert request["requested_at"] < request["expires_at"]
    human = desk.ok("confirm", "list").out
    assert request["confirmation_id"] in human
    assert "reason:asked" in human
    assert "Words that a person may want gone." in human  # a person approves what they have seen
    assert arguments["idempotency_key"] not in human


def test_approve_runs_the_operation(waiting):
    desk, record, arguments = waiting
    (request,) = desk.json("confirm", "list")
    done = desk.json("confirm", "approve", request["confirmation_id"])
    assert done["operation"] == "tombstone"
    assert done["record_id"] == record
    assert done["erasure"] == "complete"
    with desk.agent() as agent:
        assert agent.get(record)["error"]["code"] == "NOT_FOUND"
        assert agent.value(FORGET, arguments)["receipt"]["to_state"] == "tombstoned"
    again = desk.run("confirm", "approve", request["confirmation_id"])
    assert again.code == 1
    assert again.err == "engram: the request is approved already; nothing was done now\n"
    assert desk.json("confirm", "list") == []


@pytest.mark.parametrize("action", ["approve", "deny"])
def test_what_was_asked_for_before_the_epoch_was_raised_is_decided_by_nobody(waiting, action):
    desk, record, arguments = waiting
    (request,) = desk.json("confirm", "list")
    desk.ok("grants", "rotate")
    assert desk.json("confirm", "list") == []
    for _ in range(2):
        ended = desk.run("confirm", action, request["confirmation_id"])
        assert (ended.code, ended.out) == (1, "")
        assert ended.err.startswith("engram: authority was revoked or its epoch raised (")
        assert ended.err.endswith(
            "engram grants rotate) since it was asked for; the agent may ask anew; nothing was done now\n"
        )
    with desk.agent() as agent:
        assert agent.get(record)["ok"]
        assert agent.code(FORGET, arguments) == "gate_failed"
    (anew,) = desk.json("confirm", "list")
    assert desk.json("confirm", "approve", anew["confirmation_id"])["operation"] == "tombstone"
    assert desk.json("audit", "--authority")


def test_deny_leaves_the_record(waiting):
    desk, record, _ = waiting
    (request,) = desk.json("confirm", "list")
    assert desk.json("confirm", "deny", request["confirmation_id"])["decision"] == "denied"
    assert desk.json("confirm", "list") == []
    with desk.agent() as agent:
        assert agent.get(record)["ok"]
    for action in ("approve", "deny"):
        ended = desk.run("confirm", action, request["confirmation_id"])
        assert ended.code == 1
        assert ended.err.count("\n") == 1
    assert desk.json("audit")["ok"]


def test_an_expired_request_is_not_listed_and_not_approved(waiting, monkeypatch):
    from journal.clock import SystemClock

    desk, _, _ = waiting
    (request,) = desk.json("confirm", "list")
    before = SystemClock().now()
    monkeypatch.setattr(SystemClock, "now", lambda self: before + 301_000)
    assert desk.json("confirm", "list") == []
    assert desk.run("confirm", "approve", request["confirmation_id"]).code == 1


@pytest.mark.parametrize("action", ["approve", "deny"])
@pytest.mark.parametrize("name", ["confirmation_" + 32 * "0", "candidate_" + 64 * "0", "", "x"])
def test_an_unknown_id_is_refused(open_desk, action, name):
    ended = open_desk.run("confirm", action, name)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.count("\n") == 1
