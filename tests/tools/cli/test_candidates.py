"""engram candidates: a person decides."""

from __future__ import annotations

import pytest

from tests.tools.memory.world import citation, payload, withdrawal
from tools.host.capabilities import WITHDRAW

TEXT = "야간 빌드를 두 시 반으로 옮겼다."
SECRET = "AKIA" + "Q3EGRI4NLPJX7T2K"


def test_list_is_empty_at_first(desk):
    assert desk.json("candidates", "list") == []
    assert "No candidate waits" in desk.ok("candidates", "list").out


def test_list_gives_what_scripts_rely_on(desk):
    first, second = desk.captured("One.", "Two.")
    listed = desk.json("candidates", "list")
    assert [set(row) for row in listed] == [{
        "candidate_id", "state", "tenant_id", "workspace_id", "cursor", "captured_at", "principal", "agent_id", "notes",
    }] * 2  # fmt: skip
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


@pytest.mark.parametrize("action", ["accept", "reject"])
def test_a_decided_candidate_is_told_by_what_became_of_it(open_desk, action):
    desk = open_desk
    accepted, rejected = desk.captured("One.", "Two.")
    record = desk.json("candidates", "accept", accepted)["record_id"]
    cursor = desk.json("candidates", "reject", rejected)["cursor"]
    with desk.agent() as agent:
        withdrawn = agent.capture("Three.")
        agent.withdraw(withdrawn)
        gone = agent.remember("Four.")
        agent.forget(gone)
    told = {
        accepted: f"it is a record already: {record}; an agent can forget it",
        rejected: f"it was rejected at cursor {cursor} ",
        withdrawn: "it was withdrawn at cursor ",
    }
    told[next(row["candidate_id"] for row in desk.json("records", "list") if row["record_id"] == gone)] = (
        f"it was a record, {gone}, and was forgotten at cursor "
    )
    for candidate, words in told.items():
        ended = desk.run("candidates", action, candidate)
        assert ended.code == 1
        assert ended.err.startswith(f"engram: {words}"), ended.err


@pytest.mark.parametrize("action", ["show", "accept", "reject"])
@pytest.mark.parametrize("name", ["candidate_" + 64 * "0", "mem_aaaa", "", "nonsense", "confirmation_00"])
def test_an_unknown_id_is_refused(desk, action, name):
    ended = desk.run("candidates", action, name)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("engram: ")
    assert ended.err.count("\n") == 1


@pytest.fixture
def forgotten_again(open_desk):
    """A desk at which a candidate says what was forgotten: (desk, candidate id)."""
    with open_desk.agent() as agent:
        agent.forget(agent.remember("The office moves in May."))
        again = agent.capture("the office  moves in MAY.")
        assert agent.admit(again)["status"] == "pending_adjudication"
    return open_desk, again


def test_forgotten_words_are_accepted_only_if_that_is_meant(forgotten_again):
    desk, again = forgotten_again
    assert desk.json("candidates", "show", again)["like_forgotten"] is True
    assert "forgotten" in desk.ok("candidates", "show", again).out
    before = desk.json("replay")
    ended = desk.run("candidates", "accept", again, "--json")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.count("\n") == 1
    assert "forgotten" in ended.err
    assert "--anyway" in ended.err
    assert desk.json("replay") == before
    done = desk.ok("candidates", "accept", again, "--anyway", "--json")
    assert done.err == ""
    assert done.json["state"] == "accepted_current"


def test_forgotten_words_can_be_rejected_as_they_are(forgotten_again):
    desk, again = forgotten_again
    assert desk.json("candidates", "reject", again)["state"] == "rejected"


def test_words_that_were_not_forgotten_need_no_more(desk):
    (candidate,) = desk.captured(TEXT)
    assert desk.ok("candidates", "accept", candidate).err == ""


