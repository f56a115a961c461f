"""engram candidates: a person decides."""

from __future__ import annotations

import pytest

from tests.tools.memory.world import payload

TEXT = "야간 빌드를 두 시 반으로 옮겼다."


def test_list_is_empty_at_first(desk):
    assert desk.json("candidates", "list") == []
    assert "No candidate waits" in desk.ok("candidates", "list").out


def test_list_gives_what_scripts_rely_on(desk):
    first, second = desk.captured("One.", "Two.")
    listed = desk.json("candidates", "list")
    assert [set(row) for row in listed] == [{"candidate_id", "state", "cursor", "captured_at"}] * 2
    assert [(row["candidate_id"], row["state"], row["cursor"]) for row in listed] == [
        (first, "pending", "1"),
        (second, "pending", "2"),
    ]
    assert listed[0]["captured_at"].endswith("Z")


def test_human_list_shows_text_and_whole_id(desk):
    (candidate,) = desk.captured(TEXT)
    out = desk.ok("candidates", "list").out
    assert TEXT in out
    assert candidate in out


def test_show_gives_payload_evidence_and_decisions(desk):
    (candidate,) = desk.captured(TEXT)
    shown = desk.json("candidates", "show", candidate)
    assert shown["payload"]["components"][0]["text"] == TEXT
    assert shown["evidence"]["evidence_ref"] == "evidence:minutes"
    assert shown["state"] == "pending"
    assert shown["record_id"] is None
    assert shown["decisions"] == []
    human = desk.ok("candidates", "show", candidate).out
    assert TEXT in human
    assert "purpose:work" in human


def test_accept_makes_a_record_that_agents_find(desk):
    (candidate,) = desk.captured(TEXT)
    decided = desk.json("candidates", "accept", candidate)
    assert decided["state"] == "accepted_current"
    assert decided["candidate_id"] == candidate
    assert decided["record_id"].startswith("mem_")
    with desk.agent() as agent:
        assert agent.found("야간 빌드") == [decided["record_id"]]
        assert agent.get(decided["record_id"])["ok"]
    assert desk.json("candidates", "list") == []
    assert desk.json("audit")["ok"]


def test_a_later_request_for_admission_replays_the_persons_decision(desk):
    (candidate,) = desk.captured(TEXT)
    decided = desk.json("candidates", "accept", candidate)
    with desk.agent() as agent:
        outcome = agent.admit(candidate)
    assert outcome["status"] == "duplicate_exact"
    assert outcome["record_id"] == decided["record_id"]
    assert outcome["decision_receipt_digest"] == decided["decision_receipt_digest"]
    assert outcome["transaction_receipt_digest"] == decided["transaction_receipt_digest"]


def test_reject_destroys_the_content_and_keeps_the_reason(desk):
    (candidate,) = desk.captured(TEXT)
    decided = desk.json("candidates", "reject", candidate, "--reason", "not true any more")
    assert decided["state"] == "rejected"
    assert decided["record_id"] is None
    shown = desk.json("candidates", "show", candidate)
    assert shown["payload"] is None
    assert shown["decisions"][-1]["ledger"]["reason"] == "not true any more"
    assert shown["decisions"][-1]["actor"]["principal"].startswith("operator:")
    assert "not true any more" in desk.ok("candidates", "show", candidate).out
    assert desk.json("audit")["scopes"][0]["bodies"]["erased"] == 1


@pytest.mark.parametrize("second", ["accept", "reject"])
@pytest.mark.parametrize("first", ["accept", "reject"])
def test_a_decision_is_final(desk, first, second):
    (candidate,) = desk.captured(TEXT)
    desk.ok("candidates", first, candidate)
    before = desk.json("replay", "--events")
    ended = desk.run("candidates", second, candidate)
    assert ended.code == 1
    assert ended.err.count("\n") == 1
    assert desk.json("replay", "--events") == before


@pytest.mark.parametrize("action", ["show", "accept", "reject"])
@pytest.mark.parametrize("name", ["candidate_" + 64 * "0", "mem_aaaa", "", "nonsense", "confirmation_00"])
def test_an_unknown_id_is_refused(desk, action, name):
    ended = desk.run("candidates", action, name)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("engram: ")
    assert ended.err.count("\n") == 1


