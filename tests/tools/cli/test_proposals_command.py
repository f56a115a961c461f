"""engram records proposals: a person looks, applies, dismisses."""

from __future__ import annotations

import pytest

from tests.tools.memory.world import NOW
from tools.memory.families import BINARY_STATUS

FAMILY = {"reconciliation": {"family_refs": [BINARY_STATUS]}}


@pytest.fixture
def asserting(open_desk):
    """A desk that allows the family, and a function by which an agent asserts: it returns the record id."""
    text = open_desk.host_file.read_text(encoding="utf-8")
    assert "families = []" in text
    open_desk.host_file.write_text(text.replace("families = []", f'families = ["{BINARY_STATUS}"]', 1), "utf-8")

    def say(said: str, at: int = NOW) -> str:
        with open_desk.agent() as agent:
            return agent.remember(said, valid_time={"t": at}, **FAMILY)

    return open_desk, say


def states(desk) -> dict[str, str]:
    return {row["record_id"]: row["state"] for row in desk.json("records", "list")}


def test_none_is_open_at_first(desk):
    assert desk.json("records", "proposals", "list") == []
    assert "No proposal is open." in desk.ok("records", "proposals", "list").out


def test_list_gives_what_scripts_rely_on(asserting):
    desk, say = asserting
    unknown, concrete = say("빌드|상태|unknown", NOW), say("빌드|상태|active", NOW + 1)
    (listed,) = desk.json("records", "proposals", "list")
    assert listed.pop("recorded_at").endswith("Z")
    assert listed == {
        "proposal": "5", "family_ref": BINARY_STATUS, "relation": "supersedes", "record_id": concrete,
        "other_record_id": unknown, "superseding": concrete, "superseded": unknown, "standing": "open",
    }  # fmt: skip
    (line,) = [line for line in desk.ok("records", "proposals", "list").out.split("\n") if "takes the place of" in line]
    assert line.index("active") < line.index("takes the place of") < line.index("unknown")


def test_a_directed_proposal_is_applied_as_it_stands(asserting):
    desk, say = asserting
    unknown, concrete = say("a|b|unknown", NOW), say("a|b|active", NOW + 1)
    (done,) = desk.json("records", "proposals", "apply", "5")
    assert (done["record_id"], done["to_state"], done["successor"]) == (unknown, "historical", concrete)
    assert states(desk) == {unknown: "historical", concrete: "accepted_current"}
    assert desk.json("records", "proposals", "list") == []
    assert [each["standing"] for each in desk.json("records", "proposals", "list", "--all")] == ["settled"]
    story = desk.json("records", "history", unknown)
    assert [each["type"] for each in story][-2:] == ["reconciliation_proposed", "supersede"]
    assert story[-1]["ledger"]["reason"] == "proposal 5"
    assert desk.json("audit")["ok"]
    for again in (("apply", "5"), ("dismiss", "5")):
        ended = desk.run("records", "proposals", *again)
        assert ended.code == 1
        assert "settled" in ended.err


@pytest.mark.parametrize("kept", [0, 1])
def test_of_a_contradiction_a_person_says_which_stays(asserting, kept):
    desk, say = asserting
    records = [say("a|b|active"), say("a|b|inactive")]
    ended = desk.run("records", "proposals", "apply", "5")
    assert ended.code == 2
    assert "--keep" in ended.err
    desk.ok("records", "proposals", "apply", "5", "--keep", records[kept])
    assert states(desk) == {records[kept]: "accepted_current", records[1 - kept]: "historical"}


def test_both_can_be_disputed(asserting):
    desk, say = asserting
    records = [say("a|b|active"), say("a|b|inactive")]
    assert len(desk.json("records", "proposals", "apply", "5", "--dispute")) == 2
    assert set(states(desk).values()) == {"accepted_disputed"}
    with desk.agent() as agent:
        assert agent.found("active inactive") == []
    assert records
    assert desk.json("audit")["ok"]


def test_a_dismissal_changes_neither_record_and_is_final(asserting):
    desk, say = asserting
    say("a|b|active")
    say("a|b|inactive")
    desk.ok("records", "proposals", "dismiss", "5", "--reason", "both are true, of two machines")
    assert set(states(desk).values()) == {"accepted_current"}
    assert desk.json("records", "proposals", "list") == []
    (all_of_them,) = desk.json("records", "proposals", "list", "--all")
    assert all_of_them["standing"] == "dismissed"
    before = desk.json("replay")
    for again in (("apply", "5", "--dispute"), ("dismiss", "5")):
        ended = desk.run("records", "proposals", *again)
        assert ended.code == 1
        assert "dismissed" in ended.err
    assert desk.json("replay") == before
    assert desk.json("audit")["ok"]


@pytest.mark.parametrize("number", ["1", "4", "6", "999999"])
def test_an_unknown_proposal_is_refused(asserting, number):
    desk, say = asserting
    say("a|b|active")
    say("a|b|inactive")
    for action in (("apply", number, "--dispute"), ("dismiss", number)):
        ended = desk.run("records", "proposals", *action)
        assert (ended.code, ended.out) == (1, "")
        assert ended.err.count("\n") == 1


def test_wrong_use(asserting):
    desk, say = asserting
    record = say("a|b|active")
    say("a|b|inactive")
    other = say("c|d|active")
    for words in (("5", "--keep", other), ("5", "--keep", record, "--dispute"), ("0", "--dispute"), ("x",)):
        assert desk.run("records", "proposals", "apply", *words).code == 2, words
    assert desk.run("records", "proposals", "dismiss", "5", "--reason", "").code == 2


def test_a_person_who_accepts_is_told_of_what_it_contradicts(asserting):
    desk, say = asserting
    say("a|b|active")
    text = desk.host_file.read_text(encoding="utf-8").replace('"accept-asserted"\n', '"adjudicate"\n', 1)
    desk.host_file.write_text(text, encoding="utf-8")
    with desk.agent() as agent:
        candidate = agent.capture("a|b|inactive", **FAMILY)
    ended = desk.ok("candidates", "accept", candidate)
    assert "1 record says otherwise" in ended.err
    assert "records proposals list" in ended.err
    (listed,) = desk.json("records", "proposals", "list")
    assert listed["relation"] == "contradicts"
