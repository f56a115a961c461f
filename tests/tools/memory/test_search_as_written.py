"""Records found as they are written: phrases, identifiers, dates and numbers; and no query is an error."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from tests.tools.memory.keeping import kept_search
from tests.tools.memory.world import SCOPE, binding
from tools.memory.receipt_check import ReceiptVerifier, Verdict

TEXTS = (
    "The nightly build moved to the second machine.",
    "The build moved nightly, and the machine is the second.",
    "A build of the night.",
    "야간 빌드를 금요일로 옮겼다.",
    "빌드를 야간에 옮긴 것은 금요일이다.",
)


@pytest.fixture
def agent(world):
    caller = world.caller()
    for text in TEXTS:
        caller.remember(text)
    return caller


def texts(value):
    return [packet["record"]["components"][0]["text"] for packet in value["records"]]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ('"nightly build"', {0}), ('"BUILD moved  nightly"', {1}), ('"second machine" build', {0}),
        ("\u201cthe second\u201d", {0, 1}), ('"야간 빌드"', {3}), ("\u300c빌드를 야간에\u300d", {4}),
        ('"of the"', {2}), ('"nightly build" "second machine"', {0}),
    ],
)  # fmt: skip
def test_a_phrase_is_found_as_it_is_written_before_all_else(agent, query, found):
    texts_found = texts(agent.search(query))
    assert set(texts_found[: len(found)]) == {TEXTS[number] for number in found}
    assert set(texts_found) == set(texts(agent.search(re.sub('["\u201c\u201d\u300c\u300d]', " ", query)))) | {
        TEXTS[number] for number in found
    }, "and what has its words follows"


def test_without_quotes_its_words_are_found_wherever_they_stand(agent):
    assert set(texts(agent.search("nightly build"))) == set(TEXTS[:3])


def test_a_phrase_that_nothing_holds_leaves_its_words(agent):
    assert texts(agent.search('"machine nightly build"')) == texts(agent.search("machine nightly build"))


def test_pages_of_any_size_are_one_ranking(world):
    caller = world.caller()
    for number in range(60):
        caller.remember(f"The nightly build {number} moved{' again' * (number % 7)}.")
        caller.remember(f"build nightly {number}")
    query = 'again "nightly build"'
    held = caller.search(query, limit=20)["records"]
    whole: list[dict[str, Any]] = []
    more: dict[str, str] = {}
    while True:
        value = caller.search(query, limit=7, **more)
        whole += value["records"]
        if "next_page_cursor" not in value:
            break
        more = {"page_cursor": value["next_page_cursor"]}
    assert (whole[:20], len(whole)) == (held, 120)
    scores = [packet["score"] for packet in whole]
    assert scores == sorted(scores, reverse=True)
    holds = ["nightly build" in text for text in texts({"records": whole})]
    assert holds == [True] * 60 + [False] * 60


def test_its_receipt_can_be_derived(world, agent):
    document = kept_search(agent, '"nightly build"')
    agent.remember("Another nightly build.")
    with ReceiptVerifier(world.journal, binding(SCOPE), None) as verifier:
        assert verifier.verify(document).verdict is Verdict.DERIVED


WRITTEN = (
    "2026-11-29", "v1.2.3", "ENOENT", "#4797", "src/journal/log.py", "std::vector", "user@example.org", "1,234,567",
    "0x7ffe", "C++", "C#", ".NET", "--no-verify", "10.0.0.1", "HTTP/2", "user_name", "camelCaseName", "한국어문서v2",
    "3층", "E11000", "a-b-c", "README.md", "TCP:443",
)  # fmt: skip


@pytest.mark.parametrize("written", WRITTEN)
def test_what_is_written_so_is_found_so(world, written):
    caller = world.caller()
    wanted = f"It says {written} there, and nothing else of note."
    for text in (
        wanted,
        "It says nothing there, and nothing else of note.",
        "Something of 2025-01-01, v9.9 and EPERM.",
    ):
        caller.remember(text)
    assert texts(caller.search(written))[0] == wanted
    assert texts(caller.search(f'"{written}"'))[0] == wanted


def test_no_query_is_an_error(agent):
    rng = random.Random(5)
    signs = [*"\"'`/\\-:*+?!()[]{}^~|&<>=,.;#@%$_ \t\n\u201c\u201d\u300c\u300d", "AND", "OR", "NOT", "NEAR", "build"]
    for _ in range(300):
        query = "".join(rng.choices(signs, k=rng.randrange(1, 30)))
        assert "records" in agent.search(query), query
