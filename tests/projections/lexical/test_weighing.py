"""Documents that are weighed together: each is what it is by itself."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.lexical.documents import Document, Weigher
from projections.lexical.keyed import TokenKey
from projections.lexical.profile import RECORD_FIELDS
from projections.lexical.weighing import Together

KEY = bytes(range(32))
WORDS = [
    "cache",
    "\uc54c\ub9bc\uc744",
    "the",
    "src/main.py",
    "\uc11c\ubc84",
    "deploy",
    "2026-11-29",
    "\u6771\u4eac\u90fd",
    "x" * 100,
    "\ud800",
    "?",
]

names = st.sampled_from([field.name for field in RECORD_FIELDS])
texts = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
documents = st.builds(
    lambda fields, main, source, labels: Document(tuple(fields), main, source, tuple(labels)),
    st.lists(st.tuples(names, texts), max_size=9), texts, st.sampled_from(["", "a", "b"]), st.lists(texts, max_size=2),
)  # fmt: skip


def weigher():
    return Weigher(TokenKey(KEY), RECORD_FIELDS)


def one_by_one(found):
    alone = weigher()
    return [alone.arriving(document, order) for document, order in found]


@given(st.lists(documents, min_size=1, max_size=20))
def test_they_are_what_each_is_by_itself(found):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("journal.limits.LEXICAL_TOGETHER_MIN_DOCUMENTS", 1)
        numbered = [(document, 3 * number) for number, document in enumerate(found)]
        assert Together(weigher()).arriving(numbered) == one_by_one(numbered)


def test_a_term_in_every_field_adds_up_in_the_profiles_order():
    chosen = random.Random(5)
    found = []
    for number in range(200):
        fields = [
            (
                field.name,
                " ".join(chosen.choices(["cache", "disk", "the", "\uc11c\ubc84\ub97c"], k=chosen.randint(1, 300))),
            )
            for field in RECORD_FIELDS
            for _ in range(chosen.randint(0, 2))
        ]
        chosen.shuffle(fields)
        found.append((Document(tuple(fields)), number))
    together = Together(weigher()).arriving(found)
    assert together == one_by_one(found)
    assert len({weighed.impacts for weighed, _ in together}) > 20


def test_many_documents_keep_their_order(monkeypatch):
    monkeypatch.setattr("projections.lexical.weighing._COUNTED_BELOW", 10)
    found = [(Document((("primary", f"cache w{number}"),)), number) for number in range(50)]
    assert Together(weigher()).arriving(found) == one_by_one(found)


def test_nothing_gives_nothing():
    assert Together(weigher()).arriving([]) == []
    nothing = [(Document(()), number) for number in range(20)]
    assert {weighed.forward for weighed, _ in Together(weigher()).arriving(nothing)} == {b""}


@pytest.mark.parametrize("count", [1, 20])
def test_an_unknown_field_is_refused(count):
    with pytest.raises(ValueError, match="field"):
        Together(weigher()).arriving([(Document((("title", "cache"),)), 0)] * count)
