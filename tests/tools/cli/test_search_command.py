"""engram search: a person sees what agents see, and why."""

from __future__ import annotations

import pytest

from tests.tools.cli.talking import elsewhere, say
from tests.tools.memory.world import SECOND
from tools.host.capabilities import SEARCH_MEMORY


def test_records_and_messages_are_ranked_as_agents_see_them(open_desk):
    with open_desk.agent() as agent:
        for text in ("The cache was deployed.", "The cache is cold.", "Nothing of the kind."):
            agent.remember(text)
        packets = agent.search("cache deployed")["records"]
        ranked = [(packet["record"]["record_id"], packet["score"]) for packet in packets]
    say(open_desk, "deploy the cache", "the cache again", "tea")
    with open_desk.agent() as agent:
        found = agent.value(SEARCH_MEMORY, {"query": "cache deployed"})["results"]
    value = open_desk.json("search", "cache deployed")
    assert [(each["record"]["record_id"], each["score"]) for each in value["records"]] == ranked
    assert len(ranked) == 2
    assert [(each["id"], each["score"]) for each in value["messages"]["results"]] == [
        (each["id"], each["score"]) for each in found
    ]
    assert all("explanation" not in each for each in value["records"])
    out = open_desk.ok("search", "cache deployed").out
    assert "The cache is cold." in out
    assert "the cache again" in out
    assert "tea" not in out


def test_the_explanation_adds_up_to_the_score(open_desk):
    with open_desk.agent() as agent:
        agent.remember("The cache was deployed.")
        agent.remember("Something else was deployed.")
    say(open_desk, "deploy the cache", "deploy", "tea")
    value = open_desk.json("search", "cache deployed zebra", "--explain")
    results = [*value["records"], *value["messages"]["results"]]
    assert len(results) == 4
    for each in results:
        told = each["explanation"]
        assert told["score"] == each["score"] > 0
        assert told["own"] == sum(share["share"] for share in told["terms"])
        assert told["priors"] == []
        assert told["score"] == told["own"] * told["tenths"] + sum(one["share"] for one in told["neighbours"])
        assert [share["term"] for share in told["terms"]].count("zebra") == 1
    told = value["messages"]["results"][0]["explanation"]
    (deploy,) = [share for share in told["terms"] if share["term"] == "deploy"]
    assert (deploy["containing"], deploy["times"], deploy["fields"]) == (2, 1, {"text": 1000})
    assert [one["distance"] for one in told["neighbours"]] == [1]
    out = open_desk.ok("search", "cache deployed zebra", "--explain").out
    assert f"  deploy: {deploy['weight']:,} x {deploy['impact']} = {deploy['share']:,} (in 2;" in out


def test_an_explanation_fits_a_narrow_terminal(desk, monkeypatch):
    say(desk, "the cache " * 9 + "supercalifragilisticexpialidocious")
    asked = ("search", "supercalifragilisticexpialidocious cache", "--explain")
    assert max(map(len, desk.ok(*asked).out.split("\n"))) > 80
    monkeypatch.setattr("tools.cli.terminal._columns", lambda: 80)
    assert max(map(len, desk.ok(*asked).out.split("\n"))) <= 80


def test_a_part_of_a_text_is_said_to_be_one(desk):
    say(desk, "배포가 실패했다", "unrelated")
    (found,) = desk.json("search", "패했", "--messages", "--explain")["messages"]["results"]
    if found["score"] == 0:
        assert (found["found_by"], found["explanation"]) == ("part of the text", None)
    (part,) = desk.json("search", "nrelat", "--messages", "--explain")["messages"]["results"]
    assert (part["score"], part["found_by"], part["explanation"]) == (0, "part of the text", None)
    assert "found as a part of the text" in desk.ok("search", "nrelat", "--explain").out


def test_one_kind_alone_and_its_filters(open_desk):
    with open_desk.agent() as agent:
        agent.remember("cache of records")
    say(open_desk, "cache of users", "cache of users")
    say(open_desk, "cache of assistants", role="assistant")
    assert set(open_desk.json("search", "cache", "--records")) == {"records"}
    value = open_desk.json("search", "cache", "--messages", "--role", "assistant")
    assert set(value) == {"messages"}
    assert [each["message"] for each in value["messages"]["results"]] == ["cache of assistants"]
    assert open_desk.json("search", "cache", "--messages", "--limit", "1")["messages"]["count"] == 1
    assert open_desk.json("search", "cache", "--messages", "--tag", "nobody")["messages"]["count"] == 0


def test_purposes(open_desk):
    with open_desk.agent() as agent:
        agent.remember("cache of the first purpose")
    assert open_desk.json("search", "cache", "--purpose", SECOND)["records"] == []
    assert open_desk.run("search", "cache", "--purpose", "purpose:nobody").code == 1


def test_records_and_messages_may_lie_apart(open_desk):
    elsewhere(open_desk)
    with open_desk.agent() as agent:
        agent.remember("cache of records")
    say(open_desk, "cache of messages")
    value = open_desk.json("search", "cache")
    assert (len(value["records"]), value["messages"]["count"]) == (1, 1)


@pytest.mark.parametrize(
    "words", [[], ["q", "--since", "soon"], ["q", "--records", "--messages"], ["q", "--limit", "51"]]
)
def test_wrong_use(desk, words):
    assert desk.run("search", *words).code == 2


def test_what_a_phrase_adds_is_told(open_desk):
    with open_desk.agent() as agent:
        agent.remember("The cache was deployed today.")
        agent.remember("A deployed cache.")
    asked = ("search", '"cache was deployed"', "--records", "--explain")
    first, second = open_desk.json(*asked)["records"]
    told = first["explanation"]
    assert told["phrases"] > 0 == second["explanation"]["phrases"]
    assert told["score"] + told["phrases"] == first["score"]
    assert (
        f"  holds what is in quotes: {told['score']:,} + {told['phrases']:,} = {first['score']:,}"
        in open_desk.ok(*asked).out
    )