def test_the_list_notes_what_a_person_should_know(forgotten_again):
    desk, again = forgotten_again
    quiet, secret = desk.captured(TEXT, f"aws_access_key_id={SECRET}")
    listed = {row["candidate_id"]: row["notes"] for row in desk.json("candidates", "list")}
    assert listed[again] == ["admission asked", "same words were forgotten"]
    assert listed[quiet] == []
    (found,) = listed[secret]
    assert found.startswith("looks like a secret (")
    lines = desk.ok("candidates", "list").out.split("\n")
    assert "note" in lines[0]
    assert "admission asked; same words were forgotten" in lines[1]
    assert found in lines[3]


def test_a_secret_reaches_no_terminal(desk):
    (candidate,) = desk.captured(f"The deploy user logs in with aws_access_key_id={SECRET}")
    shown = desk.json("candidates", "show", candidate)
    found = shown["secrets"][0]["detector"]
    assert {each["path"] for each in shown["secrets"]} == {"payload.components[0].text"}
    assert found in shown["payload"]["components"][0]["text"]
    assert shown["payload"]["citations"][0]["source_ref"] == "source:minutes"  # the rest is shown
    told = desk.ok("candidates", "show", candidate).out
    assert found in told
    assert f"candidates reject {candidate} --config {desk.host_file}" in told
    with desk.agent() as agent:
        assert agent.code(WITHDRAW, withdrawal(candidate)) == "gate_failed"
    for words in (
        ("candidates", "show", candidate), ("candidates", "list"), ("records", "show", candidate),
        ("records", "history", candidate), ("confirm", "list"),
    ):  # fmt: skip
        for more in ((), ("--json",)):
            assert SECRET not in desk.ok(*words, *more).out, words


def test_a_secret_beside_the_words_is_hidden_too(desk):
    with desk.agent() as agent:
        cited = [citation("citation:1", source_ref=f"https://user:{SECRET}@example.org/aws_access_key_id={SECRET}")]
        candidate = agent.capture("Harmless.", citations=cited)
    assert SECRET not in desk.ok("candidates", "show", candidate).out
    assert "Harmless." in desk.ok("candidates", "show", candidate).out


def test_what_the_verifier_found_is_shown_to_the_person(desk):
    project = desk.place / "project"
    project.mkdir()
    (project / "a.md").write_text("one\n")
    text = desk.host_file.read_text(encoding="utf-8")
    given = f'verifier = "files"\nroots = ["{project}"]'
    desk.host_file.write_text(text.replace('verifier = "none"\nroots = []', given), encoding="utf-8")
    asserted = dict(citation("citation:1", source_ref="file:project/a.md", locator={"scheme": "line", "value": "1"}))
    with desk.agent() as agent:
        wrong = agent.capture("Wrong.", citations=[asserted])
        elsewhere = agent.capture("Elsewhere.")
    listed = {row["candidate_id"]: row["notes"] for row in desk.json("candidates", "list")}
    assert listed == {wrong: ["cited files say otherwise"], elsewhere: []}
    shown = desk.json("candidates", "show", wrong)
    assert shown["trust"]["class"] == "asserted"
    assert shown["verification"]["result"] == "mismatched"
    told = desk.ok("candidates", "show", wrong).out
    assert "  citation:1: its bytes are others\n" in told
    assert "  citation:1: it cites no file\n" in desk.ok("candidates", "show", elsewhere).out


def test_without_a_secret_nothing_is_hidden(desk):
    (candidate,) = desk.captured(TEXT)
    assert desk.json("candidates", "show", candidate)["secrets"] == []
    assert "reject" not in desk.ok("candidates", "show", candidate).out


def test_a_candidate_with_a_secret_is_never_accepted(desk):
    (candidate,) = desk.captured(f"The deploy user logs in with aws_access_key_id={SECRET}")
    ended = desk.run("candidates", "accept", candidate)
    assert ended.code == 1
    assert SECRET not in ended.out + ended.err
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
