"""A record that the provider refuses for good takes part by words alone; the receipt says so, and can be derived."""

from __future__ import annotations

import pytest

from journal import limits
from tests.projections.vector.wordly import down, refusing
from tests.tools.memory.keeping import kept_search, sealed_anew, shown, value_of
from tests.tools.memory.test_semantic_search import BOTH, TEXTS, channel_with, check, cited, refused, texts
from tools.memory.receipt_check import Verdict

BAD = "noon"  # in two of five texts, one of which is nothing else
MARK = "-some-by-words-alone"


pytestmark = pytest.mark.usefixtures("everything_meant")


@pytest.fixture
def agent(world, provider, monkeypatch):
    monkeypatch.setattr(limits, "VECTOR_RETRY_SECONDS", 0)
    caller = world.caller()
    caller.engine.semantic = channel_with(world, provider)
    for number, text in enumerate(TEXTS[:4]):
        caller.remember(text, citations=[cited(number)])
    return caller


def receipt_of(document):
    return value_of(document)["rank_receipt"]


def test_it_is_found_by_its_words_and_not_by_what_it_means(agent, provider):
    provider.failing = refusing(BAD)
    value = agent.search("noon", capability_policy=BOTH)
    assert texts(value)[0] == "biscuits for tea at noon"
    assert set(texts(value)) == set(TEXTS[:4])
    assert value["rank_receipt"]["profile"] == "semantic_v1"
    assert value["rank_receipt"]["scoring_formula_ref"].endswith(MARK)
    value = agent.search("nightly", capability_policy=BOTH)
    assert "biscuits for tea at noon" not in texts(value)
    assert len(texts(value)) == 3


def test_the_receipt_says_nothing_of_it_where_all_are_embedded(agent, provider):
    plain = receipt_of(kept_search(agent, "noon", capability_policy=BOTH))
    assert not plain["scoring_formula_ref"].endswith(MARK)


def test_the_answer_is_derived_again_and_an_altered_one_found(world, agent, provider):
    provider.failing = refusing(BAD)
    document = kept_search(agent, "tea noon", capability_policy=BOTH)
    assert receipt_of(document)["scoring_formula_ref"].endswith(MARK)
    assert check(world, document, provider).verdict is Verdict.DERIVED
    records = value_of(document)["records"]
    records[0], records[1] = records[1], records[0]
    assert check(world, sealed_anew(document), provider).verdict is Verdict.ALTERED


def test_once_it_is_embedded_the_answer_of_before_is_no_lie(world, agent, provider):
    provider.failing = refusing(BAD)
    before = kept_search(agent, "tea noon", capability_policy=BOTH)
    provider.failing = None
    projections = agent.engine.projections(agent.scope)
    agent.engine.semantic._of(projections)[0].retry()
    assert agent.engine.semantic.step(projections) == 0
    after = kept_search(agent, "tea noon", capability_policy=BOTH)
    assert not receipt_of(after)["scoring_formula_ref"].endswith(MARK)
    assert receipt_of(after)["profile_config_digest"] != receipt_of(before)["profile_config_digest"]
    assert check(world, after, provider).verdict is Verdict.DERIVED
    found = check(world, before, provider)
    assert found.verdict is Verdict.UNVERIFIABLE
    assert "words alone" in (found.reason or "")


def test_what_was_whole_is_no_lie_while_the_embeddings_are_gone_or_one_is_refused(world, agent, provider):
    document = kept_search(agent, "tea noon", capability_policy=BOTH)
    projections = agent.engine.projections(agent.scope)
    embedder = agent.engine.semantic._of(projections)[0]
    (name,) = embedder._folders.names()
    embedder._folders.remove(name)
    found = check(world, document, provider)
    assert (found.verdict, "RANKING_UNAVAILABLE" in (found.reason or "")) == (Verdict.UNVERIFIABLE, True)
    provider.failing = refusing(BAD)
    while agent.engine.semantic.step(projections):
        pass
    assert check(world, document, provider).verdict is Verdict.UNVERIFIABLE
    agent.forget(shown(document)[2])
    assert check(world, document, provider).verdict in {Verdict.UNVERIFIABLE, Verdict.ORDER_UNDERIVABLE}


def test_forgetting_it_opens_the_whole_channel_again(agent, provider):
    provider.failing = refusing(BAD)
    document = kept_search(agent, "noon", capability_policy=BOTH)
    agent.forget(shown(document)[0])
    after = receipt_of(kept_search(agent, "noon", capability_policy=BOTH))
    assert not after["scoring_formula_ref"].endswith(MARK)


def test_a_provider_that_is_down_leaves_nothing_to_words(agent, provider):
    provider.failing = down
    while agent.engine.semantic.step(agent.engine.projections(agent.scope)):
        pass
    assert refused(agent) == "RANKING_UNAVAILABLE"


def test_more_than_a_few_shut_the_channel(agent, provider):
    agent.remember("noon", citations=[cited(9)])
    provider.failing = refusing(BAD)
    assert refused(agent) == "RANKING_UNAVAILABLE"


def test_pages_of_it_are_one_ranking(agent, provider):
    provider.failing = refusing(BAD)
    whole = agent.search("tea noon", capability_policy=BOTH)["records"]
    first = agent.search("tea noon", capability_policy=BOTH, limit=2)
    rest = agent.search("tea noon", capability_policy=BOTH, limit=5, page_cursor=first["next_page_cursor"])
    assert first["records"] + rest["records"] == whole
