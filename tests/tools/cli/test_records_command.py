"""engram records: what was admitted, and its story."""

from __future__ import annotations

import pytest

from tests.tools.memory.world import forgetting, withdrawal
from tools.host.capabilities import FORGET, WITHDRAW


def test_list_gives_records_only(open_desk):
    assert open_desk.json("records", "list") == []
    assert "No record yet" in open_desk.ok("records", "list").out
    with open_desk.agent() as agent:
        record = agent.remember("One that stays.")
        agent.capture("One that waits.")
    (row,) = open_desk.json("records", "list")
    assert row["record_id"] == record
    assert row["state"] == "accepted_current"
    assert row["cursor"] == "1"
    out = open_desk.ok("records", "list").out
    assert "One that stays." in out
    assert "One that waits." not in out


def test_show_gives_the_record_whole(open_desk):
    with open_desk.agent() as agent:
        record = agent.remember("백업이 두 시에 끝난다.")
        seen = agent.get(record)["output"]["value"]["record"]
    shown = open_desk.json("records", "show", record)
    assert shown["record"]["record_id"] == record
    assert shown["record"]["scope_ref"].startswith("scope:")  # the host sees what is redacted toward agents
    assert {name: shown["record"][name] for name in seen} == seen
    assert open_desk.json("records", "show", shown["candidate_id"]) == shown
    assert "백업이 두 시에 끝난다." in open_desk.ok("records", "show", record).out


def test_a_forgotten_record_is_listed_and_cannot_be_shown(open_desk):
    with open_desk.agent() as agent:
        record = agent.remember("Words that go away.")
        agent.forget(record)
    (row,) = open_desk.json("records", "list")
    assert row["state"] == "tombstoned"
    shown = open_desk.json("records", "show", record)
    assert (shown["record"], shown["evidence"]) == (None, None)
    for ended in (open_desk.ok("records", "list"), open_desk.ok("records", "show", record)):
        assert "erased" in ended.out
        assert "Words that go away" not in ended.out


def test_history_tells_capture_decision_confirmation_and_erasure(open_desk):
    with open_desk.agent() as agent:
        record = agent.remember("Words that go away.")
        agent.remember("Another one, whose events are not told.")
        agent.forget(record)
    told = open_desk.json("records", "history", record)
    assert [chapter["type"] for chapter in told] == [
        "capture",
        "accept",
        "confirmation_requested",
        "confirmation_approved",
        "tombstone",
        "erasure_done",
        "erasure_done",
    ]
    cursors = [int(chapter["cursor"]) for chapter in told]
    assert cursors == sorted(cursors)
    assert told[3]["ledger"]["operator"] == "operator"
    assert told[4]["ledger"]["reason_ref"] == "reason:asked"
    assert all("Words" not in str(chapter) for chapter in told)
    human = open_desk.ok("records", "history", record).out
    assert [human.count(f"  cursor {cursor}  ") for cursor in cursors] == [1] * len(cursors)
    assert "tombstone" in human
    assert "reason:asked" in human


def test_history_of_a_withdrawn_candidate(open_desk):
    with open_desk.agent() as agent:
        candidate = agent.capture("A mistake.")
        agent.withdraw(candidate)
    types = [chapter["type"] for chapter in open_desk.json("records", "history", candidate)]
    assert types[:4] == ["capture", "confirmation_requested", "confirmation_approved", "withdraw"]
    assert "erasure_done" in types[4:]


def test_history_tells_a_denial(open_desk):
    with open_desk.agent() as agent:
        record = agent.remember("It stays.")
        assert agent.code(FORGET, forgetting(record)) == "gate_failed"
        candidate = agent.capture("It stays, too.")
        assert agent.code(WITHDRAW, withdrawal(candidate)) == "gate_failed"
    for request in open_desk.json("confirm", "list"):
        open_desk.ok("confirm", "deny", request["confirmation_id"])
    for subject in (record, candidate):
        types = [chapter["type"] for chapter in open_desk.json("records", "history", subject)]
        assert types[-2:] == ["confirmation_requested", "confirmation_denied"]


@pytest.mark.parametrize("action", ["show", "history"])
@pytest.mark.parametrize("name", ["mem_" + 52 * "a", "candidate_" + 64 * "0", "confirmation_1", "", "../x"])
def test_an_unknown_id_is_refused(open_desk, action, name):
    ended = open_desk.run("records", action, name)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.count("\n") == 1


def test_a_lost_content_hides_no_other_record(open_desk):
    import lmdb

    with open_desk.agent() as agent:
        agent.remember("One that is lost.")
        agent.remember("One that is there.")
    env = lmdb.open(str(open_desk.store / "journal"), max_dbs=32, lib_version=0)
    handle = env.open_db(b"content", create=False)
    with env.begin(write=True) as txn:
        key, _ = next(iter(txn.cursor(handle)))
        txn.delete(key, db=handle)
    env.close()
    out = open_desk.ok("records", "list").out
    assert "BLOB_MISSING" in out
    assert "One that is there." in out
    assert len(open_desk.json("records", "list")) == 2
    ended = open_desk.run("records", "show", open_desk.json("records", "list")[0]["record_id"])
    assert ended.code == 2
    assert "[BLOB_MISSING]" in ended.err
