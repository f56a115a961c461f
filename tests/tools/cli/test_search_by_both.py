"""engram search where the host has a provider of embeddings: both channels, and what each brought."""

from __future__ import annotations

import pytest

from tests.projections.vector.endpoints import status
from tests.tools.cli.desk import ready
from tests.tools.cli.talking import say
from tests.tools.cli.test_embeddings_shown import naming
from tools.host.capabilities import SEARCH_MEMORY

TEXTS = ("The cache was deployed.", "The cache is cold today, and nobody knows why.", "Deploy it.", "Tea.")


@pytest.fixture
def desk(tmp_path, capsys, served):
    desk = ready(tmp_path, capsys, "--policy", "accept-asserted")
    with desk.agent() as agent:
        for text in TEXTS:
            agent.remember(text)
    say(desk, *TEXTS)
    naming(desk, served)
    return desk


def results(value):
    return [*value["records"], *value["messages"]["results"]]


def test_what_each_channel_brought_adds_up_to_the_score(desk):
    desk.json("projections", "rebuild", "vector")
    value = desk.json("search", "cache deployed", "--explain")
    assert value["messages"]["used"] == "hybrid"
    assert len(value["records"]) == len(TEXTS), "what no word finds comes in by meaning"
    for each in results(value):
        told = each["explanation"]["meaning"]
        assert told["words"] + told["base"] + told["share"] == each["score"]
        total = 100 * told["similarity"] + sum(near["hundredths"] * near["similarity"] for near in told["neighbours"])
        again = total // 100
        for prior in told["priors"]:
            again = again * prior["thousandths"] // 1000
        assert (again, again * told["weight_thousandths"] // 1000) == (told["meaning"], told["share"])
        assert each["explanation"]["score"] > 0 or not told["words"]
    assert any(each["explanation"]["meaning"]["neighbours"] for each in value["messages"]["results"])
    out = desk.ok("search", "cache deployed", "--explain").out
    assert "  words 1,000,000 + base 3,600,000 + meaning " in out


def test_what_is_not_embedded_yet_is_told_as_not_known(desk):
    desk.json("projections", "rebuild", "vector")
    say(desk, "A parrot.")
    (found,) = [
        each
        for each in desk.json("search", "parrot", "--messages", "--explain")["messages"]["results"]
        if each["message"] == "A parrot."
    ]
    assert (found["similarity"], found["explanation"]["meaning"]["similarity"]) == (None, None)
    assert "meaning: 0, for it is not embedded yet" in desk.ok("search", "parrot", "--messages", "--explain").out


def test_it_ranks_as_agents_see_it(desk):
    desk.json("projections", "rebuild", "vector")
    with desk.agent() as agent:
        both = {"minimum_channels": "lexical_and_semantic", "network": "allow"}
        packets = agent.search("cache deployed", capability_policy=both)["records"]
        found = agent.value(SEARCH_MEMORY, {"query": "cache deployed"})["results"]
    value = desk.json("search", "cache deployed")
    assert [(each["record"]["record_id"], each["score"]) for each in value["records"]] == [
        (packet["record"]["record_id"], packet["score"]) for packet in packets
    ]
    assert [(each["id"], each["score"]) for each in value["messages"]["results"]] == [
        (each["id"], each["score"]) for each in found
    ]


def test_a_query_that_does_not_fit_is_refused_before_anybody_is_asked(desk, served):
    for query in ("", "q" * 90_000):
        for only in ((), ("--records",)):
            ended = desk.run("search", query, *only)
            assert (ended.code != 0, ended.out) == (True, "")
            assert "Traceback" not in ended.err
    assert served.asked == []


def test_words_alone_where_a_person_wants_it(desk, served):
    desk.json("projections", "rebuild", "vector")
    asked = len(served.asked)
    value = desk.json("search", "cache deployed", "--explain", "--words")
    assert value["messages"]["used"] == "lexical"
    assert all(each["explanation"]["meaning"] is None for each in results(value))
    assert len(served.asked) == asked


def test_records_that_are_not_embedded_yet_are_found_by_words_and_it_says_so(desk):
    ended = desk.run("search", "cache deployed", "--records")
    assert ended.code == 0
    assert "by words alone" in ended.err
    assert "The cache was deployed." in ended.out


def test_an_endpoint_that_is_away_leaves_words(desk, served, monkeypatch):
    desk.json("projections", "rebuild", "vector")
    served.replies = [status(500)] * 20
    monkeypatch.setattr("journal.limits.EMBEDDING_BACKOFF_SECONDS", 0.001)
    value = desk.json("search", "cache deployed")
    assert value["messages"]["used"] == "lexical"
    assert len(value["records"]) == 3