def test_accept_warns_of_forgotten_words(open_desk):
    with open_desk.agent() as agent:
        agent.forget(agent.remember("The office moves in May."))
        again = agent.capture("the office  moves in MAY.")
        assert agent.admit(again)["status"] == "pending_adjudication"
    assert open_desk.json("candidates", "show", again)["like_forgotten"] is True
    assert "forgotten" in open_desk.ok("candidates", "show", again).out
    ended = open_desk.ok("candidates", "accept", again, "--json")
    assert "forgotten" in ended.err
    assert ended.json["state"] == "accepted_current"


def test_accept_does_not_warn_of_words_that_were_not_forgotten(desk):
    (candidate,) = desk.captured(TEXT)
    assert desk.ok("candidates", "accept", candidate).err == ""


def test_a_candidate_with_a_secret_is_never_accepted(desk):
    secret = "AKIA" + "Q3EGRI4NLPJX7T2K"
    (candidate,) = desk.captured(f"The deploy user logs in with aws_access_key_id={secret}")
    ended = desk.run("candidates", "accept", candidate)
    assert ended.code == 1
    assert secret not in ended.out + ended.err
    assert desk.json("candidates", "list")[0]["candidate_id"] == candidate
    desk.ok("candidates", "reject", candidate)


def test_what_an_agent_writes_cannot_steer_the_terminal(desk):
    hostile = "harmless\x1b[2J\x9b31m\r\n\u202eevil\u202c\u2066x\u2069 \u200bhidden\U000e0041"
    (candidate,) = desk.captured(hostile)
    for ended in (
        desk.ok("candidates", "show", candidate),
        desk.ok("candidates", "list"),
        desk.ok("candidates", "show", candidate, "--json"),
    ):
        for forbidden in "\x1b\x9b\r\u202e\u202c\u2066\u2069\u200b\U000e0041":
            assert forbidden not in ended.out
    assert desk.json("candidates", "show", candidate)["payload"]["components"][0]["text"] == hostile
    assert "<U+202E>" in desk.ok("candidates", "show", candidate).out


@pytest.mark.parametrize("reason", ["", "x" * 513])
def test_a_reason_has_bounds(desk, reason):
    (candidate,) = desk.captured(TEXT)
    assert desk.run("candidates", "reject", candidate, "--reason", reason).code == 2
    assert desk.run("candidates", "reject", candidate, "--reason", "x" * 512).code == 0


def test_a_decision_names_the_person_and_the_hosts_authority(desk):
    (candidate,) = desk.captured(TEXT)
    desk.ok("candidates", "accept", candidate)
    event = desk.json("replay", "--events")[-1]
    assert event["type"] == "accept"
    assert event["actor"]["principal"].startswith("operator:")
    (chapter,) = [each for each in desk.json("records", "history", candidate) if each["type"] == "accept"]
    assert chapter["ledger"]["decision"]["policy_id"] == "host:operator"
    assert chapter["ledger"]["decision"]["decision"] == "accept"
    assert chapter["ledger"]["authorization_receipt_digest"].startswith("sha256:")


def test_expired_candidates_are_accepted_with_a_warning(desk, monkeypatch):
    from journal.clock import SystemClock

    with desk.agent() as agent:
        soon = agent.engine.clock.now() + 60_000
        from journal.clock import instant

        candidate = agent.capture("Soon over.", retention={"expires_at": instant(soon)})
    monkeypatch.setattr(SystemClock, "now", lambda self: soon + 1)
    assert "expiry has passed" in desk.ok("candidates", "accept", candidate).err


def test_payload_of_many_components_is_shown_whole(desk):
    made = payload("first")
    made["components"] += [
        {"component_id": "component:2", "kind": "context", "text": "line one\nline two", "citation_ids": ["citation:1"]}
    ]
    with desk.agent() as agent:
        candidate = agent.capture("first", components=made["components"])
    out = desk.ok("candidates", "show", candidate).out
    assert "  line one\n  line two\n" in out
    assert "component:2 (context; cites citation:1)" in out
    assert "component:1 (decision, primary; cites citation:1)" in out
