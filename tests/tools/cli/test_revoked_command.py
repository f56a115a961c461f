"""engram records revoked: trust of an older epoch, listed and taken away."""

from __future__ import annotations

import pytest

from tests.tools.memory.world import capture_arguments
from tools.cli.cite import cite
from tools.host.capabilities import CAPTURE


@pytest.fixture
def verifying(open_desk):
    """A desk with a verifier, and functions that have something remembered, and raise the epoch."""
    project = open_desk.place / "project"
    project.mkdir()
    file = project / "a.md"
    file.write_text("one\ntwo\n")

    def change(old: str, new: str) -> None:
        text = open_desk.host_file.read_text(encoding="utf-8")
        assert old in text
        open_desk.host_file.write_text(text.replace(old, new, 1), encoding="utf-8")

    change('verifier = "none"\nroots = []', f'verifier = "files"\nroots = ["{project}"]')

    def remembered(said: str) -> str:
        cited = cite(f"{file}:1")
        made = capture_arguments(said, citations=cited["citations"])
        made["payload"]["primary_event"]["citation_id"] = cited["citation"]["citation_id"]
        made["payload"]["components"][0]["citation_ids"] = [cited["citation"]["citation_id"]]
        made["evidence"] = cited["evidence"]
        with open_desk.agent() as agent:
            return agent.admit(agent.value(CAPTURE, made)["candidate_id"])["record_id"]

    return open_desk, remembered, lambda old, new: change(f"revocation_epoch = {old}", f"revocation_epoch = {new}")


def test_without_a_verifier_it_says_so(desk):
    ended = desk.run("records", "revoked")
    assert ended.code == 1
    assert "no verifier" in ended.err


def test_older_trust_is_listed_and_taken_away(verifying):
    desk, remembered, raised = verifying
    first = remembered("First.")
    with desk.agent() as agent:
        asserted = agent.remember("Asserted.")
    assert desk.json("records", "revoked") == []
    assert "No record's trust is revoked." in desk.ok("records", "revoked").out
    raised(0, 3)
    second = remembered("Second.")
    (listed,) = desk.json("records", "revoked")
    assert listed["record_id"] == first
    assert (listed["state"], listed["revocation_epoch"]) == ("accepted_current", "0")
    assert "records revoked --invalidate" in desk.ok("records", "revoked").out
    with desk.agent() as agent:
        assert agent.get(first)["ok"], "nothing happens by itself"
    desk.ok("records", "revoked", "--invalidate")
    assert desk.json("records", "revoked") == []
    states = {row["record_id"]: row["state"] for row in desk.json("records", "list")}
    assert states == {first: "trust_invalid", asserted: "accepted_current", second: "accepted_current"}
    with desk.agent() as agent:
        assert agent.get(first)["error"]["code"] == "NOT_FOUND"
    assert desk.json("records", "history", first)[-1]["ledger"]["reason"] == "revocation epoch 3"
    assert desk.json("audit")["ok"]


def test_a_forgotten_record_has_no_trust_to_lose(verifying):
    desk, remembered, raised = verifying
    gone = remembered("Gone.")
    with desk.agent() as agent:
        agent.forget(gone)
    raised(0, 1)
    assert desk.json("records", "revoked", "--invalidate") == []
