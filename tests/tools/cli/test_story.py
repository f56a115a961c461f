"""engram records history: the whole story, for a person and as JSON."""

from __future__ import annotations

from tests.tools.memory.world import forgetting
from tools.cli.opening import os_user_name
from tools.host.capabilities import FORGET


def _story(desk, name):
    return desk.json("records", "history", name), desk.ok("records", "history", name).out


def test_who_captured_and_who_decided(desk):
    (candidate,) = desk.captured("야간 빌드를 옮겼다.")
    with desk.agent() as agent:
        assert agent.admit(candidate)["status"] == "pending_adjudication"
    desk.ok("candidates", "accept", candidate)
    told, human = _story(desk, candidate)
    capture, adjudication, accept = told
    assert capture["actor"]["session"]
    assert f"session {capture['actor']['session']}" in human
    assert f"by {capture['actor']['principal']}" in human
    assert adjudication["ledger"]["decision"]["policy_id"] == "adjudicate"
    assert "policy adjudicate, version 1: adjudication_required" in human
    assert "policy host:operator, version 1: accept" in human
    assert f"by operator:{os_user_name()}" in human
    assert f"record: {accept['record_id']}" in human
    for chapter in (adjudication, accept):
        assert chapter["ledger"]["decision"]["receipt_digest"] in human
        assert chapter["ledger"]["authorization_receipt_digest"] in human
    assert len({chapter["transaction_receipt_digest"] for chapter in told}) == 3
    assert "야간" not in human


def test_a_confirmation_says_for_what_and_until_when(open_desk):
    with open_desk.agent() as agent:
        record = agent.remember("It stays.")
        assert agent.code(FORGET, forgetting(record)) == "gate_failed"
    (request,) = open_desk.json("confirm", "list")
    open_desk.ok("confirm", "deny", request["confirmation_id"])
    told, human = _story(open_desk, record)
    asked, denied = told[-2:]
    assert asked["ledger"] == {"capability": FORGET, "expires_at": request["expires_at"]}
    assert (asked["from_state"], asked["to_state"]) == ("absent", "open")
    assert f"for {FORGET}, open until" in human
    assert "confirmation_denied: open to denied" in human
    assert denied["ledger"]["channel"] == "console"
    assert "channel: console" in human


def test_transitions_name_the_other_record_on_both_sides(open_desk):
    with open_desk.agent() as agent:
        old, new = agent.remember("Two."), agent.remember("Three.")
    open_desk.ok("records", "supersede", old, "--by", new, "--reason", "it moved")
    open_desk.ok("records", "rewind", old, "--successor", new)
    told, human = _story(open_desk, old)
    other = {row["record_id"]: row["candidate_id"] for row in open_desk.json("records", "list")}
    assert [chapter["counterpart"] for chapter in told] == [
        None,
        None,
        {"role": "successor", "candidate_id": other[new], "record_id": new},
        {"role": "successor", "candidate_id": other[new], "record_id": new},
    ]
    assert "supersede: accepted_current to historical" in human
    assert "reason: it moved" in human
    assert f"its successor: {new}" in human
    told, human = _story(open_desk, new)
    assert told[-1]["counterpart"] == {"role": "predecessor", "candidate_id": other[old], "record_id": old}
    assert f"it takes the place of: {old}" in human
    assert f"it is historical now, current is: {old}" in human


def test_the_end_of_a_record_names_what_covers_it(open_desk):
    with open_desk.agent() as agent:
        record = agent.remember("Words that go away.")
        done = agent.forget(record)
    told, human = _story(open_desk, record)
    coverage = told[-1]["ledger"]["coverage"]
    assert coverage["receipt_digest"] == done["coverage_receipt_digest"]
    assert f"coverage {done['coverage_receipt_digest']}" in human
    assert "lexical at" in human
    assert "keys destroyed" in human
    assert "reason: reason:asked" in human
    assert "Words" not in human + str(told)


def test_what_a_person_wrote_cannot_move_the_terminal(open_desk):
    with open_desk.agent() as agent:
        record = agent.remember("One.")
    open_desk.ok("records", "dispute", record, "--reason", "a\x1b[31mb\nc")
    human = open_desk.ok("records", "history", record).out
    assert "\x1b" not in human
    assert "a<U+001B>[31mb<U+000A>c" in human


def test_notes_and_what_becomes_of_them(desk):
    (candidate,) = desk.captured("Words of the content.")
    desk.ok("candidates", "note", candidate, "민수에게 물어본다")
    told, human = _story(desk, candidate)
    assert (told[-1]["type"], told[-1]["note"]) == ("adjudication_note", "민수에게 물어본다")
    assert [chapter["note"] for chapter in told[:-1]] == [None]
    assert "note: 민수에게 물어본다" in human
    desk.ok("candidates", "reject", candidate)
    told, human = _story(desk, candidate)
    assert told[1]["note"] is None
    assert "note: (erased)" in human
    assert "민수" not in human + str(told)


def test_a_proposal_and_its_dismissal_are_in_both_stories(open_desk):
    family = "assertion-family:binary-status"
    text = open_desk.host_file.read_text(encoding="utf-8")
    open_desk.host_file.write_text(text.replace("families = []", f'families = ["{family}"]'), encoding="utf-8")
    with open_desk.agent() as agent:
        records = [
            agent.remember(f"ferry|status|{value}", reconciliation={"family_refs": [family]})
            for value in ("active", "inactive")
        ]
    (proposal,) = open_desk.json("records", "proposals", "list")
    open_desk.ok("records", "proposals", "dismiss", proposal["proposal"])
    for record, other in (records, reversed(records)):
        told, human = _story(open_desk, record)
        assert [chapter["type"] for chapter in told[2:]] == ["reconciliation_proposed", "reconciliation_dismissed"]
        assert told[2]["counterpart"]["record_id"] == other
        assert f"proposed: contradicts, of {family}" in human
        assert f"dismissed: the proposal at cursor {proposal['proposal']}" in human
