"""engram messages: one message with its story; its state and its end by hand."""

from __future__ import annotations

import io

import pytest

from journal.clock import SystemClock
from tests.tools.cli.talking import elsewhere, know, say, texts
from tools.host.capabilities import MANAGE_KNOWLEDGE

DAY = 86_400_000


@pytest.fixture
def typed(monkeypatch):
    """Type a line for the next question."""
    return lambda line: monkeypatch.setattr("sys.stdin", io.StringIO(line))


def test_show_tells_texts_tags_and_events(desk):
    (message,) = say(desk, "처음 말", role="assistant", agent_model="model-one")
    know(desk, "update", "memory", content="고친 말", memory_id=message)
    desk.ok("tags", "set", message, "--project", "atlas")
    desk.ok("messages", "pin", message)
    shown = desk.json("messages", "show", message[:16])
    assert (shown["id"], shown["message"], shown["p_tag"], shown["is_pinned"]) == (message, "고친 말", "atlas", True)
    assert [text["message"] for text in shown["revisions"]] == ["처음 말", "고친 말"]
    assert [(each["by"], each["p_tag"]) for each in shown["taggings"]] == [("hand", "atlas")]
    types = ["message", "message_revision", "message_tag", "message_pin"]
    assert [event["type"] for event in shown["events"]] == types
    human = desk.ok("messages", "show", message).out
    for words in ("처음 말", "고친 말", "atlas", "model-one", *types):
        assert words in human


def test_states_by_hand(desk):
    (message,) = say(desk, "one")

    def state(action):
        return desk.json("messages", action, message)["state"]

    assert state("pin") == "pinned"
    assert desk.run("messages", "pin", message).code == 1
    assert state("archive") == "archived"  # unpinned first
    assert [event["type"] for event in desk.json("replay")][-2:] == ["message_unpin", "message_archive"]
    assert desk.run("messages", "unpin", message).code == 1
    assert desk.run("messages", "pin", message).code == 1
    assert state("restore") == "active"
    assert state("pin") == "pinned"
    assert state("unpin") == "active"
    actors = [event["actor"] for event in desk.json("replay")]
    assert len({actor["principal"] for actor in actors}) == 1
    assert all(actor["agent_id"].startswith("operator:") for actor in actors[1:])


def test_erasing_takes_a_typed_yes(desk, typed):
    one, two = say(desk, "one that goes", "one that stays")
    for line in ("no\n", "", "\n", "y\n"):
        typed(line)
        ended = desk.run("messages", "erase", one)
        assert (ended.code, ended.out) == (1, "")
        assert "1 message" in ended.err
    typed("yes\n")
    ended = desk.ok("messages", "erase", one)
    assert "1 erased" in ended.out
    assert texts(desk) == ["one that stays"]
    shown = desk.json("messages", "show", one)
    assert (shown["state"], shown["message"]) == ("erased", None)
    assert "one that goes" not in desk.ok("messages", "show", one).out
    assert desk.run("messages", "erase", two, one, "--yes").code == 1  # all or none
    assert texts(desk) == ["one that stays"]


def test_what_is_reported_is_so(desk):
    ids = say(desk, *(f"say {number}" for number in range(3)))
    assert desk.json("messages", "erase", *ids[:2], ids[0], "--yes") == {
        "erased": 2, "key_destruction": "complete", "projection_invalidation": "complete",
    }  # fmt: skip
    audit = desk.json("audit")
    assert audit["ok"]
    assert audit["scopes"][0]["bodies"]["erased"] == 2
    assert desk.json("stats")["scopes"][0]["pending"]["erasures"] == 0


def test_older_than_spares_the_pinned_and_the_young(desk, monkeypatch):
    old = say(desk, "old", "old and pinned", "old and archived")
    desk.ok("messages", "pin", old[1])
    desk.ok("messages", "archive", old[2])
    now = SystemClock().now()
    monkeypatch.setattr(SystemClock, "now", lambda self: now + 3 * DAY // 4)
    say(desk, "young")
    monkeypatch.setattr(SystemClock, "now", lambda self: now + 3 * DAY // 2)
    assert desk.json("messages", "erase", "--older-than", "2", "--yes")["erased"] == 0
    ended = desk.run("messages", "erase", "--older-than", "1", "--yes", "--json")
    assert ended.json["erased"] == 2
    assert "1 pinned" in ended.err
    assert sorted(texts(desk, "--archived")) == ["old and pinned", "young"]
    assert desk.json("messages", "erase", "--older-than", "1", "--pinned-too", "--yes")["erased"] == 1
    assert texts(desk, "--archived") == ["young"]


def test_batches(desk, monkeypatch):
    monkeypatch.setattr("journal.limits.BATCH_MAX_EVENTS", 2)
    say(desk, *(f"say {number}" for number in range(5)))
    assert desk.json("messages", "erase", "--older-than", "0", "--yes") == {
        "erased": 5, "key_destruction": "complete", "projection_invalidation": "complete",
    }  # fmt: skip
    assert desk.json("audit")["ok"]


def test_an_agent_finds_the_erasure_done_that_it_asked_for(desk):
    (message,) = say(desk, "one that goes")
    asked = {"action": "remove", "target": "memory", "memory_id": message, "erase": True}
    with desk.agent() as agent:
        assert agent.code(MANAGE_KNOWLEDGE, asked) == "gate_failed"
    desk.ok("messages", "erase", message, "--yes")
    with desk.agent() as agent:
        assert agent.value(MANAGE_KNOWLEDGE, asked)["key_destruction"] == "complete"


def test_confirm_finds_requests_where_conversations_lie(desk):
    elsewhere(desk)
    (message, other) = say(desk, "one that goes 서울", "one that stays")
    for asked in (message, other):
        with desk.agent() as agent:
            asking = {"action": "remove", "target": "memory", "memory_id": asked, "erase": True}
            assert agent.code(MANAGE_KNOWLEDGE, asking) == "gate_failed"
    first, second = desk.json("confirm", "list")
    assert {first["workspace_id"], second["workspace_id"]} == {"talk"}
    assert (first["target"], second["target"]) == (message, other)
    human = desk.ok("confirm", "list").out
    assert "one that goes 서울" in human
    assert "talk" in human
    done = desk.json("confirm", "approve", first["confirmation_id"][:24])
    assert (done["operation"], done["subject"], done["workspace_id"]) == ("message_erased", message, "talk")
    assert desk.json("confirm", "deny", second["confirmation_id"])["decision"] == "denied"
    assert desk.json("confirm", "list") == []
    assert texts(desk) == ["one that stays"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["erase"], 2),
        (["erase", "ID", "--older-than", "3"], 2),
        (["erase", "ID", "--pinned-too"], 2),
        (["erase", "--older-than", "-1"], 2),
        (["erase", "message_" + 32 * "0", "--yes"], 1),
        (["show", "message_" + 32 * "0"], 1),
        (["show", "candidate_" + 64 * "0"], 1),
        (["pin", "x"], 1),
    ],
)
def test_what_cannot_be_done(desk, words, code):
    (message,) = say(desk, "one")
    ended = desk.run("messages", *(message if word == "ID" else word for word in words))
    assert (ended.code, ended.out) == (code, "")
    assert texts(desk) == ["one"]
